"""Commits of git repositories, read without prompts, without running what a location names, as committed."""

import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from scripts.common.cli import UserError

RETRY_PAUSES = (0.5, 1)  # seconds before the second and the third attempt
# variables of a hook or of another repository, which would point git elsewhere (git rev-parse --local-env-vars)
REPOSITORY_VARIABLES = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
}
# Each file as it is committed: nothing left out, no commit or date put in, no line ends changed, no filter run.
ATTRIBUTES = "* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding\n"


def git_command(*arguments: str) -> dict:
    """The arguments of a subprocess call that runs git."""
    environment = {name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES}
    # without the protocol `ext::`, which runs the command in the location
    settings = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh", "LC_ALL": "C"}
    # a session of its own has no terminal on which ssh could prompt
    return {
        "args": ["git", *arguments],
        "env": environment | settings,
        "stdin": subprocess.DEVNULL,
        "start_new_session": True,
    }


def run_git(*arguments: str) -> subprocess.CompletedProcess:
    """Run git to its end; the caller looks at `returncode`.

    Raises:
        UserError: git is not installed.
    """
    try:
        return subprocess.run(**git_command(*arguments), capture_output=True, text=True, errors="replace")
    except FileNotFoundError as error:
        raise UserError("git is not installed; it reads the sources of kind git") from error


def error_line(stderr: str) -> str:
    """The line of git's error output that names the error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["git failed without a message"]
    return next((line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))), lines[-1])


def fetch_commit(location: str, commit: str, work: Path) -> str:
    """Fetch `commit` of the repository at `location` into the empty folder `work`; returns the option that names it.

    Raises:
        UserError: the repository cannot be read, or has no such commit.
    """
    bare = f"--git-dir={work}"
    run_git("init", "--quiet", "--bare", str(work))
    (work / "info").mkdir(exist_ok=True)
    (work / "info" / "attributes").write_text(ATTRIBUTES)
    fetch_with_retries(bare, str(Path(location).resolve()) if Path(location).exists() else location, commit)
    if run_git(bare, "cat-file", "-t", commit).stdout.strip() != "commit":
        raise UserError(f"no commit {commit} in {location}; `git rev-parse HEAD` in the repository names one")
    return bare


def copy_file(location: str, commit: str, path: str, work: Path, out: BinaryIO) -> None:
    """Write the file `path` of `commit` in the repository at `location` to `out`, as it is committed.

    Args:
        work: an empty folder for the objects, which the caller removes.

    Raises:
        UserError: the repository cannot be read, has no such commit, or no such file in it.
    """
    bare = fetch_commit(location, commit, work)
    if run_git(bare, "cat-file", "-t", f"{commit}:{path}").stdout.strip() != "blob":
        raise UserError(f"no file {path} in commit {commit} of {location}")
    subprocess.run(**git_command(bare, "cat-file", "blob", f"{commit}:{path}"), stdout=out, check=True)


@contextmanager
def commit_as_tar(location: str, commit: str, work: Path) -> Iterator[BinaryIO]:
    """Yield the tar of `commit` in the repository at `location`, a URL or a path; submodules are not in it.

    Args:
        work: an empty folder for the objects, which the caller removes.

    Raises:
        UserError: the repository cannot be read, or has no such commit.
    """
    bare = fetch_commit(location, commit, work)
    if run_git(bare, "cat-file", "-e", f"{commit}:.gitmodules").returncode == 0:
        logging.info(f"{location}: its submodules are not fetched; name them as sources of their own")
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            **git_command(bare, "archive", "--format=tar", commit), stdout=subprocess.PIPE, stderr=errors
        )
        try:
            yield process.stdout
            complete = process.wait() == 0
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
        if not complete:
            errors.seek(0)
            raise UserError(f"git archive {commit}: {error_line(errors.read().decode(errors='replace'))}")


def fetch_with_retries(bare: str, location: str, commit: str) -> None:
    """Fetch the commit alone; where the server gives only branches and tags, all of those."""
    quiet = (bare, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    for pause in (*RETRY_PAUSES, None):
        result = run_git(*quiet, "--depth=1", "--", location, commit)
        if result.returncode:
            result = run_git(*quiet, "--", location, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        if result.returncode == 0:
            return
        if pause is None:
            raise UserError(f"cannot read {location}: {error_line(result.stderr)}")
        time.sleep(pause)
