"""Speed of tokenizing and packing against Hugging Face tokenizers, on the Python files of this environment.

    python -m benchmarks.bench_tokens [--megabytes 10] [--tokenizer results/tokens/tokenizer]

Without --tokenizer one of 8,192 ids is learned from the files. The last peer is what most people write, `datasets.map`
with transformers' tokenizer; there processor time of all threads counts, and its ids are compared with ours. Ratios are
of the same run on the same machine; throughputs alone say little about another machine.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from datasets import Dataset
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.experiment.settings.tokens import Tokenizer as TokenizerSettings
from scripts.tokens.pack import pack
from scripts.tokens.packing.encoder import Encoder
from scripts.tokens.packing.placement import place
from scripts.tokens.tokenizer import train

VOCABULARY, LENGTH = 8192, 4096


def corpus(megabytes: float) -> list[dict]:
    """Documents of 100 to 50,000 characters, as corpus.filter keeps them, spread over the installed packages."""
    documents, size = [], 0
    paths = sorted(
        Path(sys.prefix).glob("lib/python*/site-packages/**/*.py"),
        key=lambda p: hashlib.sha256(str(p).encode()).digest(),
    )
    for path in paths:
        text = path.read_text(errors="replace")
        if 100 <= len(text) <= 50_000:
            digest = hashlib.sha256(text.encode()).hexdigest()
            documents.append({"id": path.name, "text": text, "language": "python", "sha256": digest})
            size += len(text.encode())
        if size >= megabytes * 1e6:
            break
    return documents


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def processor_seconds(function: Callable[[], object]) -> tuple[float, object]:
    """(seconds of all threads, the function's result)."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def mapped(tokenizer: Path, texts: list[str]) -> list[list[int]]:
    """The ids of each text, by `datasets.map`."""
    fast = AutoTokenizer.from_pretrained(tokenizer)
    dataset = Dataset.from_dict({"text": texts})
    return dataset.map(lambda batch: {"ids": fast(batch["text"])["input_ids"]}, batched=True, remove_columns="text")[
        "ids"
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--megabytes", type=float, default=10)
    arguments.add_argument("--tokenizer", type=Path, help="a folder that rule tokenizer made")
    args = arguments.parse_args()
    documents = corpus(args.megabytes)
    texts = [document["text"] for document in documents]
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{len(texts):,} documents, {size:.1f} MB")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data, filled, tokenizer = work / "data", work / "filled", args.tokenizer or work / "tokenizer"
        fim = {"rate": 0.5, "spm_rate": 0.5, "seed": 42}
        for folder, facts in {data: {}, filled: {"fim": fim}}.items():
            for split in ("train", "validation"):
                write_jsonl(folder / f"{split}.jsonl.zst", documents if split == "train" else documents[:10])
            write_manifest(folder, ["train.jsonl.zst", "validation.jsonl.zst"], **facts)
        if not args.tokenizer:
            settings = TokenizerSettings(vocab_size=VOCABULARY)
            print(f"learn {VOCABULARY} ids: {seconds(lambda: train([data], settings, tokenizer)):.1f} s")

        description = json.loads((tokenizer / "tokenizer.json").read_text())
        reference = Tokenizer.from_str(json.dumps({**description, "added_tokens": []}))
        encoder = Encoder(tokenizer)
        examples = [{"text": text} for text in texts]
        pack(filled, tokenizer, LENGTH, work / "warm")  # compile, fill the file cache
        ours = seconds(lambda: encoder.encode(examples))
        packing = seconds(lambda: pack(data, tokenizer, LENGTH, work / "packed"))
        filling = seconds(lambda: pack(filled, tokenizer, LENGTH, work / "fim"))
        theirs = seconds(lambda: reference.encode_batch_fast(texts))
        print(f"Hugging Face encode_batch_fast: {size / theirs:.1f} MB/s")
        print(f"encode: {size / ours:.1f} MB/s, {theirs / ours:.1f} times as fast")
        print(f"pack, reading, encoding and writing: {size / packing:.1f} MB/s, {theirs / packing:.1f} times as fast")
        packing_seconds, _ = processor_seconds(lambda: pack(data, tokenizer, LENGTH, work / "again"))
        mapped_seconds, ids = processor_seconds(lambda: mapped(tokenizer, texts))
        print(
            f"datasets.map: {size / mapped_seconds:.2f} MB of a processor second, pack {size / packing_seconds:.1f}:"
            f" {mapped_seconds / packing_seconds:.1f} times as fast"
        )
        encoded = encoder.encode(examples)
        starts = encoded.offsets.tolist()
        differing = sum(
            encoded.ids[start : start + len(expected)].tolist() != expected
            for start, expected in zip(starts, ids, strict=False)
        )
        print(f"texts whose ids differ from those of datasets.map: {differing}")
        print(f"with half of the pieces as fill-in-the-middle: {packing / filling:.2f} times the speed of that")

    lengths = np.sort(np.random.default_rng(0).lognormal(6.5, 1.1, 100_000).astype(np.int64) % LENGTH + 1)[::-1].copy()
    place(lengths[:1], LENGTH)
    print(f"place 100,000 pieces: {seconds(lambda: place(lengths, LENGTH)) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
