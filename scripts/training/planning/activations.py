"""Bytes that a pass through the model keeps alive beside the model states, from a trace that is cached by content.

    measure([Pass(shape=..., sequence_length=4096, rows=1, ...)])    # traces what the cache lacks, in one process

The trace (scripts/training/planning/trace.py) imports torch; this module does not.
"""

import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from scripts.common.cli import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import trace_file
from scripts.experiment.settings.record import Record, as_json, to_dict, to_json
from scripts.experiment.settings.training import Lora, Shape

PHASES = ("forward", "loss", "head", "last", "rest")  # in each, what is alive grows with the layers at one rate
ROWS = (1, 2)
LENGTH = 2048
CODE = ("trace.py", "liger_stand_ins.py")
PACKAGES = ("torch", "transformers", "accelerate", "peft")


class Pass(Record):
    """All that decides what one pass keeps alive."""

    shape: Shape
    sequence_length: int
    rows: int
    checkpointing: bool
    every_n_layers: int = 1
    offloaded: bool = Field(False, description="What recomputed layers start from is held in host memory.")
    flash: bool = Field(description="A kernel that takes documents' offsets, not a mask.")
    liger: bool
    weights: Literal["float32", "bfloat16"]
    autocast: bool = Field(description="Compute in bf16 on weights of float32.")
    lora: Lora | None = None
    training: bool = True
    accumulated: bool = Field(
        True, description="Gradients of earlier passes exist, and are not counted; else those made here are."
    )


class Peak(NamedTuple):
    """The most bytes that a pass keeps alive."""

    bytes: int
    logits: int  # of these, the logits in all their copies
    phase: str


def sizes(asked: Pass) -> tuple[int, int]:
    """Layers of the two traced models: what they take grows linearly from here, in steps of `every_n_layers`."""
    few = 2 + (asked.shape.num_hidden_layers - 2) % asked.every_n_layers
    return few, few + asked.every_n_layers


def normal(asked: Pass) -> Pass:
    """The pass without what its trace does not depend on: the number of layers (but which of them are recomputed),
    positions."""
    plain = {"num_hidden_layers": max(sizes(asked)), "max_position_embeddings": 32768, "rope_theta": 1_000_000}
    update = {"shape": asked.shape.model_copy(update=plain)}
    if asked.lora:
        update["lora"] = asked.lora.model_copy(update={"alpha": 1, "merge": False})
    return asked.model_copy(update=update)


def cache_file(asked: Pass) -> Path:
    """Where the trace of this pass lies: named by the pass, the code that traces and the versions of its libraries."""
    code = [(Path(__file__).parent / name).read_text() for name in CODE]
    versions = [importlib.metadata.version(name) for name in PACKAGES]
    text = as_json({"pass": to_dict(normal(asked)), "code": code, "versions": versions})
    return trace_file(hashlib.sha256(text.encode()).hexdigest()[:16])


def measure(passes: list[Pass]) -> None:
    """Trace those passes that the cache lacks, in one process of their own.

    Raises:
        UserError: the trace failed; the line has its last words.
    """
    wanted = [one for asked in passes for one in needed(asked)]
    missing = {cache_file(one): normal(one) for one in wanted if not cache_file(one).exists()}
    if not missing:
        return
    text = "[" + ",".join(to_json(asked) for asked in missing.values()) + "]"
    words = [sys.executable, "-m", "scripts.training.planning.trace"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"plan: the trace of the model's memory failed: {done.stderr.strip().splitlines()[-1]}")


def needed(asked: Pass) -> list[Pass]:
    """The passes whose traces say what `asked` takes, as all grows with the rows.

    With a flash kernel all grows with the tokens alone, so one length serves for all; a mask grows with its square.
    """
    length = LENGTH if asked.flash else asked.sequence_length
    return [asked.model_copy(update={"sequence_length": length, "rows": rows}) for rows in ROWS]


def peak(asked: Pass, layers: int) -> Peak:
    """The peak of a pass of a model with `layers` layers; the traces of its `needed` passes must be in the cache."""
    traced, traced_sizes = needed(asked), sizes(asked)
    found = [read_json(cache_file(one)) for one in traced]
    rows = asked.rows * asked.sequence_length / traced[0].sequence_length

    def extended(phase: str, kind: int) -> int:
        at_rows = []
        for trace in found:
            few, more = (trace[str(size)][phase][kind] for size in traced_sizes)
            at_rows.append(few + (more - few) / asked.every_n_layers * (layers - traced_sizes[0]))
        return round(at_rows[0] + (at_rows[1] - at_rows[0]) / (ROWS[1] - ROWS[0]) * (rows - ROWS[0]))

    return max(Peak(extended(phase, 0), extended(phase, 1), phase) for phase in PHASES)
