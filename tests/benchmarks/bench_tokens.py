"""Speed of tokenizing and packing against Hugging Face tokenizers, on the Python files of this environment.

    python -m tests.benchmarks.bench_tokens [--megabytes 10]

Ratios are of the same run on the same machine; throughputs alone say little about another machine.
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
from tokenizers import Tokenizer

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


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--megabytes", type=float, default=10)
    documents = corpus(arguments.parse_args().megabytes)
    texts = [document["text"] for document in documents]
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{len(texts):,} documents, {size:.1f} MB")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data, filled, tokenizer = work / "data", work / "filled", work / "tokenizer"
        fim = {"rate": 0.5, "spm_rate": 0.5, "seed": 42}
        for folder, facts in {data: {}, filled: {"fim": fim}}.items():
            for split in ("train", "validation"):
                write_jsonl(folder / f"{split}.jsonl.zst", documents if split == "train" else documents[:10])
            write_manifest(folder, ["train.jsonl.zst", "validation.jsonl.zst"], **facts)
        settings = TokenizerSettings(vocab_size=VOCABULARY, sample_megabytes=size)
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
        print(f"with half of the pieces as fill-in-the-middle: {packing / filling:.2f} times the speed of that")

    lengths = np.sort(np.random.default_rng(0).lognormal(6.5, 1.1, 100_000).astype(np.int64) % LENGTH + 1)[::-1].copy()
    place(lengths[:1], LENGTH)
    print(f"place 100,000 pieces: {seconds(lambda: place(lengths, LENGTH)) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
