"""Records of the user's own, and the datasets that scripts/corpus/formats/own_datasets.py makes of them."""

import json
from pathlib import Path

from pydantic import TypeAdapter

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.formats import own_datasets
from scripts.experiment.layout import SPLITS
from scripts.experiment.settings.corpus import Dataset

SHARES = {"validation": 0.2, "test": 0.2, "split": "train"}
CHAT = {"kind": "chat", **SHARES}
TEXT = {"kind": "text", "text_column": "text", **SHARES}


def turns(*contents: str) -> list[dict]:
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


def chats(count: int) -> list[dict]:
    return [{"id": "same", "messages": turns(f"问题 {i}?", f"答案 {i}.")} for i in range(count)]


def write_lines(path: Path, records: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return path


def compose(values: dict, out: Path, seed: int = 42) -> dict:
    """Make the dataset whose settings have these values."""
    return own_datasets.compose(TypeAdapter(Dataset).validate_python(values), seed, out)


def composed(values: dict, out: Path, seed: int = 42) -> dict[str, list[dict]]:
    manifest = compose(values, out, seed)
    assert manifest == read_manifest(out)
    made = {split: list(read_jsonl(out / f"{split}.jsonl.zst")) for split in SPLITS}
    assert {split: len(made[split]) for split in SPLITS} == manifest["examples"]
    return made


def every(made: dict[str, list[dict]]) -> list[dict]:
    return [example for split in SPLITS for example in made[split]]


def as_saved(folder: Path, records: list[dict]) -> Path:
    from datasets import Dataset

    Dataset.from_list(records).save_to_disk(str(folder / "saved"))
    return folder / "saved"


def as_saved_splits(folder: Path, records: list[dict]) -> Path:
    from datasets import Dataset, DatasetDict

    data = DatasetDict({"train": Dataset.from_list(records), "other": Dataset.from_list(records[:1])})
    data.save_to_disk(str(folder / "saved"))
    return folder / "saved"
