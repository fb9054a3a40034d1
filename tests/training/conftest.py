"""A tiny base model and shards in the documented format, written here without the product's own tokenizer or packer."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from scripts.common.manifest import write_manifest
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Base, Stage
from scripts.training.base import base

LENGTH, VOCABULARY = 32, 512
ROPE_THETA = 1_000_000
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}
STAGE = {
    "from": "base",
    "data": "code",
    "sequence_length": LENGTH,
    "method": "full",
    "lora": {"r": 8, "alpha": 16, "dropout": 0.05, "targets": ["q_proj", "k_proj", "v_proj", "o_proj"], "merge": False},
    "quantize": "none",
    "global_batch_size": 4,
    "steps": 12,
    "learning_rate": 1e-2,
    "warmup_steps": 2,
    "optimizer": "adamw",
    "scheduler": "cosine",
    "decay_share": 0.2,
    "keep_best": False,
    "trainable": "all",
    "weight_decay": 0.01,
    "betas": [0.9, 0.95],
    "max_grad_norm": 1.0,
    "precision": "fp32",
    "eval_steps": 6,
    "eval_rows": 4,
}
MONITORING = {"log_steps": 1, "save_steps": 4, "keep_checkpoints": 2}
SEED = 7
MACHINE = {
    "nodes": 1,
    "gpus": 0,
    "cpu_ranks": 1,
    "micro_batch_size": 2,
    "sharding": "none",
    "gradient_checkpointing": False,
    "compile": "auto",
}


def stage(**changes) -> Stage:
    """The settings of the tiny stage, changed."""
    return Stage.parse(STAGE | changes, "test")


def machine(**changes) -> Machine:
    return Machine.parse(MACHINE | changes, "test")


def scratch(**changes) -> Base:
    """The settings of a base model from scratch; `shape` holds changes of the tiny shape."""
    shape = SHAPE | changes.get("shape", {})
    return Base.parse({"model": "scratch", **changes, "shape": shape}, "test")


def write_split(folder: Path, split: str, rows: int, rng: np.random.Generator) -> dict:
    """Rows of two or three documents each, every document counting up from a random start: easy to learn."""
    tokens, flags, pieces, ids = np.zeros((rows, LENGTH), np.uint32), np.zeros((rows, LENGTH), np.uint8), [], []
    for row in range(rows):
        cuts = [0, *sorted(rng.choice(np.arange(4, LENGTH - 4), rng.integers(1, 3), replace=False)), LENGTH]
        for start, end in pairwise(cuts):
            tokens[row, start:end] = rng.integers(0, VOCABULARY - LENGTH) + np.arange(end - start)
            flags[row, start:end] = 2 * (rng.random(end - start) < 0.7)
            flags[row, start] = 1
            pieces.append((row, start, end - start, len(ids)))
            ids.append(f"{split}/{len(ids)}")
    tokens.tofile(folder / f"{split}.tokens.bin")
    flags.tofile(folder / f"{split}.flags.bin")
    np.save(folder / f"{split}.pieces.npy", np.array(pieces, np.int32).reshape(-1, 4))
    (folder / f"{split}.documents.txt").write_text("".join(f"{name}\n" for name in ids))
    return {
        "rows": rows,
        "pieces": len(pieces),
        "documents": len(ids),
        "tokens": rows * LENGTH,
        "targets": int((flags & 2 > 0).sum()),
        "padding": 0,
        "too_long": 0,
        "largest_id": VOCABULARY - 1,
    }


def often(chosen, others):
    """Values of a parameter; tests with the others run by `make soak` alone."""
    rows = [value if isinstance(value, tuple) else (value,) for value in others]
    return [*chosen, *(pytest.param(*row, marks=pytest.mark.soak) for row in rows)]


@pytest.fixture(scope="session")
def shards(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(0)
    splits = {split: write_split(folder, split, rows, rng) for split, rows in {"train": 30, "validation": 6}.items()}
    names = [
        f"{split}.{file}" for split in splits for file in ("tokens.bin", "flags.bin", "pieces.npy", "documents.txt")
    ]
    write_manifest(folder, names, length=LENGTH, vocab_size=VOCABULARY, end_tokens=[0], splits=splits)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    words = {"<|endoftext|>": 0, **{f"w{number}": number for number in range(1, VOCABULARY)}}
    made = Tokenizer(models.WordLevel(words, unk_token="<|endoftext|>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    write_manifest(folder, ["tokenizer.json", "tokenizer_config.json"])
    return folder


@pytest.fixture(scope="session")
def origin(tmp_path_factory, tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("base")
    base(scratch(), 1, tokenizer, folder)
    return folder


@pytest.fixture
def model(origin):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)
