"""Record what a folder was made from, so that a job with a folder per source skips those whose inputs did not change.

write_json(folder / MADE_FROM, origin)     # last, after the folder's manifest
is_current(folder, origin)                 # whether it was made from this and is whole
"""

import os
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
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


def write_shard_manifest(out: Path, folders: list[Path], files: tuple[str, ...]) -> dict:
    """Write the manifest of a shard in `out`: it lists these files of each of these folders."""
    names = [os.path.relpath(folder / file, out) for folder in folders for file in files]
    out.mkdir(parents=True, exist_ok=True)
    return write_manifest(out, names)


def folders_in(manifest: Path) -> list[Path]:
    """The folders whose files a shard's manifest lists."""
    names = read_json(manifest)["files"]
    return sorted({Path(os.path.normpath(manifest.parent / name)).parent for name in names})
