"""What a stage will take on a machine, by closed forms: steps, tokens, gradient accumulation, memory of model states.

    python -m scripts.training.plan --machine config/machines/a40.yaml --settings '{"stage": {...}, "shape": {...}}' \
        --shards results/tokens/pack/instruct-4096 --out results/training/plan/sft.json

The workflow also asks it at its start, before any job is queued, whether each stage can fit at all.
"""

import logging
import math
from pathlib import Path

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import read_json, write_json
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.record import to_dict
from scripts.training.optimization.automatic import resolved, steps_of

GIB = 2**30
# bytes per parameter that each GPU holds whole, and bytes per parameter that are shared out over all GPUs, moments left
# out (`moments`; DDP holds them whole): fp32 weights and gradients with DDP and, shared out, with FSDP2; with ZeRO bf16
# weights and gradients, and an fp32 copy of both. ZeRO-1 keeps its bf16 gradients whole (ZeRO paper, table 1: 4 + 12/N,
# and 4/N for the fp32 copy of gradients that DeepSpeed makes). ZeRO-2 and ZeRO-3 agree with DeepSpeed's own estimate.
BYTES = {"none": (8, 0), "fsdp2": (0, 8), "zero1": (4, 8), "zero2": (2, 10), "zero3": (0, 10)}
# with `offload` all of the fp32 copies and the moments are in host memory, and reduced gradients go there at once
OFFLOADED = {"zero1": (4, 0), "zero2": (2, 0), "zero3": (0, 2)}
HOST_BYTES = 8
# ZeRO-3 keeps up to 1e9 gathered bf16 parameters alive (stage3_max_live_parameters in config/deepspeed/zero3.json).
ZERO3_LIVE = 1e9


def key_width(shape: dict) -> int:
    """The outputs of a layer's key projection, and of its value projection."""
    return shape["hidden_size"] // shape["num_attention_heads"] * shape["num_key_value_heads"]


def matrices(shape: dict) -> int:
    """The weights of all layers' matrices: attention and SwiGLU."""
    width, inner = shape["hidden_size"], shape["intermediate_size"]
    return shape["num_hidden_layers"] * (2 * width * width + 2 * width * key_width(shape) + 3 * width * inner)


def parameters(shape: dict) -> int:
    """The number of parameters of a Qwen2 model: matrices, q/k/v biases, RMS norms, embeddings, head."""
    width = shape["hidden_size"]
    vectors = shape["num_hidden_layers"] * (width + 2 * key_width(shape) + 2 * width)
    embeddings = shape["vocab_size"] * width * (1 if shape["tie_word_embeddings"] else 2)
    return matrices(shape) + vectors + width + embeddings


def moments(shape: dict, optimizer: str) -> float:
    """Bytes of an optimizer's moments for all parameters: of AdamW two in fp32 for each.

    Muon keeps one in fp32 for the layers' matrices. adamw_8bit keeps two of a byte, and for each a scale per 256
    weights, for all matrices but the embedding. (With bf16 DeepSpeed's ZeRO-2 and ZeRO-3 keep Muon's in bf16: half.)
    """
    whole = 8 * parameters(shape)
    if optimizer == "muon":
        return whole - 4 * matrices(shape)
    if optimizer == "adamw_8bit":
        head = 0 if shape["tie_word_embeddings"] else shape["vocab_size"] * shape["hidden_size"]
        return whole - (8 - 2 * (1 + 4 / 256)) * (matrices(shape) + head)
    return whole


def adapter_parameters(shape: dict, lora: dict) -> int:
    """The parameters of LoRA adapters: r · (inputs + outputs) for each target in each layer."""
    width, inner, keys = shape["hidden_size"], shape["intermediate_size"], key_width(shape)
    sides = {"q_proj": 2 * width, "k_proj": width + keys, "v_proj": width + keys, "o_proj": 2 * width}
    sides |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), width + inner)
    return shape["num_hidden_layers"] * lora["r"] * sum(sides.get(target, 0) for target in lora["targets"])


def lora_states(shape: dict, stage: dict) -> float:
    """Bytes per GPU of a LoRA stage: frozen weights, and adapters with gradients and two moments in fp32.

    Quantized are the layers' matrices; embeddings, head and norms stay in the precision of compute.
    """
    plain = 2 if stage["precision"] == "bf16" else 4
    embeddings = parameters({**shape, "num_hidden_layers": 0})
    layers = parameters(shape) - embeddings
    # NF4 with double quantization takes 4.127 bits per weight (Dettmers et al. 2023)
    per_weight = {"none": plain, "8bit": 1, "4bit": 4.127 / 8}[stage["quantize"]]
    return embeddings * plain + layers * per_weight + 16 * adapter_parameters(shape, stage["lora"])


def largest(shape: dict) -> tuple[int, int]:
    """(parameters of the largest single layer, the embedding or a matrix; parameters of the largest FSDP2 unit)."""
    width, inner = shape["hidden_size"], shape["intermediate_size"]
    embedding = shape["vocab_size"] * width
    no_vocabulary = {**shape, "vocab_size": 0, "num_hidden_layers": 1}
    return max(embedding, width * inner), max(embedding, parameters(no_vocabulary))


