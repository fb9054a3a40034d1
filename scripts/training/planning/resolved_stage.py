"""A stage's numbers on a machine: `auto` and shares replaced by what they come to, in one record made by one function.

    stage = resolve_stage("sft", settings, machine, parameters=7_615_616_512, rows=13_248)
    stage.steps, stage.save_every, stage.micro_batch_size      # 207, 20, 4

The plan makes it before the stage runs, the stage makes it again when it starts; results/training/plan/{stage}.json and
summary.json hold its `record()`. Learning rate, global batch and steps depend on the model and the data alone, so they
are the same on every machine.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scripts.common.errors import UserError
from scripts.experiment.layout import PACKED_SPLITS
from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.machine import Machine, Monitoring
from scripts.experiment.settings.training import Stage
from scripts.training.planning.checks import check_sharding


class Batch(NamedTuple):
    """How a global batch is processed."""

    micro: int  # rows per process and pass
    accumulation: int  # passes per optimizer step


def local_ranks(machine: Machine) -> int:
    """How many processes train together on each host: one per GPU; without GPUs as many as `cpu_ranks`."""
    return machine.gpus or machine.cpu_ranks


def total_ranks(machine: Machine) -> int:
    """How many processes train together, over all hosts."""
    return machine.nodes * local_ranks(machine)


def divide_batch(global_batch_size: int, micro_batch_size: int, ranks: int, stage: str) -> Batch:
    """Divide `global_batch_size` rows among `ranks` processes, at most `micro_batch_size` rows per process and pass.
    Raises UserError: the global batch is no multiple of the number of processes."""
    if global_batch_size % ranks:
        near = [rows for rows in (global_batch_size // ranks * ranks, -(-global_batch_size // ranks) * ranks) if rows]
        raise UserError(
            f"training.train.{stage}.global_batch_size: {global_batch_size} is no multiple of {ranks} processes; "
            f"{' or '.join(map(str, near))} would be"
        )
    share = global_batch_size // ranks
    micro = next(rows for rows in range(min(micro_batch_size, share), 0, -1) if share % rows == 0)
    return Batch(micro, share // micro)


MAX_TOKENS = 2**22  # larger batches gain nothing at these sizes (Llama 2 and 3 train with 4 M tokens)
ROWS = 8
MONITORING = Monitoring()  # with the default intervals


@dataclass(frozen=True)
class ResolvedStage:
    """What is not known yet, before a model or data exist, is None, or still `auto`.

    Attributes:
        settings: of the stage, with numbers in place of `auto`.
        processes: that train together.
        steps: optimizer steps.
        warmup, decay: steps at the start and at the end, in which the learning rate rises and falls; `decay` is 0 but
            with `scheduler: warmup-stable-decay`.
        log_every, eval_every, save_every: steps between logged metrics, validation losses, checkpoints.
        micro_batch_size: rows per process and pass.
        accumulation: passes per optimizer step.
        keep_checkpoints: how many are kept, the best one not counted.
    """

    name: str
    settings: Stage
    machine: Machine
    processes: int
    steps: int | None
    warmup: int | None
    decay: int | None
    log_every: int | None
    eval_every: int | None
    save_every: int | None
    micro_batch_size: int | Literal["auto"]
    accumulation: int | None
    keep_checkpoints: int

    @property
    def tokens_per_step(self) -> int | None:
        if self.settings.global_batch_size == "auto":
            return None
        return self.settings.global_batch_size * self.settings.sequence_length

    @property
    def tokens(self) -> int | None:
        return self.steps and self.steps * self.tokens_per_step

    @property
    def curve_steps(self) -> list[int]:
        """The steps after which the weights are kept for the `curve`, in order."""
        if self.steps is None:
            return []
        return sorted({max(1, round(share * self.steps)) for share in self.settings.curve} - {self.steps})

    @property
    def weight_copies(self) -> int:
        """How many sets of weights lie on the disk beside the checkpoints: the published ones, and those of each curve
        step twice, in the work folder and beside the published ones."""
        return 1 + 2 * len(self.curve_steps)

    def record(self) -> dict:
        """What is known, under the names of plan and summary."""
        known = {
            "learning_rate": self.settings.learning_rate,
            "global_batch_size": self.settings.global_batch_size,
            "tokens_per_step": self.tokens_per_step,
            "steps": self.steps,
            "tokens": self.tokens,
            "warmup": self.warmup,
            "decay": self.decay or None,
            "log": self.log_every,
            "eval": self.eval_every,
            "save": self.save_every,
            "processes": self.processes,
            "micro_batch_size": self.micro_batch_size,
            "gradient_accumulation": self.accumulation,
            "sharding": self.machine.sharding,
            "offload": self.machine.offload,
        }
        return {name: value for name, value in known.items() if value is not None}


def resolve_stage(
    name: str,
    settings: Stage,
    machine: Machine,
    parameters: int | None,
    rows: int | None,
    processes: int | None = None,
    monitoring: Monitoring = MONITORING,
) -> ResolvedStage:
    """The numbers of a stage.

    Args:
        parameters: of the model that it starts from, None before it exists; used only for `auto`.
        rows: packed training rows, None before they are packed.
        processes: that train together, where they are not those of the machine file.
        monitoring: how often the stage logs and saves.

    Raises:
        UserError: the machine file shards what cannot be sharded, the schedule does not fit the steps, or the global
            batch is no multiple of the processes.
    """
    check_sharding(name, settings, machine)
    settings = resolve_auto(settings, parameters, rows)
    processes = processes or total_ranks(machine)
    steps = warmup = decay = log_every = eval_every = save_every = accumulation = None
    if settings.steps is not None or (rows is not None and settings.global_batch_size != "auto"):
        steps = training_steps(settings, rows)
        warmup = warmup_of(settings.warmup_steps, steps)
        # 1 - sqrt over the last fifth by default (Hägele et al. 2024)
        if settings.scheduler == "warmup-stable-decay":
            decay = max(1, round(settings.decay_share * steps))
        else:
            decay = 0
        log_every = interval(monitoring.log_steps, steps)
        eval_every = interval(settings.eval_steps, steps)
        save_every = interval(monitoring.save_steps, steps)
    micro_batch_size = machine.micro_batch_size
    if "auto" not in (micro_batch_size, settings.global_batch_size):
        micro_batch_size, accumulation = divide_batch(settings.global_batch_size, micro_batch_size, processes, name)
    stage = ResolvedStage(
        name=name,
        settings=settings,
        machine=machine,
        processes=processes,
        steps=steps,
        warmup=warmup,
        decay=decay,
        log_every=log_every,
        eval_every=eval_every,
        save_every=save_every,
        micro_batch_size=micro_batch_size,
        accumulation=accumulation,
        keep_checkpoints=monitoring.keep_checkpoints,
    )
    if steps is not None:
        check_schedule(stage)
    return stage


def resolve_auto(settings: Stage, parameters: int | None, rows: int | None) -> Stage:
    """`settings` with numbers in place of `auto`, where the inputs are known; else the setting stays `auto`."""
    update = {}
    if settings.learning_rate == "auto" and parameters:
        update["learning_rate"] = learning_rate(parameters, settings.method)
    if settings.global_batch_size == "auto" and parameters and rows is not None:
        tokens = used_rows(settings, rows) * settings.sequence_length
        update["global_batch_size"] = global_batch_size(parameters, tokens, settings.sequence_length)
    return settings.model_copy(update=update)


# at 7e9 parameters; that of adapters is QLoRA's (Dettmers et al. 2023)
RATES = {"full": 5e-5, "lora": 2e-4}


def learning_rate(parameters: int, method: str = "full") -> float:
    """The method's rate at 7e9 parameters, scaled with parameters^-0.25; to three digits."""
    return float(f"{RATES[method] * (parameters / 7e9) ** -0.25:.3g}")


