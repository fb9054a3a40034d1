"""Record what a folder was made from, so that a job with a folder per source skips those whose inputs did not change.

renew(folder, {"pin": pin, "code": code}, make)     # calls make() unless the folder was made from this and is whole
"""

import os
from collections.abc import Callable
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.manifest import read_manifest, write_manifest

MADE_FROM = "made_from.json"


def is_current(folder: Path, origin: dict) -> bool:
    """Whether a folder was made from this and its files are as they were left."""
    try:
        if read_json(folder / MADE_FROM) == origin:
            read_manifest(folder)
            return True
    except UserError:  # it was never made, or its files are not what they were
        pass
    return False


def renew(folder: Path, origin: dict, make: Callable[[], object]) -> bool:
    """Call `make` unless the folder was made from this and is whole; returns whether it was called. `make`: writes the
    folder's files and, last, its manifest."""
    if is_current(folder, origin):
        return False
    (folder / MADE_FROM).unlink(missing_ok=True)  # until the new files are whole they are made from nothing
    make()
    write_json(folder / MADE_FROM, origin)
    return True


def write_shard_manifest(out: Path, folders: list[Path], files: tuple[str, ...]) -> dict:
    """Write the manifest of a shard in `out`: it lists these files of each of these folders."""
    names = []
    for folder in folders:
        for file in files:
            names.append(os.path.relpath(folder / file, out))
    out.mkdir(parents=True, exist_ok=True)
    return write_manifest(out, names)


def folders_in(manifest: Path) -> list[Path]:
    """The folders whose files a shard's manifest lists."""
    names = read_json(manifest)["files"]
    return sorted({Path(os.path.normpath(manifest.parent / name)).parent for name in names})
