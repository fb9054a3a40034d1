"""Complete checkpoints: a marker file is written last, and only checkpoints with a marker are resumed.

transformers writes a checkpoint file by file and resumes from the highest number; one that lost its optimizer to a
`kill -9` would resume with a wrong state, without an error. Nothing here imports torch.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.training.engine.run_lock import Ownership

MARKER = "whole.json"


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("checkpoint-"))


def is_complete(folder: Path) -> bool:
    """Whether the marker exists and every file it names has the size that it records."""
    if not (folder / MARKER).is_file():
        return False
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size
        for name, size in read_json(folder / MARKER)["files"].items()
    )


def newest_complete(work: Path) -> Path | None:
    """The whole checkpoint with the highest step below `work`, or None."""
    return max((folder for folder in work.glob("checkpoint-*") if is_complete(folder)), key=step_of, default=None)


def remove_checkpoints_except(work: Path, keep: set[Path]) -> None:
    """Delete the checkpoints below `work` that are not in `keep`, marker first: half-deleted must not look whole."""
    for folder in work.glob("checkpoint-*"):
        if folder not in keep:
            (folder / MARKER).unlink(missing_ok=True)
            # another run may write or delete there until it notices that this one owns the folder (ownership.py)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def no_half_written_checkpoint(work: Path, owner: Ownership | None) -> Iterator[None]:
    """If the block fails, remove the checkpoint that was being written: on a full disk it is in the way.

    Args:
        owner: the first rank's claim on the folder, None on other ranks, which remove nothing.

    Raises:
        UserError: another run owns the folder by now. It removes what this one was writing, so any error may follow.
    """
    try:
        yield
    except Exception as error:
        if owner and owner.is_lost():
            raise UserError(owner.lost_message()) from error
        for folder in work.glob("checkpoint-*"):
            if owner and not is_complete(folder):
                shutil.rmtree(folder, ignore_errors=True)
        raise