def global_batch_size(parameters: int, tokens: int, length: int) -> int:
    """Rows of `length` tokens per step: (millions of parameters x millions of tokens)^0.4 thousand tokens.

    In these units the rule stays within a factor of about two of DeepSeek LLM's fit for pretraining
    (arXiv 2401.02954, B = 0.2920 C^0.3271 tokens with C = 6 x parameters x tokens) from 0.5e9 to 7e9 parameters and
    50e6 to 10e9 tokens. Rounded to a multiple of 8 rows; at least 8 rows, at most 4,194,304 tokens.
    """
    batch = 1000 * (parameters / 1e6 * tokens / 1e6) ** 0.4
    rows = ROWS * round(min(batch, MAX_TOKENS) / length / ROWS)
    return max(ROWS, min(rows, MAX_TOKENS // length // ROWS * ROWS))


def split_rows(split: dict, settings: Stage) -> int:
    """The rows of a split that a stage sees, by the counts in the shards' manifest; unpacked, each piece is a row."""
    return split["rows" if settings.packing else "pieces"]


def rows_of_splits(shards: dict, settings: Stage) -> list[int]:
    """The rows of the training and of the validation split that a stage sees. `shards`: their manifest."""
    return [split_rows(shards["splits"][split], settings) for split in PACKED_SPLITS]


def used_rows(settings: Stage, rows: int) -> int:
    """How many of the `rows` packed training rows a stage uses."""
    return min(rows, settings.max_samples or rows)


def training_steps(settings: Stage, rows: int | None) -> int:
    """Optimizer steps of a stage with a known global batch, counted as transformers counts them."""
    if settings.steps is not None:
        return settings.steps
    return math.ceil(settings.epochs * math.ceil(used_rows(settings, rows) / settings.global_batch_size))


def interval(every: float, steps: int) -> int:
    """Steps between two events; a share of all steps is rounded down, so that 0.05 never gives fewer than 20 events."""
    if every >= 1:
        return int(every)
    return max(1, math.floor(every * steps + 1e-9))


def warmup_of(warmup: float, steps: int) -> int:
    """Steps of warm-up; a share of all steps is rounded up as transformers does, but is never all of them."""
    if warmup >= 1:
        return int(warmup)
    return min(math.ceil(warmup * steps - 1e-9), steps - 1)


def check_schedule(stage: ResolvedStage) -> None:
    """Check that a stage gets past its warm-up, and evaluates where it selects by that."""
    settings, steps, key = stage.settings, stage.steps, f"training.train.{stage.name}"
    if stage.warmup >= steps and stage.warmup:
        raise UserError(
            f"{key}.warmup_steps: {stage.warmup:,} of the stage's {steps:,} steps leave none after the warm-up; "
            f"use 0.03, here {warmup_of(0.03, steps)} steps, instead"
        )
    if stage.warmup + stage.decay > steps:
        raise UserError(
            f"{key}.warmup_steps: {stage.warmup:,} steps and a decay of {stage.decay:,} are more than the stage's"
            f" {steps:,}; use at most {steps - stage.decay:,} steps of warm-up"
        )
    for setting in ("keep_best", "early_stopping"):
        if getattr(settings, setting) and stage.eval_every > steps:
            raise UserError(
                f"{key}.eval_steps: {stage.eval_every:,} is more than the stage's {steps:,} steps, so `{setting}` has "
                f"no validation loss to decide by; use 0.05, here {interval(0.05, steps)} steps, instead"
            )


ENOUGH = 20  # evaluations and logged metrics in a stage, below which a curve shows little
SHORT = 100  # steps below which nobody looks for a curve


def schedule_warnings(stage: ResolvedStage, validation_rows: int | None = None) -> list[str]:
    """One line for each setting by which a stage with known steps shows or keeps too little, with what would do.
    `validation_rows`: packed ones, scored by all processes together; None before they are packed."""
    steps, ranks, key, lines = stage.steps, stage.processes, f"training.train.{stage.name}", []
    enough = interval(1 / ENOUGH, steps)
    evaluations = (f"{key}.eval_steps", "evaluations", stage.eval_every)
    logged = (f"{stage.name}: the monitoring file's log_steps", "logged metrics", stage.log_every)
    for setting, results, every in (evaluations, logged):
        if every > enough and steps >= SHORT and (setting == logged[0] or validation_rows != 0):
            lines.append(
                f"{setting}: {every:,} gives {steps // every} {results} in {steps:,} steps; "
                f"{enough:,}, or a share of {1 / ENOUGH}, would give {steps // enough}"
            )
    if stage.save_every >= steps > 1:
        saved = interval(0.1, steps)
        lines.append(
            f"{stage.name}: the monitoring file's save_steps: {stage.save_every:,} makes no checkpoint before the end"
            f" of {steps:,} steps, so a killed job starts at step 0; {saved:,}, or a share of 0.1, would make"
            f" {steps // saved}"
        )
    eval_rows = stage.settings.eval_rows
    if eval_rows < ranks:
        lines.append(f"{key}.eval_rows: {eval_rows} leaves some of the {ranks} processes none; use {ranks}")
    elif validation_rows == 0:
        lines.append(f"{key}.data: no validation rows, so no validation loss is measured; make `validation` larger")
    elif validation_rows and validation_rows < ranks:
        lines.append(
            f"{key}.data: {validation_rows} validation rows leave some of the {ranks} processes none; "
            f"make `validation` {ranks / validation_rows:.1f} times as large, or use fewer GPUs"
        )
    return lines


def length_warnings(stage: ResolvedStage, shape: Shape | None) -> list[str]:
    """One line if rows are longer than what the model was made for; a row is as long as its longest document may be."""
    length = stage.settings.sequence_length
    if shape is None or length <= shape.max_position_embeddings:
        return []
    limit = shape.max_position_embeddings
    return [
        f"training.train.{stage.name}.sequence_length: {length:,} is more than the model's "
        f"max_position_embeddings {limit:,}: longer documents reach positions that it does not know; use {limit}"
    ]
