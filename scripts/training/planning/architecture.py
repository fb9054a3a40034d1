"""What a model's architecture can be trained with: tried on a tiny twin of it, in a child process, and cached.

    architecture(Path("/models/gemma-2-2b")).wrong["varlen"]     # "it drops softcap"

The trials (scripts/training/model/kernel_trials.py) import torch; this module does not. Any architecture that
transformers knows is tried like this; nothing here or there names one.
"""

import hashlib
import importlib.metadata
import json
import subprocess
import sys
from os import environ
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.experiment.layout import architecture_file
from scripts.experiment.settings.record import Record, parse_json
from scripts.experiment.settings.training import Stage

MODEL = Path(__file__).parent.parent / "model"
CODE = tuple(MODEL / name for name in ("kernel_trials.py", "twin.py", "attention.py", "chunked_loss.py"))
PACKAGES = ("torch", "transformers")
ALL_LINEAR = "all-linear"
RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")  # of a rank that asks: the trials are one process
UNUSED = ("_name_or_path", "dtype", "torch_dtype", "transformers_version")


class Architecture(Record):
    """The outcome of the trials.

    Attributes:
        wrong: kernel \u2192 why it is not right on packed rows; empty where it is right.
        wrong_unpacked: the same with one document in a row.
        linear: names of the linear layers that can get an adapter.
        own_loss: why the model must compute its loss itself, and not in chunks; empty if it need not.
        no_dropout: why adapters on all of these cannot have dropout; empty if they can.
    """

    model_type: str
    wrong: dict[str, str]
    wrong_unpacked: dict[str, str]
    linear: list[str]
    own_loss: str
    no_dropout: str

    def wrong_kernels(self, settings: Stage) -> dict[str, str]:
        """`wrong`, for the rows that a stage trains on."""
        if settings.packing:
            return self.wrong
        return self.wrong_unpacked


def unknown_target(targets: list[str] | str, known: list[str]) -> str | None:
    """The first of a stage's `lora.targets` that is none of a model's linear layers, `known`; None if each is one."""
    if targets == ALL_LINEAR:
        return None if known else targets
    return next((target for target in targets if target not in known), None)


def architecture(folder: Path) -> Architecture:
    """The architecture of the model whose config.json is in `folder`. Raises UserError: transformers cannot make a
    model of it."""
    config = {name: value for name, value in read_json(folder / "config.json").items() if name not in UNUSED}
    versions = [importlib.metadata.version(name) for name in PACKAGES]
    text = json.dumps([config, versions, [path.read_text() for path in CODE]], sort_keys=True)
    cached = architecture_file(hashlib.sha256(text.encode()).hexdigest()[:16])
    if not cached.exists():
        command = [sys.executable, "-m", "scripts.training.model.kernel_trials"]
        alone = {name: value for name, value in environ.items() if name not in RANK}
        quiet = {**alone, "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
        given = json.dumps(str(folder))
        done = subprocess.run(command, input=given, capture_output=True, text=True, env=quiet, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1].split(". ")[0]
            kind = config.get("model_type", "this architecture")
            raise UserError(
                f"training.base.model: {folder}: no small copy of {kind} could be made to try it on: {last};"
                " use another base model"
            )
        write_json(cached, json.loads(done.stdout.splitlines()[-1]))
    return parse_json(Architecture, cached.read_text())
