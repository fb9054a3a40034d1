"""Memory of one pass through the model besides the model states, from a cached trace of the model's code.

    measure([Pass(shape=..., sequence_length=4096, rows=1, ...)])    # traces what is not in the cache

The trace (scripts/training/planning/trace.py) imports torch; this module does not.
"""

import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import trace_file
from scripts.experiment.settings.record import Record, as_json, to_dict, to_json
from scripts.experiment.settings.training import Lora, Shape

PHASES = ("forward", "loss", "head", "last", "rest")  # in each, the memory grows linearly with the layers
ROWS = (1, 2)
LENGTH = 2048
CODE = ("trace.py", "liger_stand_ins.py")
PACKAGES = ("torch", "transformers", "accelerate", "peft")


class Pass(Record):
    """All that determines the memory of one pass."""

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


def sizes(spec: Pass) -> tuple[int, int]:
    """Numbers of layers of the two traced models, between which memory grows linearly."""
    smaller = 2 + (spec.shape.num_hidden_layers - 2) % spec.every_n_layers
    return smaller, smaller + spec.every_n_layers


def normal(spec: Pass) -> Pass:
    """The pass with fixed values for what its trace does not depend on, so that similar passes share one."""
    fixed = {"num_hidden_layers": max(sizes(spec)), "max_position_embeddings": 32768}
    update = {"shape": spec.shape.model_copy(update=fixed)}
    if spec.lora:
        update["lora"] = spec.lora.model_copy(update={"alpha": 1, "merge": False})
    return spec.model_copy(update=update)


def cache_file(spec: Pass) -> Path:
    """The file of the trace, named by a hash of the pass, of the tracing code and of the versions of its libraries."""
    code = [(Path(__file__).parent / name).read_text() for name in CODE]
    versions = [importlib.metadata.version(name) for name in PACKAGES]
    text = as_json({"pass": to_dict(normal(spec)), "code": code, "versions": versions})
    return trace_file(hashlib.sha256(text.encode()).hexdigest()[:16])


def measure(passes: list[Pass]) -> None:
    """Trace those passes that are not in the cache, in a process of their own.

    Raises:
        UserError: the trace failed; the message ends with its last line.
    """
    needed = [trace for spec in passes for trace in traced_passes(spec)]
    missing = {cache_file(trace): normal(trace) for trace in needed if not cache_file(trace).exists()}
    if not missing:
        return
    text = "[" + ",".join(to_json(spec) for spec in missing.values()) + "]"
    words = [sys.executable, "-m", "scripts.training.planning.trace"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"plan: the trace of the model's memory failed: {done.stderr.strip().splitlines()[-1]}")


def traced_passes(spec: Pass) -> list[Pass]:
    """The passes to trace for `spec`; its memory is extrapolated from them over the rows.

    With a flash kernel memory grows with the tokens alone, so one length serves for all; a mask grows with its square.
    """
    length = LENGTH if spec.flash else spec.sequence_length
    return [spec.model_copy(update={"sequence_length": length, "rows": rows}) for rows in ROWS]


def peak(spec: Pass, layers: int) -> Peak:
    """The peak of a pass of a model with `layers` layers; its `traced_passes` must be in the cache."""
    traced, traced_sizes = traced_passes(spec), sizes(spec)
    traces = [read_json(cache_file(trace)) for trace in traced]
    rows = spec.rows * spec.sequence_length / traced[0].sequence_length

    def extrapolated(phase: str, kind: int) -> int:
        at_rows = []
        for trace in traces:
            smaller, larger = (trace[str(size)][phase][kind] for size in traced_sizes)
            at_rows.append(smaller + (larger - smaller) / spec.every_n_layers * (layers - traced_sizes[0]))
        return round(at_rows[0] + (at_rows[1] - at_rows[0]) / (ROWS[1] - ROWS[0]) * (rows - ROWS[0]))

    return max(Peak(extrapolated(phase, 0), extrapolated(phase, 1), phase) for phase in PHASES)
