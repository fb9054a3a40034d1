"""Rule history: when each file of pinned git sources was first committed, for a split by time.

    python -m scripts.sources.history --sources '{"name": "zstd", "kind": "git", "pin": "9d1bc2b4a1f0..."}' ... \\
        --locations https://example.org/zstd.git ... --code 3f0c9a41d2b86e75 \\
        --history results/sources/history --shard results/sources/history/_0

Each source has a folder below --history. Its `first_commits.jsonl.zst` has a line per file,
`{"path": "lib/a.c", "first_commit": 1704067200}` (seconds since 1970, UTC), sorted by path. The rule runs only with
`corpus.split.by: time`, and needs git sources, as archives hold a commit without its history.

Up to 512 sources a job has one source. The jobs of more have a shard of them, and write a manifest that lists the files
of all. `made_from.json` in a source's folder says of which pin it was read, and by which code; a folder that was made
from the same and is whole is kept. So a changed pin reads the history of that source alone, and after a failure or a
kill the next try goes on. A source that fails does not keep the others of the shard from being read.

The whole history is fetched into an empty repository of our own (providers/git_process.py) and read by `git log`, which
runs no code of the repository. A moved file keeps the date of its earlier name, as far as git detects renames (half of
the content kept; beyond 1,000 files in one commit only exact ones). The earlier one of author's and committer's date
counts, and an unreadable date counts as 1970: errors make files older, never newer. The dates are not verified.
"""

import logging
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import NAME, renew, write_manifest, write_shard_manifest
from scripts.common.options import command
from scripts.experiment.layout import FIRST_COMMITS
from scripts.sources.archives.members import LIMITS
from scripts.sources.providers.git import fetch_commit
from scripts.sources.providers.git_process import end, error_line, git_process
from scripts.sources.providers.package_index import time_limit
from scripts.sources.tables.source import PinnedSource, given_sources, make_each

LOG = [
    *(
        "log",
        "--reverse",
        "--topo-order",
        "--root",
        "--diff-merges=combined",
        "--combined-all-paths",
        "-M50%",
        "-l1000",
    ),
    *("--name-status", "-z", "--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-mailmap"),
    *("--ignore-submodules=none", "--no-relative", "--format=tformat:%at %ct"),
]
HEADER = re.compile(rb"(-?\d*) (-?\d*)")
CHUNK = 1 << 20


def output(repository: Path, *arguments: str) -> Iterator[bytes]:
    """Yield the parts of git's output, which zero bytes terminate. Raises UserError: git failed."""
    with tempfile.TemporaryFile() as errors:
        process, rest = git_process(repository, *arguments, stdout=subprocess.PIPE, stderr=errors), b""
        try:
            while data := process.stdout.read(CHUNK):
                *records, rest = (rest + data).split(b"\0")
                yield from records
            complete = process.wait() == 0
        finally:
            end(process)
        if not complete:
            errors.seek(0)
            raise UserError(f"git {arguments[0]}: {error_line(errors.read().decode(errors='replace'))}")


def changes(log: Iterator[bytes]) -> Iterator[tuple[int, bytes, list[bytes], bytes]]:
    """Yield (date, status letters, names in the parents, name) of each changed file in the output of `LOG`.

    An entry of a merge has a letter for each parent, that of any other commit has one.
    """
    date, merge = 0, False
    for token in log:
        word = token.removeprefix(b"\n")
        if not word:  # before the entries of a merge
            merge = True
        elif match := HEADER.fullmatch(word):
            date, merge = min(int(match[1] or 0), int(match[2] or 0)), False
        else:
            letters = re.sub(rb"\d", b"", word)
            if merge:
                parents = [next(log, b"") for _ in letters]
            else:
                parents = []
                if letters in (b"R", b"C"):
                    parents = [next(log, b"")]
            yield date, letters, parents, next(log, b"")


def first_commits(location: str, commit: str, work: Path, max_seconds: float) -> dict[str, int]:
    """By path of each file in `commit`: when it was first committed (seconds since 1970, UTC), sorted by path.

    Names that are not UTF-8 are left out, as they are in archives.

    Args:
        location: a URL or a path.
        work: an empty folder for the objects, which the caller removes.
        max_seconds: the longest that fetching, and then reading, may take.

    Raises:
        UserError: the repository cannot be read in time, has no such commit, or not its whole history.
    """
    repository = fetch_commit(location, commit, work, max_seconds, with_history=True)
    too_long = f"{location}: history not read after {max_seconds / 60:g} min"
    first, dates = {}, {}
    with time_limit(max_seconds, too_long):
        for date, letters, parents, name in changes(output(repository, *LOG, commit)):
            if set(letters) <= set(b"ARC"):
                first[name] = min([date, *(first[commit] for commit in (*parents, name) if commit in first)])
        for name in output(repository, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit):
            with suppress(UnicodeDecodeError):
                dates[name.decode()] = first.get(name, 0)
    return dict(sorted(dates.items()))


def history(source: PinnedSource, out: Path) -> dict:
    """Write the first commits of a source's files to the folder `out`; returns the manifest. Raises UserError: the
    source is not of kind git, or its history cannot be read completely."""
    if source.kind != "git":
        raise UserError(f"source {source.name}: of kind {source.kind}, which has no history; a split by time needs git")
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{source.name}.", dir=out) as work:
            dates = first_commits(source.location, source.pin, Path(work), LIMITS.seconds)
    except UserError as error:
        raise UserError(f"source {source.name}: {error}") from error
    write_jsonl(out / FIRST_COMMITS, ({"path": path, "first_commit": date} for path, date in dates.items()))
    logging.info(f"history {source.name}: first commits of {len(dates):,} files")
    return write_manifest(out, [FIRST_COMMITS], pin=source.pin, paths=len(dates))


def history_shard(sources: list[PinnedSource], code: str, folder: Path, shard: Path | None = None) -> None:
    """Write the first commits of each source to its folder below `folder`, and the list of their files to `shard`."""

    def read(source: PinnedSource) -> bool:
        out = folder / source.name
        return renew(out, {"pin": source.pin, "code": code}, lambda: history(source, out))

    new = sum(make_each("history", sources, read))
    if shard:
        write_shard_manifest(shard, [folder / source.name for source in sources], (FIRST_COMMITS, NAME))
        logging.info(f"history {shard.name}: {new} histories read, {len(sources) - new} kept as they were")


def histories(sources: list[dict], locations: list[str], code: str, history: Path, shard: Path | None = None) -> None:
    """See `history_shard`. `sources`: name, kind and pin of each, `locations`: where it is."""
    history_shard(given_sources(sources, locations), code, history, shard)


if __name__ == "__main__":
    run(command(histories))
