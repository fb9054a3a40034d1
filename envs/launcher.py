"""The program `stagecraft` of the environment: `make env` copies this file into it.

It starts the command line of the checkout that the current folder lies in, as several may share an environment.
"""

import sys
from pathlib import Path


def checkout() -> Path | None:
    """The closest folder, from the current one upwards, that is a checkout of stagecraft; None where there is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "Snakefile").is_file() and (folder / "scripts/cli.py").is_file():
            return folder
    return None


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit("error: stagecraft runs on Linux: on Windows use WSL 2, on a Mac a Linux machine or container")
    root = checkout()
    if root is None:
        sys.exit("error: this folder is in no checkout of stagecraft: change into one first")
    sys.path[0] = str(root)
    from scripts.cli import main

    main()
