"""How fast evaluation.contamination looks through training text, against the plain loop, in one run.

    python -m benchmarks.bench_contamination [megabytes]

Problems are functions and classes cut out of this environment's own sources, the training text is other files of them.
The plain loop cuts each document into words and looks every tuple of ten up in a set; both must find the same n-grams.
Reading (zstd, JSON) is timed apart.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.bench_filter import sources, timed
from benchmarks.figures import Value, store
from scripts.common.files import read_jsonl, write_jsonl
from scripts.corpus.similarity.ngrams import NGrams, hashes, words

SIZE = 10


def plain(problems: list[str], documents: list[str]) -> int:
    """How many n-grams of the problems stand in the documents."""

    def grams(text: str) -> zip:
        word_list = words(text)
        return zip(*(word_list[start:] for start in range(SIZE)), strict=False)

    problem_grams, document_grams = {gram for text in problems for gram in grams(text)}, set()
    for text in documents:
        document_grams.update(gram for gram in grams(text) if gram in problem_grams)
    return len(document_grams)


def ours(problems: list[str], documents: list[str]) -> int:
    index = NGrams(problems, SIZE)
    return sum(1 for text in documents for _ in index.new_matches(text))


def main() -> None:
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    texts = [raw.decode(errors="ignore") for name, raw in sources(megabytes).items() if name.endswith(".py")]
    problems, documents = [text[:2000] for text in texts[::20]], [text for at, text in enumerate(texts) if at % 20]
    size = sum(len(text.encode()) for text in documents) / 1e6
    ours(problems, documents[:1])  # compiles
    seconds, shared = timed(lambda: ours(problems, documents))
    plain_seconds, expected = timed(lambda: plain(problems, documents))
    assert shared == expected, (shared, expected)
    index = NGrams(problems, SIZE)
    hash_seconds, _ = timed(lambda: [hashes(text, SIZE, index.table) for text in documents])
    fold_seconds, _ = timed(lambda: [text.casefold() for text in documents])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.jsonl.zst"
        write_jsonl(path, ({"id": "", "text": text} for text in documents))
        read_seconds, _ = timed(lambda: sum(len(record["text"]) for record in read_jsonl(path)))
    line = {"bench": "contamination", "MB": round(size, 1), "problems": len(problems), "n-grams found": shared}
    cpu_seconds = {
        "search": seconds,
        "of it hashes": hash_seconds,
        "of that case folding": fold_seconds,
        "reading": read_seconds,
    }
    line |= {f"{name} MB/CPU-s": round(size / spent, 1) for name, spent in cpu_seconds.items()}
    line |= {
        "plain MB/CPU-s": round(size / plain_seconds, 1),
        "times the plain loop": round(plain_seconds / seconds, 1),
    }
    print(json.dumps(line))
    values = {
        "speed": Value(round(size / seconds), " MB/s"),
        "ratio": Value(round(plain_seconds / seconds, 1), " times"),
    }
    store("contamination", values, f"one thread, processor time, {size:.0f} MB of Python, {len(problems)} problems")


if __name__ == "__main__":
    main()
