"""scripts/training/engine/stage_folder.py: plain transformers stops at the end of an answer of a stage's model, and the
code that trained it is known."""

import json
import subprocess
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.release.release import changed_files
from scripts.tokens.pack import pack
from scripts.tokens.tokenizer import train as learn_tokenizer
from scripts.training.base import base
from scripts.training.engine.stage_folder import code_facts
from tests.training.conftest import scratch
from tests.training.test_train import run

ANSWER = "It reads the file."


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def made(tmp_path) -> tuple[Path, Path]:
    """(base model with a tokenizer like Qwen2.5's, shards of chats that all have one answer)."""
    chats = [
        {
            "id": str(number),
            "language": "chat",
            "messages": [
                {"role": "user", "content": f"What does function {number} do? {number * '.'}"},
                {"role": "assistant", "content": ANSWER},
            ],
        }
        for number in range(40)
    ]
    for split, examples in {"train": chats[8:], "validation": chats[:8]}.items():
        write_jsonl(tmp_path / f"data/{split}.jsonl.zst", examples)
    write_manifest(tmp_path / "data", ["train.jsonl.zst", "validation.jsonl.zst"])
    readme = {"text": Path("README.md").read_text(), "language": "prose"}
    write_jsonl(tmp_path / "texts/train.jsonl.zst", [readme])
    write_manifest(tmp_path / "texts", ["train.jsonl.zst"])
    learn_tokenizer([tmp_path / "texts"], TokenizerSettings(vocab_size=512), tmp_path / "tokenizer")
    shape = {"vocab_size": None, "max_position_embeddings": 256}
    base(scratch(shape=shape), 1, tmp_path / "tokenizer", tmp_path / "base")
    pack(tmp_path / "data", tmp_path / "tokenizer", 160, tmp_path / "shards")
    return tmp_path / "base", tmp_path / "shards"


def test_plain_transformers_stops_at_the_end_of_an_answer(made, tmp_path):
    origin, shards = made
    theirs = json.loads((origin / "generation_config.json").read_text())
    assert theirs["eos_token_id"] == AutoTokenizer.from_pretrained(origin).convert_tokens_to_ids("<|endoftext|>")
    (origin / "generation_config.json").write_text(json.dumps({**theirs, "repetition_penalty": 1.01}))
    write_manifest(origin, [path.name for path in origin.iterdir() if path.name != "manifest.json"])
    done = run(origin, shards, tmp_path, sequence_length=160, steps=40, eval_steps=40, save_steps=40, log_steps=40)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    tokenizer, model = AutoTokenizer.from_pretrained(out), AutoModelForCausalLM.from_pretrained(out)
    question = [{"role": "user", "content": "What does function 3 do? ..."}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    written = model.generate(**prompt, max_new_tokens=60, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(written) == f"{ANSWER}<|im_end|>"
    config = json.loads((out / "generation_config.json").read_text())
    assert config["eos_token_id"] == tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert config["repetition_penalty"] == 1.01
    assert "generation_config.json" in json.loads((out / "manifest.json").read_text())["files"]


def test_changed_code_is_kept_as_a_patch_whatever_the_users_diffs_look_like(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    settings = {"color.ui": "always", "diff.external": "/bin/echo", "diff.noprefix": "true"}
    settings |= {"diff.mnemonicPrefix": "true", "user.name": "x", "user.email": "x@example.com"}
    for name, value in settings.items():
        git("config", "--global", name, value)
    code = tmp_path / "scripts/a.py"
    code.parent.mkdir()
    code.write_bytes(b"# caf\xe9\nrate = 1\n")
    for words in (("init", "-q"), ("add", "scripts"), ("commit", "-qm", "x")):
        git(*words)
    commit = git("rev-parse", "HEAD")
    assert code_facts() == {"git_commit": commit.strip(), "git_diff": None}
    code.write_text("rate = 2\n")
    facts = code_facts()
    assert facts["git_commit"] == commit.strip() and changed_files(facts["git_diff"]) == ["scripts/a.py"]
    assert "\n-# caf\ufffd\n-rate = 1\n+rate = 2\n" in facts["git_diff"]


def test_where_git_is_not_installed_a_stage_does_not_say_its_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_facts() == {"git_commit": None, "git_diff": None}
