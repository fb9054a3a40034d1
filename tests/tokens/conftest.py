"""A small corpus out of the standard library, and a tokenizer that our own code learned from it."""

import hashlib
import json
from pathlib import Path

import pytest

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.tokenizer import train

CHINESE = "这个函数读取文件并返回其中的行数。如果文件不存在，则抛出异常。\n" * 20


def documents() -> list[dict]:
    """About 1 MB of Python, and a little prose as a second language."""
    texts = [
        (path.name, "python", path.read_text()) for path in sorted(Path(json.__file__).parents[1].glob("[a-i]*.py"))
    ]
    texts += [(f"{i}.txt", "prose", CHINESE + f"第{i}段\n" * 5) for i in range(5)]
    return [
        {"text": text, "path": path, "language": language, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        for path, language, text in texts
    ]


@pytest.fixture(scope="session")
def split(tmp_path_factory) -> Path:
    """A corpus/split folder."""
    folder = tmp_path_factory.mktemp("split")
    write_jsonl(folder / "train.jsonl.zst", documents())
    write_manifest(folder, ["train.jsonl.zst"])
    return folder


@pytest.fixture(scope="session")
def tokenizer(split, tmp_path_factory) -> Path:
    """A tokens/tokenizer folder with 1,000 ids."""
    folder = tmp_path_factory.mktemp("tokenizer")
    train([split], TokenizerSettings(vocab_size=1000), folder)
    return folder


@pytest.fixture
def dataset(tmp_path):
    """A function that writes examples as a composed dataset's splits and returns its folder."""

    def write(train: list[dict], validation: list[dict] = ()) -> Path:
        folder = tmp_path / "compose"
        for name, examples in {"train": train, "validation": validation}.items():
            write_jsonl(folder / f"{name}.jsonl.zst", examples)
        write_manifest(folder, ["train.jsonl.zst", "validation.jsonl.zst"])
        return folder

    return write
