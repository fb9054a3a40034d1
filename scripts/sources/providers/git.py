"""Commits of untrusted git repositories, as they are committed: as a tar, one file, or compared with a working tree."""

import logging
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from scripts.common.errors import MachineFault, UserError
from scripts.sources.providers.git_process import empty_repository, end, error_line, git_process, run_git
from scripts.sources.providers.package_index import RETRY_PAUSES, time_limit

MAX_SECONDS = 3600.0  # that a fetch may take where no setting limits it
# Each file as it is committed: nothing left out, no commit or date put in, no line ends changed, no filter run.
AS_COMMITTED = "* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding\n"
NO_FILTER = "* -filter\n"
BRANCHES_AND_TAGS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
# what a server says that answers, and will say again
REFUSED = ("not found", "does not appear to be", "does not exist", "Authentication failed", "ermission denied")
TOO_SLOW = ("Operation too slow", "timed out", "Timeout")


@contextmanager
def commit_as_tar(location: str, commit: str, work: Path, max_seconds: float = MAX_SECONDS) -> Iterator[BinaryIO]:
    """Yield the tar of `commit` in the repository at `location`, a URL or a path; submodules are not in it.

    Args:
        work: an empty folder for the objects, which the caller removes.
        max_seconds: the longest that fetching may take.

    Raises:
        UserError: the repository cannot be read in time, or has no such commit.
    """
    repository = fetch_commit(location, commit, work, max_seconds)
    if run_git(repository, "cat-file", "-e", f"{commit}:.gitmodules").returncode == 0:
        logging.info(f"{location}: its submodules are not fetched; name them as sources of their own")
    with tempfile.TemporaryFile() as errors:
        process = git_process(repository, "archive", "--format=tar", commit, stdout=subprocess.PIPE, stderr=errors)
        try:
            yield process.stdout
            complete = process.wait() == 0
        finally:
            end(process)
        if not complete:
            errors.seek(0)
            raise UserError(f"git archive {commit}: {error_line(errors.read().decode(errors='replace'))}")


def copy_file(location: str, commit: str, path: str, work: Path, out: BinaryIO) -> None:
    """Write the file `path` of `commit` in the repository at `location` to `out`, as it is committed.

    Args:
        work: an empty folder for the objects, which the caller removes.

    Raises:
        UserError: the repository cannot be read, has no such commit, or no such file in it.
    """
    repository = fetch_commit(location, commit, work, MAX_SECONDS)
    if run_git(repository, "cat-file", "-t", f"{commit}:{path}").stdout.strip() != "blob":
        raise UserError(f"no file {path} in commit {commit} of {location}")
    process = git_process(repository, "cat-file", "blob", f"{commit}:{path}", stdout=out)
    if process.wait():
        raise UserError(f"git cat-file {commit}:{path} failed in {location}")


def fetch_commit(location: str, commit: str, work: Path, max_seconds: float, with_history: bool = False) -> Path:
    """Fetch `commit` of the repository at `location` into a new repository in the empty folder `work`.

    Args:
        with_history: fetch its history too.

    Raises:
        UserError: the repository cannot be read in time, or lacks the commit or, `with_history`, its history.
        MachineFault: its server cannot be reached.
    """
    repository = empty_repository(work, AS_COMMITTED)
    too_long = f"cannot read {location}: not fetched after {max_seconds / 60:g} min"
    with time_limit(max_seconds, too_long):
        fetch(repository, location, commit, with_history)
    if with_history and run_git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        raise UserError(f"{location}: a shallow clone, its history is cut off; `git fetch --unshallow` there")
    if run_git(repository, "cat-file", "-t", commit).stdout.strip() != "commit":
        raise UserError(f"no commit {commit} in {location}; `git rev-parse HEAD` in the repository names one")
    return repository


def fetch(repository: Path, location: str, commit: str, with_history: bool = False) -> None:
    """Fetch the commit, without its history or with it; where the server gives only branches and tags, all of those."""
    if Path(location).exists():
        location = str(Path(location).resolve())
    quiet = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    # a shallow source is taken as it is, so that it can be told from one without the commit
    depth = "--update-shallow" if with_history else "--depth=1"
    for pause in (*RETRY_PAUSES, None):
        result = run_git(repository, *quiet, depth, "--", location, commit)
        if result.returncode and not any(words in result.stderr for words in TOO_SLOW):
            result = run_git(repository, *quiet, "--", location, *BRANCHES_AND_TAGS)
        if result.returncode == 0:
            return
        # a silent server has taken its time already, and will again
        if pause is None or any(words in result.stderr for words in TOO_SLOW):
            line = f"cannot read {location}: {error_line(result.stderr)}"
            if Path(location).is_absolute() or any(words in result.stderr for words in REFUSED):
                raise UserError(line)
            raise MachineFault(line)
        time.sleep(pause)


