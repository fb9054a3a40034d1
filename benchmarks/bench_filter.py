"""How fast corpus.filter is, against plain Python doing the same, on this environment's own sources, in one run.

    python -m benchmarks.bench_filter [megabytes]

Prints MB per CPU-second of input, and ours as a multiple of the peer's. Two peers apply the same rules and must drop
the same files for the same reasons: `tarfile` with the naive rules of tests/corpus/naive.py (whole job, written
output left out on both sides), and the naive rules alone on files in memory. The third is datatrove, which reads the
same files as JSON lines and writes them again: with the naive rules as its filter, and with none. Ours then reads the
archive, filters and writes: without replacing secrets, which datatrove does not, and with it; of each, the median of
three rounds in turn. Where datatrove is not installed it is left out: `uv pip install --target FOLDER datatrove`, then
run with PYTHONPATH=FOLDER.
"""

import io
import json
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import zstandard

from scripts.common.files import write_jsonl
from scripts.corpus.filter import filter_archive, language_of
from scripts.corpus.formats.filter_writer import FilterWriter, funnel
from scripts.corpus.heuristics.paths import check_path
from scripts.corpus.heuristics.quality import Dropped, check_characters, check_quality, decode
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


def ours(archive: Path, settings: Filter) -> Counter:
    result = FilterWriter(lambda record: None, lambda record: None)
    filter_archive(archive, "bench", settings, result)
    return Counter(result.facts()["dropped"])


def peer(archive: Path, settings: Filter) -> Counter:
    """What one writes first: tarfile, and the rules as they read."""
    counts, excluded = Counter(), {name.lower() for name in settings.excluded_folders}
    unpacked = io.BytesIO(zstandard.decompress(archive.read_bytes()))
    with tarfile.open(fileobj=unpacked) as tar:
        for member in tar:
            if not language_of(member.name, None, settings):
                counts["extension"] += 1
            else:
                reason = naive_path_reason(member.name, excluded)
                counts[reason or naive_reason(tar.extractfile(member).read(), settings)] += 1
    del counts[None]
    return counts


def naive_path_reason(path: str, excluded: set[str]) -> str | None:
    try:
        check_path(path, excluded)
    except Dropped as drop:
        return drop.reason
    return None


def reason_of(raw: bytes, settings: Filter) -> str | None:
    if len(raw) >= settings.max_bytes:
        return "size"
    try:
        decoded = decode(raw)
        check_characters(*decoded)
        check_quality(*decoded, settings)
    except Dropped as drop:
        return drop.reason
    return None


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
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    settings = Filter()
    files = sources(megabytes)
    candidates = [raw for name, raw in files.items() if language_of(name, None, settings)]
    size, candidate_size = sum(map(len, files.values())) / 1e6, sum(map(len, candidates)) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        archive = write_archive(Path(folder), "bench", files)
        seconds, counts = timed(lambda: ours(archive, settings))
        peer_seconds, expected = timed(lambda: peer(archive, settings))
        try:
            written = beside_datatrove(archive, files, settings, Path(folder))
        except ImportError as error:
            print(f"datatrove: {error}")
            written = []
    assert counts == expected, (counts, expected)
    rule_seconds, counts = timed(lambda: [reason_of(raw, settings) for raw in candidates])
    naive_seconds, expected = timed(lambda: [naive_reason(raw, settings) for raw in candidates])
    assert counts == expected
    for name, amount, mine, peers in (
        ("archive to verdicts", size, seconds, peer_seconds),
        ("rules alone", candidate_size, rule_seconds, naive_seconds),
        *written,
    ):
        line = {"bench": f"filter: {name}", "MB": round(amount, 1), "files": len(files)}
        line |= {"MB/CPU-s": round(amount / mine, 1), "peer MB/CPU-s": round(amount / peers, 1)}
        print(json.dumps(line | {"times the peer": round(peers / mine, 1)}))


if __name__ == "__main__":
    main()
