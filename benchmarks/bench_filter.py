"""How fast corpus.filter is beside datatrove, on this environment's own sources, in one run.

    python -m benchmarks.bench_filter [megabytes]

Stores MB per CPU-second of input, and ours as a multiple of datatrove's, which reads the same files as JSON lines and
writes them again: with plain Python's rules (tests/corpus/naive.py) as its filter, and with none. Ours reads the
archive, filters and writes: without replacing secrets, which datatrove does not, and with it; of each, the median of
three rounds in turn. It needs datatrove: `uv pip install --target FOLDER datatrove`, then run with PYTHONPATH=FOLDER.
"""

import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.figures import Value, store
from scripts.common.files import write_jsonl
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import funnel
from scripts.experiment.settings.corpus import Filter
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


def beside_datatrove(archive: Path, files: dict[str, bytes], settings: Filter, folder: Path) -> dict[str, float]:
    """CPU seconds of our runs with all that is written, and of datatrove's on the same texts."""
    texts = ({"path": name, "text": raw.decode(errors="replace")} for name, raw in files.items() if raw)
    write_jsonl(folder / "in/texts.jsonl.zst", texts)
    keeping = settings.model_copy(update={"secrets": "keep"})
    runs = {
        "replacing": lambda: ours_written(archive, settings, folder / "replacing"),
        "keeping": lambda: ours_written(archive, keeping, folder / "keeping"),
        "peer copying": lambda: datatrove_copy(folder / "in", folder / "copy", None),
        "peer filtering": lambda: datatrove_copy(folder / "in", folder / "filtered", settings),
    }
    rounds = [[timed(run)[0] for run in runs.values()] for _ in range(ROUNDS)]
    return dict(zip(runs, map(median, zip(*rounds, strict=True)), strict=True))


def main() -> None:
    files = sources(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
    with tempfile.TemporaryDirectory() as folder:
        archive = write_archive(Path(folder), "bench", files)
        seconds = beside_datatrove(archive, files, Filter(), Path(folder))
    size, spread = sum(map(len, files.values())) / 1e6, f"median of {ROUNDS} rounds in turn"
    values = {"speed": Value(round(size / seconds["replacing"], 1), " MB/s", spread)}
    pairs = {
        "kept": ("filtering", "keeping"),
        "replaced": ("filtering", "replacing"),
        "copied": ("copying", "replacing"),
    }
    for name, (peer, ours) in pairs.items():
        values[name] = Value(round(seconds[f"peer {peer}"] / seconds[ours], 1), " times", spread)
    store("filter", values, f"processor time, {len(files):,} files of the environment ({size:.1f} MB)")


if __name__ == "__main__":
    main()
