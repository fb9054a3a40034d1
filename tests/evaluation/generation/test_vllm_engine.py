"""scripts/evaluation/generation/vllm_engine.py: what goes to vLLM and comes back, with one that echoes; `make soak`
with a real one."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from transformers import Qwen2ForCausalLM

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.generation.model import load
from scripts.evaluation.generation.transformers_engine import encode
from scripts.evaluation.generation.vllm_engine import generate as generate_by_vllm
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.evaluation import Qa
from scripts.experiment.settings.record import to_json
from scripts.training.model import logits_fingerprint
from tests import forked
from tests.evaluation.generation.test_transformers_engine import GREEDY, PROMPTS, SEED, changed, encoder  # noqa: F401

ECHO = """
import json, os
from types import SimpleNamespace
__version__ = "0.0.echo"
SamplingParams = dict

class LLM:
    def __init__(self, **options):
        self.options = options

    def generate(self, prompts, sampling):
        request = {"options": self.options, "prompts": prompts, "sampling": sampling}
        open(os.environ["REQUEST"], "w").write(json.dumps(request))
        ids = [(*prompt["prompt_token_ids"], one["stop_token_ids"][0]) for prompt, one in zip(prompts, sampling)]
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=row)]) for row in ids]
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """Puts a module `vllm` on the worker's path that repeats each prompt; returns the file that records its input."""
    (tmp_path / "vllm.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("REQUEST", str(tmp_path / "request.json"))
    return tmp_path / "request.json"


def test_rows_are_sent_with_their_seeds_and_come_back_in_order(encoder, tmp_path, echo):  # noqa: F811
    settings = changed(GREEDY, temperature=0.8, top_p=0.9, samples=2, repetition_penalty=1.1)
    prompts = ["def f(x):\n", "class 你好:", [{"role": "user", "content": "<|im_end|>?"}]]
    written, engine = generate_by_vllm(tmp_path, "float32", encoder, 512, prompts, settings, SEED, sys.executable)
    assert engine == {"name": "vllm", "version": "0.0.echo"}
    assert written[:2] == [["def f(x):\n"] * 2, ["class 你好:"] * 2]
    assert written[2] == ["system\nYou are a helpful assistant."] * 2  # a turn's end ends the text
    request = json.loads(echo.read_text())
    assert request["options"]["model"] == str(tmp_path)
    assert request["options"]["generation_config"] == "vllm"
    assert [row["prompt_token_ids"] for row in request["prompts"][::2]] == [
        encode(encoder, prompt)[0] for prompt in prompts
    ]
    assert len({row["seed"] for row in request["sampling"]}) == 6
    for row in request["sampling"]:
        assert (row["temperature"], row["top_p"], row["repetition_penalty"], row["max_tokens"]) == (0.8, 0.9, 1.1, 24)


def test_a_prompt_that_is_too_long_is_refused_before_vllm_starts(encoder, tmp_path, echo):  # noqa: F811
    with pytest.raises(UserError, match="exceed the model's 30 positions"):
        generate_by_vllm(tmp_path, "float32", encoder, 30, ["ab" * 600], GREEDY, SEED, sys.executable)
    assert not echo.exists()


def test_an_environment_without_vllm_or_python_is_a_one_line_error(encoder, tmp_path, capfd):  # noqa: F811
    with pytest.raises(UserError, match="vLLM ended with exit code 1; the lines above say why"):
        generate_by_vllm(tmp_path, "float32", encoder, 512, ["x"], GREEDY, SEED, sys.executable)
    assert "No module named 'vllm'" in capfd.readouterr().err
    with pytest.raises(UserError, match="/no/python: No such file or directory; `vllm` in the machine file"):
        generate_by_vllm(tmp_path, "float32", encoder, 512, ["x"], GREEDY, SEED, "/no/python")


def test_a_suite_generates_with_vllm_and_names_it(model_folder, datasets, tmp_path, echo):
    settings = Qa(datasets=["instruct"], max_new_tokens=24)
    line = ["-m", "scripts.evaluation.qa", "--model", model_folder, "--datasets", datasets, "--out", tmp_path / "out"]
    line += ["--settings", to_json(settings), "--seed", "7", "--vllm", sys.executable]
    done = forked.run([sys.executable, *line])
    assert done.returncode == 0, done.stderr
    assert read_json(tmp_path / "out/scores.json")["engine"] == {"name": "vllm", "version": "0.0.echo"}
    assert json.loads(echo.read_text())["options"]["model"] == str(model_folder.resolve())
    assert {item["written"][0] for item in read_jsonl(tmp_path / "out/items.jsonl.zst")} == {
        "system\nYou are a helpful assistant."
    }


def test_vllm_gets_the_precision_of_the_saved_weights_where_our_torch_sees_no_gpu(model_folder, tmp_path, echo):
    folder = tmp_path / "half"
    shutil.copytree(model_folder, folder)
    Qwen2ForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16).save_pretrained(folder)
    logits_fingerprint.save(folder, logits_fingerprint.load_float32(folder))
    write_manifest(folder, ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
    load(folder, sys.executable).generate(["x = 1"], GREEDY, SEED)
    assert json.loads(echo.read_text())["options"]["dtype"] == "bfloat16"


def test_vllm_that_the_machine_does_not_name_is_a_one_line_error(tmp_path):
    config = read_yaml(Path("config/config.yaml"))
    config["evaluation"]["qa"] = {"engine": "vllm"}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(config))
    command = ["snakemake", "--profile", "local", "-n", "--configfile", tmp_path / "x.yaml"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    line = "error: config/machines/local.yaml: vllm: required by evaluation.qa.engine; set it to the Python of vLLM's"
    line += " environment"
    assert done.stderr.splitlines()[-1] == line
