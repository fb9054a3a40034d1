"""Finding near-duplicates: speed beside datatrove and datasketch. Tests compare the result with all pairs.

    python -m benchmarks.bench_near_duplicates [--count 5400]

Processor time of one thread, without reading the documents, which are Python files of this environment. A peer that
is not installed is left out: `uv pip install --target FOLDER datatrove datasketch`, then run with PYTHONPATH=FOLDER.
All make 256 permutations of the sequences of 5 words; datatrove cuts words in its own way, so its figure is that of the
whole signature, words included, like ours.
"""

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.figures import Value, store
from scripts.corpus.deduplicate import buckets_of, stand_ins
from scripts.corpus.signatures import batch_bands
from scripts.corpus.similarity.minhash import JACCARD, WORDS, sequence_set

WORD = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]+")


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
    start = time.process_time()
    function()
    return time.process_time() - start


def candidates_and_clusters(texts: list[bytes]) -> np.ndarray:
    """int64 [texts]: the text that stands for each one, as by scripts/corpus/deduplicate.py."""
    buckets = [buckets_of(band) for band in batch_bands(texts).T]
    candidates, members = np.unique(np.concatenate([rows for rows, _ in buckets]), return_inverse=True)
    sets = [sequence_set(np.frombuffer(texts[number], np.uint8), WORDS) for number in candidates]
    offsets = np.concatenate([[0], np.cumsum([len(hashes) for hashes in sets], dtype=np.int64)])
    sequences = np.concatenate([np.empty(0, np.uint64), *sets])
    sizes, kept = np.concatenate([counts for _, counts in buckets]), np.arange(len(texts))
    order = np.arange(len(candidates))
    kept[candidates] = candidates[stand_ins(members, order, sizes, sequences, offsets, JACCARD)]
    return kept


def peers(texts: list[str]) -> dict[str, Callable[[], object]]:
    """A function per installed peer that makes the signatures of all texts."""

    def shingles(text: str) -> set[str]:
        words = WORD.findall(text)
        return {" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4))}

    functions = {}
    try:
        from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
        from datatrove.utils.hashing import HashConfig

        # not its default, xxhash, whose newest version refuses the text that datatrove gives it
        hashing = HashConfig(hash_fc="sha1")
        step = MinhashDedupSignature(
            "/tmp", MinhashConfig(n_grams=5, num_buckets=32, hashes_per_bucket=8, hash_config=hashing)
        )
        functions["datatrove"] = lambda: [step.get_signature(step.get_shingles(text)) for text in texts]
    except ImportError as error:
        print(f"datatrove: {error}")
    try:
        from datasketch import MinHash

        def sketch_all() -> None:
            for text in texts:
                MinHash(256).update_batch([shingle.encode() for shingle in shingles(text)])

        functions["datasketch"] = sketch_all
    except ImportError as error:
        print(f"datasketch: {error}")
    return functions


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=5400)
    options = arguments.parse_args()
    texts = [document["text"] for document in corpus(60)[: options.count]]
    encoded = [text.encode() for text in texts]
    size = sum(map(len, encoded)) / 1e6
    print(f"{len(texts):,} documents, {size:.1f} MB")
    candidates_and_clusters(encoded[:50] * 2)  # compile

    signing = seconds(lambda: batch_bands(encoded))
    total_seconds = seconds(lambda: candidates_and_clusters(encoded))
    print(f"signatures {size / signing:.1f} MB/s, with candidates and clusters {size / total_seconds:.1f} MB/s")
    share = max(1, len(texts) // 10)
    for run in peers(texts[:1]).values():  # load their models
        run()
    values = {"ours": Value(round(size / signing), " MB/s"), "all_steps": Value(round(size / total_seconds), " MB/s")}
    for name, run in peers(texts[:share]).items():
        speed = sum(map(len, encoded[:share])) / 1e6 / seconds(run)
        values[name] = Value(round(size / signing / speed), " times")
        print(f"{name}, signatures of a tenth: {speed:.2f} MB/s; ours are {size / signing / speed:.0f} times as fast")
    store("near-duplicates", values, f"one thread, processor time, {len(texts):,} documents ({size:.1f} MB)")


if __name__ == "__main__":
    main()
