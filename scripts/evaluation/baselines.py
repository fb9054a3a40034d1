"""What a compressor makes of the test examples that suite `perplexity` scores: what a model should at least beat.

    python -m scripts.evaluation.baselines --datasets results/corpus/compose --train code \\
        --settings '{"datasets": ["code"], "documents": 200}' --out results/evaluation/baselines

The compressor is PPMd (Shkarin 2002), which predicts each byte from those before it. It is asked twice, on the same
examples as the models: `compressor` knows nothing but the example; `compressor_trained` has read up to `READ` bytes of
the training data first. What models are scored on counts here as well: a text, or the assistant's turns of a chat, each
given what comes before it. Writes items.jsonl.zst (the bits of each example) and scores.json.
"""

import hashlib
import heapq
import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pyppmd

from scripts.common.cli import run
from scripts.common.files import read_jsonl, write_json, write_jsonl
from scripts.common.options import command
from scripts.common.progress import Progress
from scripts.common.text import is_target
from scripts.evaluation.code_tasks import places as places_module
from scripts.evaluation.generation.examples import pick_examples, test_hashes
from scripts.evaluation.suites.perplexity import BASELINES, most_documents
from scripts.experiment.layout import split_file
from scripts.experiment.settings.record import Record
from scripts.experiment.settings.suites import Places

READ = 1_000_000  # bytes of training data
ORDER, MEMORY = 8, 32 << 20  # bytes before each that it looks at, and the memory for them


class Scored(Record):
    """Which examples suite `perplexity` scores; made of its settings."""

    datasets: list[str]
    documents: int | dict[str, int]
    places: Places | None = None


def training_text(datasets: Path, train: Sequence[str]) -> bytes:
    """Up to `READ` bytes of what stages train on: whole examples, those with the smallest sha256 of their id."""
    chosen: list[tuple[int, str, bytes]] = []  # a heap with the largest hash on top
    size = 0
    for dataset in train:
        for example in read_jsonl(split_file(datasets / dataset, "train")):
            text = b"".join(before + target for before, target in spans(example)) + b"\n"
            key = int.from_bytes(hashlib.sha256(example["id"].encode()).digest())
            heapq.heappush(chosen, (-key, dataset, text))
            size += len(text)
            while size - len(chosen[0][2]) >= READ:
                size -= len(heapq.heappop(chosen)[2])
    return b"".join(text for _, _, text in sorted(chosen, reverse=True))[:READ]


def spans(example: dict, places: Places | None = None) -> list[tuple[bytes, bytes]]:
    """(What comes before, what is scored) of an example: its text, each run of lines at its places, or each assistant
    turn."""
    if "messages" not in example and places is None:
        return [(b"", example["text"].encode())]
    if "messages" not in example:
        text, parts, reached = example["text"], [], 0
        for start, end in places_module.spans(text, places_module.places(text, example["id"], places)):
            parts.append((text[reached:start].encode(), text[start:end].encode()))
            reached = end
        return parts
    found, before = [], ""
    for turn in example["messages"]:
        if is_target(turn):
            found.append((before.encode(), turn["content"].encode()))
            before = ""
        else:
            before += turn["content"] + "\n"
    return found


def compressed_size(text: bytes) -> int:
    """Bytes."""
    encoder = pyppmd.Ppmd7Encoder(ORDER, MEMORY)
    return len(encoder.encode(text)) + len(encoder.flush())


def bits_of(parts: list[tuple[bytes, bytes]], read: bytes, read_size: int) -> float:
    """The bits that the scored parts of an example take after `read` and what comes before each. `parts`: as `spans`
    returns them; `read_size`: the compressed size of `read`."""
    bits, before, before_size = 0.0, read, read_size
    for context, target in parts:
        if context:
            before += context
            before_size = compressed_size(before)
        size = compressed_size(before + target)
        bits += 8 * (size - before_size)
        before, before_size = before + target, size
    return bits


def baselines(datasets: Path, settings: Scored, out: Path, train: Sequence[str] = ()) -> dict:
    """Write `items.jsonl.zst` and `scores.json`, and return the latter. Raises UserError: a dataset does not exist."""
    data = test_hashes(datasets, settings.datasets, "perplexity")
    read = training_text(datasets, train)
    read_size, empty_size = compressed_size(read), compressed_size(b"")
    items, scores = [], {}
    for dataset in settings.datasets:
        examples = pick_examples(split_file(datasets / dataset, "test"), most_documents(settings.documents, dataset))
        progress = Progress(f"baselines {dataset}", "examples", len(examples))
        for example in progress.over(examples):
            parts = spans(example, settings.places)
            size = sum(len(target) for _, target in parts)
            bits = {"compressor": bits_of(parts, b"", empty_size)}
            bits["compressor_trained"] = bits_of(parts, read, read_size)
            about = {"dataset": dataset, "id": example["id"], "language": example["language"]}
            items.append({**about, "bytes": size, **bits})
        chosen = [item for item in items if item["dataset"] == dataset and item["bytes"]]
        size = sum(item["bytes"] for item in chosen)
        scores[dataset] = {}
        for name in BASELINES:
            scores[dataset][name] = sum(item[name] for item in chosen) / size if size else None
        figures = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in scores[dataset].items() if size)
        logging.info(f"baselines {dataset}: bits/byte of the {figures}")
    write_jsonl(out / "items.jsonl.zst", items)
    compressor = {"name": "PPMd", "order": ORDER, "pyppmd": version("pyppmd"), "bytes_read": len(read)}
    result = {"compressor": compressor, "data": data, "scores": scores}
    write_json(out / "scores.json", result)
    return result


if __name__ == "__main__":
    run(command(baselines))
