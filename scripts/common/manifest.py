"""Small manifests that stand for big files: downstream rules depend on these and skip where the content is equal.

`manifest.json` lies beside the files it names: {"files": {name: {"bytes": int, "sha256": hex}}, ...facts}. It holds
no time, no path and no code fingerprint, so equal content gives an equal manifest, whoever made it and when.
"""

from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import read_json, sha256_file, write_json

NAME = "manifest.json"


def write_manifest(folder: Path, names: list[str], **facts: object) -> dict:
    """Hash the named files of `folder` and write its manifest, last of all files: it says that the folder is whole."""
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)} for name in names}
    manifest = {"files": files, **facts}
    write_json(folder / NAME, manifest)
    return manifest


def read_manifest(folder: Path) -> dict:
    """The manifest of `folder`, each file it names being there with the size and hash it says.

    Raises:
        UserError: a file is missing or its content is not what the manifest says.
    """
    manifest = read_json(folder / NAME)
    for name, said in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"{path}: missing, though {folder / NAME} names it; delete the manifest and run again")
        if path.stat().st_size != said["bytes"] or (found := sha256_file(path)) != said["sha256"]:
            found = found if path.stat().st_size == said["bytes"] else f"{path.stat().st_size} bytes"
            raise UserError(f"{path}: content is {found}, its manifest says {said['sha256']}; delete it and run again")
    return manifest
