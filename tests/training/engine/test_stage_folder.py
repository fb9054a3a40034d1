"""scripts/training/engine/stage_folder.py: plain transformers stops at the end of an answer of a stage's model."""

import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.pack import pack
from scripts.tokens.tokenizer import train as learn_tokenizer
from scripts.training.base import base
from tests.training.conftest import scratch
from tests.training.test_train import run

ANSWER = "It reads the file."


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
