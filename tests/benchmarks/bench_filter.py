"""How fast corpus.filter is, against plain Python doing the same, on this environment's own sources, in one run.

    python -m tests.benchmarks.bench_filter [megabytes]

Prints MB per CPU-second of input, and ours as a multiple of the peer's. Both peers apply the same rules and must drop
the same files for the same reasons: `tarfile` with the naive rules of tests/corpus/naive.py (whole job, written
output left out on both sides), and the naive rules alone on files in memory.
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

import zstandard

from scripts.corpus.filter import extension_of, filter_archive
from scripts.corpus.formats.funnel import Funnel
from scripts.corpus.heuristics.quality import Dropped, check_quality, decode
from scripts.experiment.settings.filter import Filter
from tests.corpus.archives import write_archive
from tests.corpus.naive import naive_reason

SUFFIXES = {".py", ".pyi", ".h", ".hpp", ".cpp", ".c", ".rs", ".go", ".java", ".md", ".txt", ".json"}


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
    result = Funnel(lambda record: None, lambda record: None)
    filter_archive(archive, "bench", settings, result)
    return Counter(result.facts()["dropped"])


def peer(archive: Path, settings: Filter) -> Counter:
    """What one writes first: tarfile, and the rules as they read."""
    found, excluded = Counter(), set(settings.excluded_folders)
    unpacked = io.BytesIO(zstandard.decompress(archive.read_bytes()))
    with tarfile.open(fileobj=unpacked) as tar:
        for member in tar:
            if extension_of(member.name) not in settings.extensions:
                found["extension"] += 1
            elif excluded & set(member.name.split("/")[:-1]):
                found["folder"] += 1
            elif reason := naive_reason(tar.extractfile(member).read(), settings):
                found[reason] += 1
    return found


def reason_of(raw: bytes, settings: Filter) -> str | None:
    if len(raw) >= settings.max_bytes:
        return "size"
    try:
        check_quality(*decode(raw), settings)
    except Dropped as drop:
        return drop.reason
    return None


def main() -> None:
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    settings = Filter()
    files = sources(megabytes)
    candidates = [raw for name, raw in files.items() if extension_of(name) in settings.extensions]
    size, candidate_size = sum(map(len, files.values())) / 1e6, sum(map(len, candidates)) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        archive = write_archive(Path(folder), "bench", files)
        seconds, found = timed(lambda: ours(archive, settings))
        peer_seconds, expected = timed(lambda: peer(archive, settings))
    assert found == expected, (found, expected)
    rule_seconds, found = timed(lambda: [reason_of(raw, settings) for raw in candidates])
    naive_seconds, expected = timed(lambda: [naive_reason(raw, settings) for raw in candidates])
    assert found == expected
    for name, amount, mine, other in (
        ("archive to verdicts", size, seconds, peer_seconds),
        ("rules alone", candidate_size, rule_seconds, naive_seconds),
    ):
        line = {"bench": f"filter: {name}", "MB": round(amount, 1), "files": len(files)}
        line |= {"MB/CPU-s": round(amount / mine, 1), "peer MB/CPU-s": round(amount / other, 1)}
        print(json.dumps(line | {"times the peer": round(other / mine, 1)}))


if __name__ == "__main__":
    main()
