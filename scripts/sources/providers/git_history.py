"""Find out when each file of an untrusted git repository was first committed, under any name.

    dates = first_commits(location, commit, Path("work"), max_seconds)     # {"src/a.py": 1704067200}, seconds, UTC

The whole history is fetched into an empty repository of our own (see `git_process.py`) and read by `git log`, which
runs no code of the repository. A moved file keeps the date of its earlier name, as far as git detects renames (half of
the content kept; beyond 1,000 files in one commit only exact ones). The earlier one of author's and committer's date
counts, and an unreadable date counts as 1970: errors make files older, never newer. The dates are not verified;
whoever commits chooses them.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from scripts.common.errors import UserError
from scripts.sources.providers.git import fetch_commit
from scripts.sources.providers.git_process import end, error_line, git_process
from scripts.sources.providers.time_limit import time_limit

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
    """Yield the parts of git's output, which zero bytes terminate.

    Raises:
        UserError: git failed.
    """
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
                parents = [next(log, b"")] if letters in (b"R", b"C") else []
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
