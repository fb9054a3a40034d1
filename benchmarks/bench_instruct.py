"""How fast chats are made, beside tree-sitter's parse of the same files alone, which is the bound.

    python -m benchmarks.bench_instruct [--megabytes 10]

Goal: 10 MB of source per CPU-second on one core. Python files of this environment, one process, processor time.
"""

import argparse
import time
from collections.abc import Callable

from benchmarks.bench_tokens import corpus
from scripts.corpus.instruct.workers import chats_about
from scripts.corpus.syntax.grammars import grammar
from scripts.experiment.settings.corpus import InstructDataset


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--megabytes", type=float, default=10)
    records = corpus(arguments.parse_args().megabytes)
    documents = [
        {**record, "source": "it", "path": f"{number}-{record['id']}"} for number, record in enumerate(records)
    ]
    texts = [document["text"].encode() for document in documents]
    size, settings = sum(map(len, texts)) / 1e6, InstructDataset(kind="instruct", language="en")
    list(chats_about(iter(documents[:50]), settings, 42, 1))  # compiles the queries
    parser, _ = grammar("python")
    rounds = [
        (
            seconds(lambda: [parser.parse(text) for text in texts]),
            seconds(lambda: list(chats_about(iter(documents), settings, 42, 1))),
        )
        for _ in range(3)
    ]
    parse, chats = (min(times) for times in zip(*rounds, strict=True))
    print(f"{len(texts):,} files, {size:.1f} MB, best of 3, MB per CPU-second:")
    print(f"tree-sitter's parse alone {size / parse:.1f}, chats {size / chats:.1f}")


if __name__ == "__main__":
    main()
