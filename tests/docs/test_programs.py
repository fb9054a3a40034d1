"""The programs of docs/own-chats.md run one after the other, as a reader would copy them, on real shards."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.corpus.compose import compose
from scripts.experiment.layout import SPLITS, Layout, split_file
from scripts.experiment.settings.corpus import CodeDataset
from scripts.experiment.settings.training import Tokenizer
from scripts.tokens.pack import pack
from scripts.tokens.tokenizer import train

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/own-chats.md").read_text()


def programs() -> list[str]:
    """The indented blocks that are Python."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}| *\n {4}))+", PAGE, re.MULTILINE)
    code = ["\n".join(line[4:] for line in block.splitlines()) for block in blocks]
    return [text for text in code if re.search(r"^\s*(import|from|def) ", text, re.MULTILINE)]


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Layout:
    """The page's results, made from this repository's own code."""
    layout = Layout(tmp_path / "results/mine")
    documents = [
        {"text": path.read_text(), "path": str(path.relative_to(ROOT)), "source": "mytool", "language": "python"}
        for path in sorted((ROOT / "scripts/corpus").rglob("*.py"))
        if path.read_text()
    ]
    for document in documents:
        document["sha256"] = hashlib.sha256(document["text"].encode()).hexdigest()
    for split, part in zip(SPLITS, (documents[4:], documents[:2], documents[2:4]), strict=True):
        write_jsonl(split_file(layout.split, split), part)
    counts = {"train": len(documents) - 4, "validation": 2, "test": 2}
    write_manifest(layout.split, [split_file(layout.split, split).name for split in SPLITS], documents=counts)
    write_jsonl(layout.filtered("mytool") / "rejects.jsonl.zst", [{"path": "a", "reason": "too_large"}])
    write_jsonl(layout.filtered("mytool") / "documents.jsonl.zst", documents)
    write_manifest(layout.filtered("mytool"), ["documents.jsonl.zst", "rejects.jsonl.zst"])
    compose(layout.split, CodeDataset(kind="code"), 42, layout.dataset("code"))
    train([layout.split], Tokenizer(vocab_size=600), layout.tokenizer)
    pack(layout.dataset("code"), layout.tokenizer, 512, layout.shards("code", 512))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    return layout


@pytest.mark.slow  # torch
def test_the_programs_on_the_page_run_and_agree_with_each_other(mine, capsys):
    variables = {}
    assert len(programs()) == 5
    for program in programs():
        exec(compile(program, "docs/own-chats.md", "exec"), variables)  # noqa: S102
    row, shards = variables["row"], variables["shards"]
    assert np.array_equal(variables["positions"], row["position_ids"])
    assert np.array_equal(variables["labels"], row["labels"])
    assert np.array_equal(variables["rows"][len(shards) - 1]["labels"], shards.row(len(shards) - 1)["labels"])
    assert "torch.Size([4, 512])" in capsys.readouterr().out
    code = variables["code"]
    assert len(code["train"]) == len(variables["documents"]) and code["test"][0]["source"] == "mytool"
