"""Memory of the data path by the number of documents: bytes per document and a constant.

    python -m benchmarks.bench_memory [--megabytes 100]

Each rule's own command, in a process each, on Python files of this environment: a sixteenth, a quarter and all of so
many megabytes. Printed: the largest resident memory that the kernel reports, and a line through the last two sizes. The
first size holds the compilation of kernels, which happens once.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Value, store
from scripts.corpus.formats.filter_writer import funnel

LENGTH, SIZES = 4096, (1 / 16, 1 / 4, 1)


def texts(megabytes: float) -> Iterator[tuple[str, str]]:
    """(path, text) of files of the installed packages, about so many megabytes, spread over all packages."""
    root, size = Path(sysconfig.get_path("purelib")), 0
    for path in sorted(root.rglob("*.py"), key=lambda path: hashlib.sha256(str(path).encode()).digest()):
        text = path.read_text(errors="replace")
        if 100 <= len(text) <= 100_000:
            yield str(path.relative_to(root)), text
            size += len(text.encode())
        if size >= megabytes * 1e6:
            return


def write_documents(folder: Path, megabytes: float) -> int:
    """Write the documents of one source, as rule `filter` does; returns how many."""
    with funnel(folder) as result:
        for path, text in texts(megabytes):
            digest = hashlib.sha256(text.encode()).hexdigest()
            document = {"text": text, "path": path, "source": folder.name, "language": "python", "sha256": digest}
            result.keep(document, len(text.encode()))
    return sum(result.kept.values())


def peak(module: str, *words: object) -> float:
    """The largest resident memory of a rule's command (MB)."""
    command = [sys.executable, "-m", f"scripts.{module}", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{module} failed; its lines are above")
    return usage.ru_maxrss / 1024


def peaks(root: Path, tokenizer: Path) -> dict[str, float]:
    """MB of each rule on the documents in `root`; learns the tokenizer where it is not there yet."""
    sources = ("--filtered", root / "filter", "--sources", "it", "--settings", "{}")
    peak_of_rule = {"signatures": peak("corpus.signatures", *sources, "--out", root / "sig")}
    words = (*sources, "--signatures", root / "sig", "--out", root / "documents")
    peak_of_rule["deduplicate"] = peak("corpus.deduplicate", *words)
    words = ("--documents", root / "documents", "--settings", "{}", "--out", root / "split")
    peak_of_rule["split"] = peak("corpus.split", *words)
    if not tokenizer.exists():
        settings = '{"vocab_size": 8192}'
        peak("tokens.tokenizer", "--from", root / "split", "--settings", settings, "--out", tokenizer)
    for kind in ("code", "instruct"):
        words = ("--splits", root / "split", "--seed", 42, "--out", root / kind)
        peak_of_rule[f"compose {kind}"] = peak("corpus.compose", *words, "--settings", f'{{"kind": "{kind}"}}')
        words = ("--dataset", root / kind, "--tokenizer", tokenizer, "--length", LENGTH, "--out", root / f"{kind}-rows")
        peak_of_rule[f"pack {kind}"] = peak("tokens.pack", *words)
    return peak_of_rule


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--megabytes", type=float, default=100)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = {}
        for share in SIZES:
            root = Path(folder) / str(share)
            count = write_documents(root / "filter/it", share * options.megabytes)
            measured[count] = peaks(root, Path(folder) / "tokenizer")
            print(
                f"{count:,} documents: {', '.join(f'{rule} {mb:.0f} MB' for rule, mb in measured[count].items())}",
                flush=True,
            )
    few, many = list(measured)[-2:]
    values = {}
    for rule in measured[many]:
        slope = (measured[many][rule] - measured[few][rule]) * 1e3 / (many - few)
        values[rule] = Value(round(slope, 1), " KB")
        print(f"{rule}: {slope:.2f} KB per document and {measured[many][rule] - slope * many / 1e3:.0f} MB")
    named = {"pack_code": "pack code", "pack_chats": "pack instruct", "compose": "compose instruct"}
    conditions = f"{few:,} to {many:,} Python files in rows of {LENGTH:,} tokens; the last two sizes"
    store("memory", {key: values[rule] for key, rule in named.items()}, conditions)


if __name__ == "__main__":
    main()
