"""Remove checkpoints that nothing can use any more, and say in the log what that freed.

A run of a stage is a folder `results/work/train/{stage}/{key}`, named by all that decides the result. The rule:

- A stage's checkpoints are removed once its model is published and a stage that starts from it begins, or the workflow
  ends well: from then on Snakemake has recorded the stage as finished, and no kill can make it run again.
- Of a stage's earlier runs, whose settings, code, data or origin were others, the newest whole checkpoint is kept until
  a newer run is published, so that the settings can be set back; the other checkpoints are removed when a run starts.
- Metrics, alerts and TensorBoard files are always kept, and a run whose owner may be alive is left alone
  (`other_owner_ended`).

Imports no torch: the Snakefile calls `remove_published` when a workflow ends.
"""

import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scripts.common.disk import size_text
from scripts.common.files import read_json_or_empty, sha256_file, write_json
from scripts.common.manifest import NAME
from scripts.training.engine import run_lock as ownership
from scripts.training.engine.checkpoint_folders import MARKER, SET_ASIDE, newest_complete

PUBLISHED = "published.json"


def checkpoints_of(run: Path) -> list[Path]:
    """The checkpoints of a run: whole, half written and set aside; and the weights that it keeps for its curve."""
    return sorted([*run.glob("checkpoint-*"), *run.glob(f"{SET_ASIDE}checkpoint-*"), *run.glob("snapshot-*")])


def folder_bytes(folder: Path) -> int:
    """The sum of the sizes of all files below `folder`; those that another process deletes meanwhile do not count."""
    size = 0
    for inner, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(inner, name).stat().st_size
    return size


def mark_published(run: Path, out: Path) -> None:
    """Record that the model of this run is in `out`; call it when that folder is complete."""
    write_json(run / PUBLISHED, {"manifest_sha256": sha256_file(out / NAME)})


def mark_unfinished(run: Path) -> None:
    """Record that a run is trained again, though its model was published before."""
    (run / PUBLISHED).unlink(missing_ok=True)


def is_published(run: Path, out: Path) -> bool:
    """Whether `out` holds the model of this run, complete and not of another run since."""
    if not (run / PUBLISHED).is_file() or not (out / NAME).is_file():
        return False
    return read_json_or_empty(run / PUBLISHED).get("manifest_sha256") == sha256_file(out / NAME)


def other_owner_ended(run: Path) -> bool:
    """Whether no process trains in another run's folder any more; if it has, its token is removed.

    Without the token a run that lives on all the same, where Slurm has given it up, ends at its next step or save.
    """
    path = run / ownership.NAME
    if (run / PUBLISHED).is_file() or not path.is_file():
        return True
    token = read_json_or_empty(path)
    state = ownership.state_of(token)
    if state is ownership.State.UNKNOWN and checkpoints_of(run):
        owner = ownership.describe(token)
        logging.info(f"kept the checkpoints of an earlier run: {owner} may still work there; if not, remove {path}")
    if state is not ownership.State.ENDED:
        return False
    path.unlink(missing_ok=True)
    return True


def unless_deleted(function: Callable, path: str, error: tuple) -> None:
    """Raise an error of `shutil.rmtree`, unless another stage that starts from the same model was faster."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def remove(checkpoints: list[Path], of: str) -> list[str]:
    """Delete checkpoints `of` a run; lines for the log: one that says how many and how large, or none."""
    if not checkpoints:
        return []
    freed = sum(map(folder_bytes, checkpoints))
    for folder in checkpoints:
        (folder / MARKER).unlink(missing_ok=True)  # half-deleted must not look whole
        shutil.rmtree(folder, onerror=unless_deleted)
    count = len(checkpoints)
    return [f"removed {count} checkpoint{'s' * (count > 1)} of {of}, freed {size_text(freed)}"]


def remove_earlier(run: Path, keep_newest: bool) -> list[str]:
    """Remove the checkpoints of the other runs of this run's stage, but for the newest whole one of an unfinished run.

    Args:
        keep_newest: False removes that one too; for a run that has just been published.

    Returns:
        lines for the log.
    """
    lines = []
    for other in sorted(run.parent.iterdir()):
        if other != run and other.is_dir() and other_owner_ended(other):
            unfinished = not (other / PUBLISHED).is_file()
            kept = None
            if keep_newest and unfinished:
                kept = newest_complete(other)
            useless = [folder for folder in checkpoints_of(other) if folder != kept]
            if kept:  # a run that goes on from there needs the weights that it kept before
                useless = [folder for folder in useless if not folder.name.startswith("snapshot-")]
            lines += remove(useless, "an earlier run")
    return lines


def remove_published(work: Path, out: Path) -> list[str]:
    """Remove the checkpoints of the run whose model is in `out`.

    Args:
        work: the stage's work folder, with a folder for each run.
        out: the stage's published folder.

    Returns:
        lines for the log.
    """
    runs = [run for run in sorted(work.glob("*")) if is_published(run, out)]
    found = []
    for run in runs:
        found += remove(checkpoints_of(run), f"finished stage {work.name}")
    return found


def prune_before_start(run: Path, origin: Path) -> None:
    """Remove, with lines in the log, what the run that starts now from `origin` makes useless."""
    mark_unfinished(run)
    for line in [*remove_published(run.parent.with_name(origin.name), origin), *remove_earlier(run, keep_newest=True)]:
        logging.info(line)


def prune_after_publishing(run: Path, out: Path) -> None:
    """Record that the model of this run is in `out`, and remove the checkpoints of all earlier runs."""
    mark_published(run, out)
    for line in remove_earlier(run, keep_newest=False):
        logging.info(line)
