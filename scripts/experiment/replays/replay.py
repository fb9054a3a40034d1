"""Run a sample with the code of a git commit, in a worktree of its own, and say what differs between two such runs.

    with worktree(commit) as folder:
        made = replay(sample, folder)          # path → content in a form that can be compared
    differing(made, other)                     # "manifest.json: files.model.safetensors.sha256 1f… → 2e…"

The worktree has the commit's `scripts/`, today's `config/` and links to the inputs. Nothing is written outside of it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from scripts.common.errors import UserError
from scripts.common.files import sha256_file
from scripts.experiment.causes import setting_changes
from scripts.experiment.replays.samples import Sample

# figures of the machine, which no code decides
MEASURED = re.compile(r"seconds|_per_second|_runtime|^memory_|^mfu$|^gpu_|^resumed_at_step$")


def git(*words: str, root: Path) -> str:
    """Raises UserError: git failed; the line is its own."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"git {words[0]}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return done.stdout


@contextmanager
def worktree(commit: str, root: Path) -> Iterator[Path]:
    """A worktree of a commit of the repository `root`, with today's config/; removed at the end.

    Raises:
        UserError: the commit is not in this repository.
    """
    with tempfile.TemporaryDirectory(prefix="replay.") as temporary:
        folder = Path(temporary) / "code"
        git("worktree", "add", "--quiet", "--detach", str(folder), commit, root=root)
        try:
            shutil.rmtree(folder / "config", ignore_errors=True)
            shutil.copytree(root / "config", folder / "config")
            yield folder
        finally:
            git("worktree", "remove", "--force", str(folder), root=root)


def place_inputs(sample: Sample, folder: Path, root: Path) -> None:
    """Link a sample's inputs, and what lies beside them, into a worktree; write the files that are its own."""
    paths = [Path(path) for path in sample.inputs if not Path(path).is_absolute()]
    neighbours = {file.relative_to(root) for path in paths for file in (root / path).parent.glob("*") if file.is_file()}
    for path in sorted({*paths, *neighbours}):
        if not (folder / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(root / path)
    for name, content in sample.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(content)


def without_measured(value: object) -> object:
    """A JSON value without the figures of the machine."""
    if isinstance(value, dict):
        return {key: without_measured(item) for key, item in value.items() if not MEASURED.search(key)}
    return [without_measured(item) for item in value] if isinstance(value, list) else value


def comparable(path: Path) -> object:
    """A file's content for comparison: JSON and JSON lines by value, any other file by its sha256."""
    if path.suffix == ".json":
        return without_measured(orjson.loads(path.read_bytes()))
    if path.suffix == ".jsonl":
        return {str(at): without_measured(orjson.loads(line)) for at, line in enumerate(path.read_bytes().splitlines())}
    return sha256_file(path)


def run_in(folder: Path, command: str) -> subprocess.CompletedProcess:
    """Run a job's command as Snakemake would, in a worktree."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    words = ["bash", "-c", f"set -euo pipefail; {command}"]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def replay(sample: Sample, folder: Path, root: Path) -> dict[str, object]:
    """path → comparable content of what the sample makes with a worktree's code.

    Raises:
        UserError: it failed; the line is its last.
    """
    place_inputs(sample, folder, root)
    for path in sample.outputs:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for log in re.findall(r"\| tee (\S+)", sample.command):
        (folder / log).parent.mkdir(parents=True, exist_ok=True)
    done = run_in(folder, sample.command)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise UserError(f"failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return {path: comparable(folder / path) for path in sample.outputs}


def differing(old: dict[str, object], new: dict[str, object]) -> list[str]:
    """What differs between two replays, a line each; none where they are equal to the bit."""
    lines = []
    for path in old:
        changes = setting_changes(old[path], new[path]) if old[path] != new[path] else []
        lines += [f"{path}: {change}" for change in changes]
    return lines


def digest_of(outputs: dict[str, object]) -> dict[str, str]:
    """path → hash (16 hex digits) of what was compared, for the evidence."""
    return {
        path: hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
        for path, content in outputs.items()
    }