def is_bare(folder: Path) -> bool:
    """Whether a folder is a bare or mirror clone, which has no working tree."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def is_repository(folder: Path) -> bool:
    """Whether a folder is a git repository, with a working tree or bare."""
    return (folder / ".git").exists() or is_bare(folder)


def is_partial(folder: Path) -> bool:
    """Whether a clone left objects at its server (`git clone --filter`), so that no commit can be read from it."""
    config = (folder if is_bare(folder) else folder / ".git") / "config"
    return config.is_file() and "promisor = true" in config.read_text(errors="replace")


def newest(folder: Path, work: Path) -> str:
    """Fetch the commit that the repository in `folder` is at into the empty folder `work`, and return it. Raises
    UserError: there is no commit, or it cannot be read."""
    repository = empty_repository(work, NO_FILTER)
    fetched = run_git(repository, "fetch", "--quiet", "--no-tags", "--depth=1", "--", str(folder.resolve()), "HEAD")
    if fetched.returncode:
        why = error_line(fetched.stderr)
        if is_partial(folder):
            why = "it is a partial clone; clone it whole"
        elif "find remote ref HEAD" in fetched.stderr:
            why = "it has no commit yet, or its HEAD names a branch that is not there (git symbolic-ref HEAD)"
        elif "mismatched algorithms" in fetched.stderr:
            why = "its object format is SHA-256, and only repositories with SHA-1 are read"
        raise UserError(f"{folder}: no commit to pin: {why}")
    return run_git(repository, "rev-parse", "--verify", "FETCH_HEAD^{commit}").stdout.strip()


COMMIT = re.compile("[0-9a-f]{40}")


def written_head(folder: Path) -> str | None:
    """The commit that the files of a whole clone with a working tree name as its newest, read without git; None where
    they do not say it so, as in a worktree or with refs in a table."""
    inner = folder / ".git"
    if not (inner / "HEAD").is_file() or not (inner / "objects").is_dir() or is_partial(folder):
        return None
    if "objectformat" in (inner / "config").read_text(errors="replace").lower():
        return None
    head = (inner / "HEAD").read_text(errors="replace").strip()
    name = head.removeprefix("ref: ")
    if name != head:
        head = ""
        if re.fullmatch(r"refs/[\w./-]+", name) and ".." not in name and (inner / name).is_file():
            head = (inner / name).read_text(errors="replace").strip()
        elif (inner / "packed-refs").is_file():
            for line in (inner / "packed-refs").read_text(errors="replace").splitlines():
                if line.endswith(f" {name}"):
                    head = line.partition(" ")[0]
    return head if COMMIT.fullmatch(head) else None


def borrow_objects(folder: Path, repository: Path) -> bool:
    """Let a repository that `empty_repository` made read the objects of a clone where they are, in place of those of an
    earlier one. False where the clone has none of its own, as a worktree."""
    for objects in (folder / ".git/objects", folder / "objects"):
        if objects.is_dir():
            (repository / "objects/info").mkdir(exist_ok=True)
            (repository / "objects/info/alternates").write_text(f"{objects.resolve()}\n")
            return True
    return False


def quick_head(folder: Path, repository: Path) -> tuple[str, list[str]] | None:
    """As `head_commit`, without copying the commit: its objects are read where they are. None where that fails.

    Args:
        repository: one that `empty_repository` made, with NO_FILTER; it can be used for one clone after the other.
    """
    commit = written_head(folder)
    if commit is None or not borrow_objects(folder, repository):
        return None
    (repository / "HEAD").write_text(f"{commit}\n")
    tree, index = f"--work-tree={folder.resolve()}", folder / ".git/index"
    if not index.is_file():
        return None
    shutil.copy2(index, repository / "index")  # by its times and its own git sees which files it need not read
    told = run_git(repository, tree, "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", "-uall")
    if told.returncode:
        return None
    return commit, [entry[3:] for entry in told.stdout.split("\0") if entry]


def head_commit(folder: Path, work: Path) -> tuple[str, list[str]]:
    """The commit that the repository in `folder` is at, and the files there that differ from it or are not in it.

    Files that the repository ignores do not count, nor does what is in submodules.

    Args:
        work: an empty folder for the objects, which the caller removes.

    Raises:
        UserError: there is no commit, or it cannot be read.
    """
    commit, repository = newest(folder, work), work
    if is_bare(folder):
        return commit, []
    tree = f"--work-tree={folder.resolve()}"
    run_git(repository, tree, "read-tree", commit)
    run_git(repository, tree, "update-index", "-q", "--refresh")
    changed = run_git(repository, tree, "diff-files", "-z", "--name-only", "--ignore-submodules=all").stdout
    unknown = run_git(repository, tree, "ls-files", "-z", "--others", "--exclude-standard").stdout
    return commit, [name for name in (changed + unknown).split("\0") if name]
