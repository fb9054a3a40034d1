"""How fast corpus.filter is beside datatrove, on this environment's own sources, in one run.

    python -m benchmarks.bench_filter [megabytes]

Prints MB per CPU-second of input, and ours as a multiple of datatrove's, which reads the same files as JSON lines and
writes them again: with plain Python's rules (tests/corpus/naive.py) as its filter, and with none. Ours reads the
archive, filters and writes: without replacing secrets, which datatrove does not, and with it; of each, the median of
three rounds in turn. It needs datatrove: `uv pip install --target FOLDER datatrove`, then run with PYTHONPATH=FOLDER.
"""

import json
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from statistics import median

from scripts.common.files import write_jsonl
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import funnel
from scripts.experiment.settings.filter import Filter
from tests.corpus.archives import write_archive
from tests.corpus.naive import naive_reason

SUFFIXES = {".py", ".pyi", ".h", ".hpp", ".cpp", ".c", ".rs", ".go", ".java", ".md", ".txt", ".json"}
ROUNDS = 3


def sources(megabytes: float) -> dict[str, bytes]:
    """Files of the installed packages, an even sample over sorted names, up to about so many MB."""
    root = Path(sysconfig.get_path("purelib"))
    paths = sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    total = sum(path.stat().st_size for path in paths) / 1e6
    step = max(int(total / megabytes), 1)
    return {str(path.relative_to(root)): path.read_bytes() for path in paths[::step]}


def timed(function) -> tuple[float, object]:
    """(CPU seconds, the function's result)."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def ours_written(archive: Path, settings: Filter, out: Path) -> None:
    with funnel(out) as result:
        filter_archive(archive, "bench", settings, result)


def datatrove_copy(folder: Path, out: Path, settings: Filter | None) -> None:
    """Read the JSON lines in `folder` and write those that pass the naive rules, or all of them, by datatrove alone."""
    from datatrove.pipeline.filters import LambdaFilter
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    documents = JsonlReader(str(folder), id_key="path", doc_progress=False).run()
    if settings:
        documents = LambdaFilter(lambda document: not naive_reason(document.text.encode(), settings)).run(documents)
    for _ in JsonlWriter(str(out), compression="zstd").run(documents):
        pass


def beside_datatrove(archive: Path, files: dict[str, bytes], settings: Filter, folder: Path) -> list[tuple]:
    """(name, MB, our CPU seconds with all that is written, datatrove's on the same texts) of each comparison."""
    texts = ({"path": name, "text": raw.decode(errors="replace")} for name, raw in files.items() if raw)
    write_jsonl(folder / "in/texts.jsonl.zst", texts)
    keeping = settings.model_copy(update={"secrets": "keep"})
    runs = [
        lambda: ours_written(archive, settings, folder / "replacing"),
        lambda: ours_written(archive, keeping, folder / "keeping"),
        lambda: datatrove_copy(folder / "in", folder / "copy", None),
        lambda: datatrove_copy(folder / "in", folder / "filtered", settings),
    ]
    rounds = [[timed(run)[0] for run in runs] for _ in range(ROUNDS)]
    replacing_seconds, keeping_seconds, copy_seconds, filter_seconds = map(median, zip(*rounds, strict=True))
    size = sum(map(len, files.values())) / 1e6
    return [
        ("archive to JSON lines, secrets kept, datatrove filters", size, keeping_seconds, filter_seconds),
        ("archive to JSON lines, secrets replaced, datatrove filters", size, replacing_seconds, filter_seconds),
        ("archive to JSON lines, secrets replaced, datatrove only copies", size, replacing_seconds, copy_seconds),
    ]


def main() -> None:
    files = sources(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
    with tempfile.TemporaryDirectory() as folder:
        archive = write_archive(Path(folder), "bench", files)
        compared = beside_datatrove(archive, files, Filter(), Path(folder))
    for name, amount, mine, peer in compared:
        line = {"bench": f"filter: {name}", "MB": round(amount, 1), "files": len(files)}
        line |= {"MB/CPU-s": round(amount / mine, 1), "peer MB/CPU-s": round(amount / peer, 1)}
        print(json.dumps(line | {"times the peer": round(peer / mine, 1)}))


if __name__ == "__main__":
    main()
