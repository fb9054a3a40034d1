"""Small manifests of big files: downstream rules depend on the manifest and do not rerun while it is unchanged.

`manifest.json` lies beside the files that it lists: {"files": {name: {"bytes": int, "sha256": hex}}, ...facts}. It
holds no time, no path and no code fingerprint, so equal content gives an equal manifest.
"""

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
