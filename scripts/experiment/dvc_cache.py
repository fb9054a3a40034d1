"""Where DVC keeps files in its cache, and the command that replaces a corrupt one there."""

import shlex
import subprocess
import sys
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.machine_files import read_yaml


def run_dvc(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "dvc", *arguments], capture_output=True, text=True, errors="replace")


def cache_folder() -> Path:
    """The folder of DVC's cache. Raises UserError: this is no DVC repository, or its configuration is broken."""
    result = run_dvc("cache", "dir")
    if result.returncode:
        raise UserError(f"dvc cache dir: {' '.join(result.stderr.split())}")
    return Path(result.stdout.strip())


def cache_object(cache: Path, md5: str) -> Path:
    """Where DVC 3 keeps the file with this md5."""
    return cache / "files" / "md5" / md5[:2] / md5[2:]


def repair_command(files: list[str]) -> str | None:
    """The command that downloads published files again, past a corrupt cache; None if none of them was published.

    `dvc pull` alone trusts its cache: it would deliver a corrupt file from there again.
    """
    md5s = {}
    for pointer in sorted(Path("data").glob("*.dvc")):
        md5s |= {out["path"]: out["md5"] for out in read_yaml(pointer)["outs"]}
    files = [file for file in files if file in md5s]
    if not files:
        return None
    cache = cache_folder()
    objects = [str(cache_object(cache, md5s[file])) for file in files]
    return f"rm -f {shlex.join([*files, *objects])} && dvc pull {shlex.join(files)}"
