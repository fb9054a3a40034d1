"""scripts/evaluation/vllm.py: what goes to vLLM and comes back, with one that echoes; `make soak` with a real one."""

import json
import os
import sys

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from scripts.common.cli import UserError
from scripts.evaluation.generate import encode, generate
from scripts.evaluation.vllm import generate as generate_by_vllm
from tests.evaluation.test_generate import GREEDY, PROMPTS, encoder  # noqa: F401

ECHO = """
import json, os
from types import SimpleNamespace
__version__ = "0.0.echo"
SamplingParams = dict

class LLM:
    def __init__(self, **options):
        self.options = options

    def generate(self, prompts, sampling):
        said = {"options": self.options, "prompts": prompts, "sampling": sampling}
        open(os.environ["SAID"], "w").write(json.dumps(said))
        ids = [(*prompt["prompt_token_ids"], one["stop_token_ids"][0]) for prompt, one in zip(prompts, sampling)]
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=row)]) for row in ids]
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """Puts a module `vllm` on the worker's path that writes each prompt again; the file where it says what it got."""
    (tmp_path / "vllm.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SAID", str(tmp_path / "said.json"))
    return tmp_path / "said.json"


def test_rows_go_out_with_their_seeds_and_come_back_in_order(encoder, tmp_path, echo):  # noqa: F811
    settings = {**GREEDY, "temperature": 0.8, "top_p": 0.9, "samples": 2, "repetition_penalty": 1.1}
    prompts = ["def f(x):\n", "class 你好:", [{"role": "user", "content": "<|im_end|>?"}]]
    written, engine = generate_by_vllm(tmp_path, "float32", encoder, 512, prompts, settings, sys.executable)
    assert engine == {"name": "vllm", "version": "0.0.echo"}
    assert written[:2] == [["def f(x):\n"] * 2, ["class 你好:"] * 2]
    assert written[2] == ["system\nYou are a helpful assistant."] * 2  # a turn's end ends the text
    said = json.loads(echo.read_text())
    assert said["options"]["model"] == str(tmp_path)
    assert said["options"]["generation_config"] == "vllm"
    assert [row["prompt_token_ids"] for row in said["prompts"][::2]] == [
        encode(encoder, prompt)[0] for prompt in prompts
    ]
    assert len({row["seed"] for row in said["sampling"]}) == 6
    for row in said["sampling"]:
        assert (row["temperature"], row["top_p"], row["repetition_penalty"], row["max_tokens"]) == (0.8, 0.9, 1.1, 24)


def test_what_is_too_long_is_refused_before_vllm_starts(encoder, tmp_path, echo):  # noqa: F811
    with pytest.raises(UserError, match="exceed the model's 30 positions"):
        generate_by_vllm(tmp_path, "float32", encoder, 30, ["ab" * 600], GREEDY, sys.executable)
    assert not echo.exists()


def test_an_environment_without_vllm_or_python_is_one_line(encoder, tmp_path, capfd):  # noqa: F811
    with pytest.raises(UserError, match="vLLM ended with exit code 1; its lines above say why"):
        generate_by_vllm(tmp_path, "float32", encoder, 512, ["x"], GREEDY, sys.executable)
    assert "No module named 'vllm'" in capfd.readouterr().err
    with pytest.raises(UserError, match="/no/python: No such file or directory; `vllm` in the machine file"):
        generate_by_vllm(tmp_path, "float32", encoder, 512, ["x"], GREEDY, "/no/python")


@pytest.mark.soak
def test_a_real_vllm_writes_what_transformers_writes(encoder, tmp_path):  # noqa: F811
    """Needs an environment with vLLM, its Python named by the variable VLLM_PYTHON."""
    if "VLLM_PYTHON" not in os.environ:
        pytest.skip("needs vLLM: VLLM_PYTHON=/path/to/its/bin/python")
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "initializer_range": 0.5}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=encoder.vocab_size + 20, **sizes, **heads)).eval()
    model.save_pretrained(tmp_path / "model")
    for settings in (GREEDY, {**GREEDY, "repetition_penalty": 1.3}):
        place = tmp_path / "model", "float32", encoder, 512
        written, engine = generate_by_vllm(*place, PROMPTS, settings, os.environ["VLLM_PYTHON"])
        assert engine["version"] > "0.1"
        assert written == generate(model, encoder, PROMPTS, settings)
