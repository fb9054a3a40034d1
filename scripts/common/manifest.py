"""Small manifests of big files: downstream rules depend on the manifest and do not rerun while it is unchanged.

`manifest.json` lies beside the files that it lists: {"files": {name: {"bytes": int, "sha256": hex}}, ...facts}. It
holds no time, no path and no code fingerprint, so equal content gives an equal manifest.
"""

import os
from collections.abc import Callable
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file, write_json

NAME = "manifest.json"


def write_manifest(folder: Path, names: list[str], **facts: object) -> dict:
    """Hash the named files of `folder` and write its manifest. Call it last: a manifest means a complete folder."""
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)} for name in names}
    manifest = {"files": files, **facts}
    write_json(folder / NAME, manifest)
    return manifest


def read_manifest(folder: Path) -> dict:
    """Read the manifest of `folder` and check every file that it lists. Raises UserError: a file is missing, or its
    size or sha256 is not the manifest's."""
    manifest = read_json(folder / NAME)
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"{path}: missing, but listed in {folder / NAME}; delete the manifest and run again")
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise UserError(f"{path}: {size} bytes, its manifest says {expected['bytes']}; delete it and run again")
        digest = sha256_file(path)
        if digest != expected["sha256"]:
            raise UserError(
                f"{path}: sha256 is {digest}, its manifest says {expected['sha256']}; delete it and run again"
            )
    return manifest


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
