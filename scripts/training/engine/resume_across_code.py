"""Resume a stage from a checkpoint of another version of the code: `RESUME=anyway make eval`.

The folder of a run is named by a hash of settings, seed, code, origin and data, so after a change of code a stage
starts from step 0. With RESUME=anyway in the environment it resumes from the newest complete checkpoint of an
unfinished run that differs in its code only. `run.json` in the folder records each change of code with its step;
summary.json, eval.json and the report show them.

Imports no torch: the Snakefile checks RESUME when the workflow starts.
"""

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_json_or_empty, write_json
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import Stage
from scripts.training.engine.checkpoint_folders import newest_complete, step_of
from scripts.training.engine.pruning import PUBLISHED, other_owner_ended

NAME = "run.json"


class Run(NamedTuple):
    """All that determines a stage's weights, except the machine; manifests as dicts."""

    settings: Stage
    seed: int
    origin: dict
    shards: dict
    code: str

    def without_code(self) -> list:
        return [to_dict(self.settings) | {"seed": self.seed}, self.origin, self.shards]

    def folder_name(self) -> str:
        stage, *inputs = self.without_code()
        return short_hash([stage, self.code, *inputs])


def short_hash(values: list) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def resume_anyway() -> bool:
    """Whether the environment has RESUME=anyway. Raises UserError: it has another value."""
    value = os.environ.get("RESUME", "")
    if value not in ("", "anyway"):
        raise UserError(f"RESUME={value}: must be `anyway`; without it only checkpoints of the same code count")
    return value == "anyway"


def other_code_runs(work: Path, run: Run) -> list[Path]:
    """The unfinished runs beside `work` that differ from `run` in their code only and have a complete checkpoint."""
    settings_hash = short_hash(run.without_code())
    return [
        path.parent
        for path in sorted(work.parent.glob(f"*/{NAME}"))
        if path.parent != work and read_json_or_empty(path).get("same_but_code") == settings_hash
        if not (path.parent / PUBLISHED).exists() and newest_complete(path.parent) and other_owner_ended(path.parent)
    ]


def prepare_work_folder(name: str, work: Path, run: Run, anyway: bool) -> None:
    """Create the folder of a run. On the first rank, before anything else is written there.

    Args:
        name: the stage's.
        anyway: if the folder has no complete checkpoint, continue from one that other code wrote, if there is one. Its
            folder is renamed: nothing is copied, and after a kill it has one of the two names.

    Raises:
        UserError: a file is in the place of the folder, or of one above it.
    """
    others = []
    if not newest_complete(work):
        others = other_code_runs(work, run)
    if others:
        other = max(others, key=lambda folder: step_of(newest_complete(folder)))
        step = step_of(newest_complete(other))
        if anyway:
            shutil.rmtree(work, ignore_errors=True)
            other.rename(work)
        else:
            logging.info(
                f"{name}: another version of the code has trained {step} steps; RESUME=anyway continues from there"
            )
    for folder in (work, *work.parents):
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: a file, where the stage keeps its checkpoints; move it away")
    work.mkdir(parents=True, exist_ok=True)
    record = read_json_or_empty(work / NAME)
    if not {"code", "code_changes"} <= record.keys():
        if (work / NAME).exists():
            logging.warning(f"{work / NAME}: damaged; which code trained the steps until now is not known")
        record = {"code": run.code, "code_changes": []}
    if record["code"] != run.code:
        step = step_of(newest_complete(work))
        logging.info(f"{name}: continues from step {step} of another version of the code (RESUME=anyway)")
        # changes at this step or later did not contribute to the weights
        changes = [change for change in record["code_changes"] if change["step"] < step]
        record["code_changes"] = [*changes, {"step": step, "from": record["code"], "to": run.code}]
    write_json(work / NAME, record | {"code": run.code, "same_but_code": short_hash(run.without_code())})


def code_changes(work: Path) -> list[dict]:
    """The changes of code in a run: [{"step", "from", "to"}]; `from` and `to` are fingerprints."""
    return read_json(work / NAME)["code_changes"]
