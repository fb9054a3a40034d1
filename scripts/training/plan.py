"""What a stage will take on a machine, by closed forms: steps, tokens, gradient accumulation, memory of model states.

    python -m scripts.training.plan --machine config/machines/a40.yaml --settings '{"stage": {...}, "shape": {...}}' \
        --shards results/tokens/pack/instruct-4096 --out results/training/plan/sft.json

The workflow also asks it at its start, before any job is queued, whether each stage can fit at all.
"""

import logging
import math
from pathlib import Path

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.config import read_machine
from scripts.common.files import read_json, write_json

GIB = 2**30
# bytes per parameter that each GPU holds whole, and bytes per parameter that are shared out over all GPUs:
# fp32 weights, gradients and two AdamW moments without sharding; with ZeRO bf16 weights and gradients, an fp32 copy of
# both and the moments. The figures agree with DeepSpeed's own estimate (docs/DECISIONS.md).
BYTES = {"none": (16, 0), "zero2": (2, 18), "zero3": (0, 18)}
# ZeRO-3 keeps up to 1e9 gathered bf16 parameters alive (stage3_max_live_parameters in config/deepspeed/zero3.json).
ZERO3_LIVE = 2e9


def parameters(shape: dict) -> int:
    """The number of parameters of a Qwen2 model: embeddings, head, attention with q/k/v biases, SwiGLU, RMS norms."""
    width, inner = shape["hidden_size"], shape["intermediate_size"]
    keys = width // shape["num_attention_heads"] * shape["num_key_value_heads"]
    attention = 2 * width * width + 2 * width * keys + width + 2 * keys
    layer = attention + 3 * width * inner + 2 * width
    embeddings = shape["vocab_size"] * width * (1 if shape["tie_word_embeddings"] else 2)
    return shape["num_hidden_layers"] * layer + width + embeddings


def processes_of(machine: dict) -> int:
    """How many processes train together on a machine: one per GPU, or a single one on the CPU."""
    return machine["nodes"] * max(machine["gpus"], 1)


def accumulation(global_batch: int, micro_batch: int, processes: int, stage: str) -> tuple[int, int]:
    """(rows per process and pass, at most `micro_batch`; gradient accumulation steps) that make up `global_batch`.

    Raises:
        UserError: the global batch cannot be divided so; the line says what would divide it.
    """
    if global_batch % processes:
        raise UserError(f"training.train.{stage}.global_batch: {global_batch} is no multiple of {processes} processes")
    share = global_batch // processes
    micro = next(rows for rows in range(min(micro_batch, share), 0, -1) if share % rows == 0)
    return micro, share // micro


def plan(name: str, stage: dict, shape: dict | None, machine: dict, rows: int | None = None) -> dict:
    """The plan of one stage. `rows`: packed training rows, None where they are not packed yet.

    Raises:
        UserError: the global batch does not divide, or the model states alone exceed a GPU's memory.
    """
    processes = processes_of(machine)
    micro, steps_per_update = accumulation(stage["global_batch"], machine["micro_batch"], processes, name)
    steps = stage.get("steps")
    if steps is None and rows is not None:
        steps = math.ceil(stage["epochs"] * math.ceil(rows / stage["global_batch"]))
    result = {
        "micro_batch": micro,
        "gradient_accumulation": steps_per_update,
        "tokens_per_step": stage["global_batch"] * stage["sequence_length"],
        "steps": steps,
        "tokens": steps and steps * stage["global_batch"] * stage["sequence_length"],
    }
    if shape and "vocab_size" in shape:
        count = parameters(shape)
        whole, shared = BYTES[machine["sharding"]]
        states = count * whole + count * shared / processes
        states += ZERO3_LIVE if machine["sharding"] == "zero3" else 0
        result |= {"parameters": count, "model_states_gib": round(states / GIB, 2)}
        limit = machine.get("gpu_memory_gib" if machine["gpus"] else "host_memory_gib")
        if limit and states / GIB > limit:
            raise UserError(
                f"training.train.{name}: model states take {states / GIB:.1f} GiB per process, the machine has "
                f"{limit}; use more GPUs or another `sharding` in the machine file"
            )
    return result


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--stage", required=True)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--settings", type=settings, required=True)
    arguments.add_argument("--shards", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    rows = read_json(given.shards / "manifest.json")["splits"]["train"]["rows"]
    result = plan(given.stage, machine=read_machine(given.machine), rows=rows, **given.settings)
    write_json(given.out, result)
    for key, value in result.items():
        logging.info(
            f"plan {given.stage}: {key} {value:,}" if value is not None else f"plan {given.stage}: {key} unknown"
        )


if __name__ == "__main__":
    run(main)
