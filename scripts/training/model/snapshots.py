"""The weights that a stage with a `curve` had on its way, beside those after its last step.

    for steps, folder in snapshots(Path("results/training/train/own")):
        ...                       # 6, a folder that loads as the model after 6 steps

After some of its steps a stage keeps its weights (of LoRA the adapter) as `step-6.adapter_model.safetensors`. Imports
no torch.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scripts.common.files import read_json, write_json
from scripts.common.manifest import NAME

SNAPSHOT = re.compile(r"step-(?P<steps>\d+)\.(?P<file>.+)")


def snapshot_name(steps: int, file: str) -> str:
    """The name of a file of weights after so many steps."""
    return f"step-{steps}.{file}"


def snapshots_in(names: list[str]) -> dict[int, dict[str, str]]:
    """Steps → file that transformers loads → its name in the stage's folder, in order. `names`: of all files."""
    found: dict[int, dict[str, str]] = {}
    for name in names:
        match = SNAPSHOT.fullmatch(name)
        if match:
            found.setdefault(int(match["steps"]), {})[match["file"]] = name
    return dict(sorted(found.items()))


def snapshots(folder: Path) -> Iterator[tuple[int, Path]]:
    """(steps, a temporary folder with the model of then) of each snapshot in a stage's folder, in order."""
    manifest = read_json(folder / NAME)
    names = list(manifest["files"])
    for steps, files in snapshots_in(names).items():
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary)
            for name in names:
                if not SNAPSHOT.fullmatch(name) and name not in files:
                    (place / name).symlink_to((folder / name).resolve())
            for file, name in files.items():
                (place / file).symlink_to((folder / name).resolve())
            here = dict(manifest)
            if "adapter" in manifest:  # which names its base by the way from the stage's folder
                base = str((folder / manifest["adapter"]["base"]).resolve())
                here["adapter"] = manifest["adapter"] | {"base": base}
            write_json(place / NAME, here)
            yield steps, place
