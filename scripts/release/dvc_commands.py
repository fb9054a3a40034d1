"""DVC's command line for publishing: its calls, and a check that its remote verifies what it delivers.

check_remote()
dvc("add", "data/raw/click-0123456789ab.tar.zst")
"""

import subprocess
import sys

from scripts.common.errors import UserError


def dvc(*arguments: str) -> str:
    """Run DVC, its progress on the terminal; return its stdout.

    Raises:
        UserError: DVC failed; it printed why.
    """
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise UserError(f"`dvc {arguments[0]}` failed: see its lines above; then publish again")
    return done.stdout


def check_remote() -> None:
    """Raises UserError: there is no default remote, or it would deliver a flipped byte unnoticed."""
    config = dict(line.split("=", 1) for line in dvc("config", "--list").splitlines())
    name = config.get("core.remote")
    if name is None:
        raise UserError("no DVC remote: `dvc remote add -d NAME URL && dvc remote modify NAME verify true`")
    if config.get(f"remote.{name}.verify", "false").lower() != "true":
        raise UserError(
            f"DVC remote {name} does not verify what it delivers; run `dvc remote modify {name} verify true`"
        )
