"""Checks of a stage against its machine and its data, before it trains."""

from fnmatch import fnmatch
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.model_folder import Shape
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import check_name
from scripts.experiment.settings.training import Stage
from scripts.training.planning.parameters import parameter_names

DEEPSPEED = Path(__file__).parents[3] / "config/deepspeed"
# What a file of DeepSpeed's may hold: how memory and messages are divided, which changes no number. All else comes from
# the experiment, so that it counts in fingerprints and provenance.
COMMUNICATION = {
    *("stage", "overlap_comm", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size", "allgather_partitions"),
    *("allgather_bucket_size", "round_robin_gradients", "sub_group_size", "stage3_prefetch_bucket_size"),
    *("stage3_param_persistence_threshold", "stage3_max_live_parameters", "stage3_max_reuse_distance"),
    "stage3_gather_16bit_weights_on_model_save",
}
SHOWN = {"steps_per_print", "wall_clock_breakdown", "comms_logger", "flops_profiler"}


def check_deepspeed(sharding: str) -> dict:
    """The content of config/deepspeed/{sharding}.json. Raises UserError: it is no JSON object, or sets what an
    experiment decides."""
    path = DEEPSPEED / f"{sharding}.json"
    settings = read_json(path)
    for key, value in settings.items():
        if key == "zero_optimization":
            for name in value:
                check_name(f"{path}: zero_optimization", name, sorted(COMMUNICATION))
        elif key not in SHOWN and value not in ("auto", {"enabled": "auto"}):
            raise UserError(f'{path}: {key}: must be "auto", as the experiment decides what changes a number')
    return settings


def check_sharding(name: str, settings: Stage, machine: Machine) -> None:
    """Check that the stage can run with the machine's sharding.

    Raises:
        UserError: the weights are quantized, or the optimizer cannot be divided, and the machine file shards; or the
            machine file offloads without ZeRO, or recomputes what it cannot.
    """
    if machine.offload and machine.sharding in ("none", "fsdp2"):
        raise UserError(f"machine: offload needs `sharding` zero2 or zero3, not {machine.sharding}")
    if machine.sharding == "fsdp2" and type(machine.gradient_checkpointing) is int:
        raise UserError("machine: gradient_checkpointing: a number of layers goes not with fsdp2; use true or false")
    if machine.sharding in ("none", "auto"):
        return
    if machine.sharding.startswith("zero"):
        check_deepspeed(machine.sharding)
    key, remedy = f"training.train.{name}", "use `sharding: none` in the machine file"
    if settings.quantize != "none":
        raise UserError(f"{key}.quantize: quantized weights cannot be sharded; {remedy}")
    if not OPTIMIZERS[settings.optimizer].divides:
        raise UserError(f"{key}.optimizer: {settings.optimizer} cannot be sharded; {remedy}, or take adamw")


CHOSEN = ("micro_batch_size", "sharding", "gradient_checkpointing")  # what the plan may choose


def check_choosable(machine: Machine) -> None:
    """Check that `auto` of the machine file has a limit to stay below. Raises UserError: the memory is not given, so
    that the largest micro-batch would always be taken."""
    limit = "host_memory_gib"
    if machine.gpus:
        limit = "gpu_memory_gib"
    chosen = [key for key in CHOSEN if getattr(machine, key) == "auto"]
    if chosen and not getattr(machine, limit):
        key = chosen[0]
        raise UserError(f"machine: {limit}: required by `{key}: auto`; give it in GiB")


def check_trainable(name: str, settings: Stage, shape: Shape) -> None:
    """Check that each pattern of `trainable` matches a parameter, before there is a model to ask. Raises UserError: one
    matches none; the line has a name as an example."""
    if shape.tensors is not None and "model.embed_tokens.weight" not in shape.tensors:
        return  # transformers may give its parameters other names than its files; the stage itself checks
    names = parameter_names(shape)
    for pattern in settings.trainable if isinstance(settings.trainable, list) else []:
        if not any(fnmatch(parameter, pattern) for parameter in names):
            raise UserError(
                f"training.train.{name}.trainable: {pattern!r} matches no parameter of"
                f" {shape.num_hidden_layers} layers; an example of a name: {names[1]!r}"
            )


def check_validation(name: str, settings: Stage, shards: Path, manifest: dict) -> None:
    """Check that a stage that selects by its validation loss has validation rows.

    Args:
        manifest: of the `shards`.

    Raises:
        UserError: it has none; the line says how many chats were too long for a row.
    """
    counts = manifest["splits"]["validation"]
    for key in ("keep_best", "early_stopping"):
        if getattr(settings, key) and not counts["targets"]:
            raise UserError(
                f"training.train.{name}.{key}: {shards} has no validation rows, {counts['too_long']:,} chats are longer"
                f" than {manifest['length']:,} tokens; raise the dataset's `validation`, or `sequence_length`"
            )