def memory(shape: dict, machine: dict, optimizer: str) -> tuple[float, float]:
    """(bytes of model states per process, bytes of host memory per host) of full training.

    Weights, gradients, moments, and what sharded weights take while they are gathered; no activations. The host holds
    offloaded states, shared out over the hosts, or while loading an fp32 copy of the weights per process, whichever is
    more. (ZeRO-3 loads shard by shard.) On a machine without GPUs the first figure is host memory too.
    """
    count, sharding, held = parameters(shape), machine["sharding"], moments(shape, optimizer)
    whole, shared = (OFFLOADED if machine["offload"] else BYTES)[sharding]
    states = count * whole + count * shared / processes_of(machine)
    if not machine["offload"]:
        states += held if sharding == "none" else held / processes_of(machine)
    layer, unit = largest(shape)
    if sharding == "zero3":
        states += max(4 * layer, 2 * min(ZERO3_LIVE, count))
    elif sharding == "fsdp2":
        states += 2 * (2 * unit) + 4 * unit  # this unit and the next in bf16, the gradient of one before it is reduced
    local = local_ranks(machine)
    host = 4 * layer * local if sharding == "zero3" else 4 * count * local
    if machine["offload"]:
        host = max(host, (HOST_BYTES * count + held) / machine["nodes"])
    return states, host


def local_ranks(machine: dict) -> int:
    """How many processes train together on each host: one per GPU, without GPUs as many as the machine file says."""
    return machine["gpus"] or machine["cpu_ranks"]


def processes_of(machine: dict) -> int:
    """How many processes train together, over all hosts."""
    return machine["nodes"] * local_ranks(machine)


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


def check_sharding(name: str, stage: dict, machine: dict) -> None:
    """Whether the machine file shards nothing that cannot be sharded.

    Raises:
        UserError: it does.
    """
    if machine["sharding"] == "none":
        return
    key, way = f"training.train.{name}", "use `sharding: none` in the machine file"
    if stage["quantize"] != "none":
        raise UserError(f"{key}.quantize: quantized weights cannot be sharded; {way}")
    if stage["optimizer"] == "adamw_8bit":
        raise UserError(f"{key}.optimizer: adamw_8bit cannot be sharded; {way}, or take adamw")


def check_validation(name: str, stage: dict, shards: Path, manifest: dict) -> None:
    """Whether there are validation rows for a stage that chooses by its validation loss.

    Raises:
        UserError: there are none; they say how many chats were too long to be one.
    """
    counts = manifest["splits"]["validation"]
    for key in ("keep_best", "early_stopping"):
        if stage.get(key) and not counts["targets"]:
            raise UserError(
                f"training.train.{name}.{key}: {shards} has no validation rows, {counts['too_long']:,} chats are longer"
                f" than {manifest['length']:,} tokens; raise the dataset's `validation`, or `sequence_length`"
            )


def plan(name: str, stage: dict, shape: dict | None, machine: dict, rows: int | None = None) -> dict:
    """The plan of one stage. `rows`: packed training rows, None where they are not packed yet.

    Raises:
        UserError: the global batch does not divide, the model states alone exceed a GPU's memory, or what is to be
            sharded cannot be.
    """
    processes = processes_of(machine)
    check_sharding(name, stage, machine)
    stage = resolved(stage, parameters(shape) if shape and "vocab_size" in shape else None, rows)
    result = {"learning_rate": stage["learning_rate"], "global_batch": stage["global_batch"]}
    if stage["global_batch"] != "auto":
        micro, steps_per_update = accumulation(stage["global_batch"], machine["micro_batch"], processes, name)
        steps = stage.get("steps") if rows is None else steps_of(stage, rows)
        result |= {
            "micro_batch": micro,
            "gradient_accumulation": steps_per_update,
            "tokens_per_step": stage["global_batch"] * stage["sequence_length"],
            "steps": steps,
            "tokens": steps and steps * stage["global_batch"] * stage["sequence_length"],
        }
    if shape and "vocab_size" in shape:
        count = parameters(shape)
        states, host = memory(shape, machine, stage["optimizer"])
        if stage["method"] == "lora":
            states, trained = lora_states(shape, stage), adapter_parameters(shape, stage["lora"])
            result["trainable_parameters"] = trained
        result |= {"parameters": count, "model_states_gib": round(states / GIB, 2), "host_gib": round(host / GIB, 2)}
        limit = machine.get("gpu_memory_gib" if machine["gpus"] else "host_memory_gib")
        if limit and states / GIB > limit:
            raise UserError(
                f"training.train.{name}: model states take {states / GIB:.1f} GiB per process, the machine has "
                f"{limit}; use more GPUs, another `sharding` or `offload` in the machine file"
            )
        if machine["gpus"] and stage["method"] == "full" and host / GIB > machine.get("host_memory_gib", math.inf):
            raise UserError(
                f"training.train.{name}: {'offloaded states' if machine['offload'] else 'loading'} take "
                f"{host / GIB:.1f} GiB of host memory, the machine has {machine['host_memory_gib']}; use more nodes or "
                f"{'no `offload`' if machine['offload'] else 'zero3'} in the machine file"
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
    manifest = read_json(given.shards / "manifest.json")
    check_validation(given.stage, given.settings["stage"], given.shards, manifest)
    rows = manifest["splits"]["train"]["rows"]
    result = plan(given.stage, machine=to_dict(load_machine(given.machine)), rows=rows, **given.settings)
    write_json(given.out, result)
    for key, value in result.items():
        known = f"{value:,}" if isinstance(value, int | float) else value or "unknown"
        logging.info(f"plan {given.stage}: {key} {known}")


if __name__ == "__main__":
    run(main)
