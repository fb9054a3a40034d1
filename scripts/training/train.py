"""Train one stage: packed shards and a model folder in, a model folder out. After a kill, the same command resumes.

    python -m scripts.training.train --machine config/machines/local.yaml --threads 2 --stage sft \\
        --origin results/training/train/pretrain --shards results/tokens/pack/instruct-1024 \\
        --work results/work/train/sft --out results/training/train/sft --code 0123 --seed 42 \\
        --settings '{"from": "pretrain", "data": "instruct", "steps": 100, ...}'

With several GPUs the same command runs under torchrun (scripts/training/launch.py). Checkpoints go to a folder below
--work that is named by everything that determines the result, so a changed setting never resumes from a stale one.
"""

import contextlib
import json
import logging
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import torch
from accelerate import PartialState
from transformers import PreTrainedModel, TrainerCallback, TrainingArguments
from transformers.utils import logging as transformers_logging

from scripts.common.cli import run
from scripts.common.disk import disk_errors
from scripts.common.errors import UserError
from scripts.common.files import new_folder_beside
from scripts.common.manifest import read_manifest
from scripts.experiment.machine_files import load_machine, load_monitoring
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.monitoring import Monitoring
from scripts.experiment.settings.training import Stage
from scripts.tokens.packing.shards import Shards
from scripts.training.engine import parallel
from scripts.training.engine.callbacks import add_callbacks
from scripts.training.engine.checkpoint_folders import no_half_written_checkpoint, step_of
from scripts.training.engine.disk_space import check_disk_space
from scripts.training.engine.early_stopping import AlreadyFinished, stopping_summary
from scripts.training.engine.orphans import die_with_torchrun
from scripts.training.engine.pruning import prune_after_publishing, prune_before_start
from scripts.training.engine.resume_across_code import Run, code_changes, prepare_work_folder, resume_anyway
from scripts.training.engine.resuming import checkpoint_that_loads, resume_from
from scripts.training.engine.run_lock import Ownership
from scripts.training.engine.stage_arguments import stage_parser
from scripts.training.engine.stage_folder import Folders, publish_stage
from scripts.training.engine.stage_model import load_stage_model
from scripts.training.engine.trainer import Rows, StageTrainer
from scripts.training.model.attention import choose_attention, collator_for
from scripts.training.model.liger import choose_liger, liger_kernels
from scripts.training.model.loading import adapter_base, count_parameters
from scripts.training.optimization.optimizers import OWN, optimizer_factory
from scripts.training.optimization.training_arguments import training_arguments
from scripts.training.planning.checks import check_validation
from scripts.training.planning.resolve_auto import PLAN
from scripts.training.planning.resolved_stage import ResolvedStage, resolve_stage, split_rows
from scripts.training.planning.schedule import schedule_warnings


class Inputs(NamedTuple):
    """What a stage starts from.

    Attributes:
        stage: its numbers, all known.
        origin, shards: the manifests of the two folders.
    """

    stage: ResolvedStage
    folders: Folders
    origin: dict
    shards: dict

    @property
    def validation_rows(self) -> int:
        return split_rows(self.shards["splits"]["validation"], self.stage.settings)

    @property
    def validates(self) -> bool:
        return self.shards["splits"]["validation"]["targets"] > 0


class Attempt(NamedTuple):
    """One start of a run: its folder of checkpoints, and where it begins.

    Attributes:
        owner: the first rank's claim on `work`, None on other ranks.
        checkpoint: to resume from, None at the beginning.
    """

    work: Path
    arguments: TrainingArguments
    owner: Ownership | None
    checkpoint: Path | None

    @property
    def first_step(self) -> int:
        return step_of(self.checkpoint) if self.checkpoint else 0


class Prepared(NamedTuple):
    """All that training needs.

    Attributes:
        attention: name of the kernel.
        liger: whether Liger's kernels run.
        optimizer_check: the callback of an optimizer of our own, with the `counts` of what it updated.
    """

    model: PreTrainedModel
    trainer: StageTrainer
    attention: str
    liger: bool
    optimizer_check: TrainerCallback | None


def train(
    name: str,
    settings: Stage,
    seed: int,
    code: str,
    machine: Machine,
    monitoring: Monitoring,
    threads: int,
    folders: Folders,
) -> None:
    """Run one stage to its end, from its newest whole checkpoint if it has one.

    Raises:
        UserError: an input is missing or not what its manifest says, or the settings do not fit it or the machine.
    """
    inputs = load(name, settings, machine, monitoring, folders)
    parallel.start_process_group(machine)
    attempt = resume(inputs, seed, code)
    prepared = prepare(inputs, attempt, seed, monitoring)
    outcome = train_steps(inputs, attempt, prepared)
    publish(inputs, attempt, prepared, outcome, threads)
    parallel.barrier_and_destroy()


def load(name: str, settings: Stage, machine: Machine, monitoring: Monitoring, folders: Folders) -> Inputs:
    """Read the manifests of model and shards, and work out the stage's numbers."""
    origin, shards = read_manifest(folders.origin), read_manifest(folders.shards)
    check_validation(name, settings, folders.shards, shards)
    auto = "auto" in (settings.learning_rate, settings.global_batch)
    parameters = count_parameters(folders.origin) if auto else None
    rows = split_rows(shards["splits"]["train"], settings)
    stage = resolve_stage(name, settings, machine, parameters, rows, parallel.world_size(), monitoring)
    if auto:
        numbers = stage.settings
        logging.info(f"auto: learning rate {numbers.learning_rate}, global batch {numbers.global_batch} rows")
    return Inputs(stage, folders, origin, shards)


def resume(inputs: Inputs, seed: int, code: str) -> Attempt:
    """Claim the folder that is named by all that determines the weights, and find the checkpoint to resume from."""
    stage, folders = inputs.stage, inputs.folders
    this_run = Run(stage.settings, seed, inputs.origin, inputs.shards, code)
    work = folders.work / this_run.folder_name()
    arguments = training_arguments(stage, seed, work, inputs.validates)
    parallel.enable_fsdp2_on_cpu(stage.machine, arguments)
    first_rank, owner = arguments.process_index == 0, None
    if first_rank:
        prepare_work_folder(stage.name, work, this_run, resume_anyway())
    PartialState().wait_for_everyone()
    if first_rank:
        owner = Ownership(work)
        with new_folder_beside(folders.out):
            pass  # that nothing can be written there is found now, not after the last step
        for line in schedule_warnings(stage, inputs.validation_rows):
            logging.warning(f"warning: {line}")
        prune_before_start(work, folders.origin)
    return Attempt(work, arguments, owner, resume_from(stage.name, work, stage.machine, first_rank))


def prepare(inputs: Inputs, attempt: Attempt, seed: int, monitoring: Monitoring) -> Prepared:
    """Load the model, and make the trainer with its rows, optimizer and callbacks."""
    stage, settings, machine, folders = inputs.stage, inputs.stage.settings, inputs.stage.machine, inputs.folders
    with attempt.arguments.main_process_first():  # the first rank of each host tries the kernels, if nobody has yet
        attention = choose_attention(stage.name, settings, machine.gpus, adapter_base(folders.origin) or folders.origin)
    model = load_stage_model(stage.name, settings, seed, folders.origin, attention, attempt.arguments)
    largest = max(split["largest_id"] for split in inputs.shards["splits"].values())
    if largest >= model.config.vocab_size:
        raise UserError(
            f"{folders.shards}: packed with a vocabulary of {largest + 1} or more, {folders.origin} has one of"
            f" {model.config.vocab_size}; use its tokenizer"
        )
    if attempt.arguments.process_index == 0:
        check_disk_space(stage, model, inputs.origin, attempt.work)
    liger = choose_liger(machine, model.config.model_type)
    train_rows = Rows(Shards(folders.shards, "train"), settings.packing, settings.max_samples, settings.global_batch)
    together = stage.processes * stage.micro_batch
    validation_rows = Rows(Shards(folders.shards, "validation"), settings.packing, settings.eval_rows, together)
    trainer = StageTrainer(
        model=model,
        args=attempt.arguments,
        train_dataset=train_rows,
        eval_dataset=validation_rows,
        data_collator=collator_for(attention),
        optimizer_cls_and_kwargs=optimizer_factory(settings, machine),
    )
    parallel.reduce_in_float32(trainer)
    own = OWN.get(settings.optimizer)
    optimizer_check = own.check(trainer) if own else None
    add_callbacks(trainer, stage, monitoring, optimizer_check, attempt.owner, attempt.first_step)
    return Prepared(model, trainer, attention, liger, optimizer_check)


def train_steps(inputs: Inputs, attempt: Attempt, prepared: Prepared) -> dict:
    """Train to the last step; the seconds that it took, and the validation loss of the weights to publish."""
    stage, trainer, checkpoint = inputs.stage, prepared.trainer, attempt.checkpoint
    began, eval_loss = time.monotonic(), None
    with (
        liger_kernels(prepared.model, prepared.liger),
        no_half_written_checkpoint(attempt.work, attempt.owner),
        disk_errors(attempt.work),
        parallel.lost_ranks_as_fault(stage.name, stage.machine),
        checkpoint_that_loads(trainer, checkpoint, attempt.arguments.process_index == 0),
    ):
        with contextlib.suppress(AlreadyFinished):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        seconds = time.monotonic() - began
        if inputs.validates:
            eval_loss = trainer.evaluate_final_weights(stage.settings.keep_best)
    return {"seconds": seconds, "eval_loss": eval_loss}


def publish(inputs: Inputs, attempt: Attempt, prepared: Prepared, outcome: dict, threads: int) -> None:
    """Write model, records and summary to the stage's folder, and remove the checkpoints that nobody needs then."""
    stage, folders, trainer = inputs.stage, inputs.folders, prepared.trainer
    steps, seconds = trainer.state.global_step, outcome["seconds"]
    trained_now = (steps - attempt.first_step) * stage.tokens_per_step
    facts = stage.record() | {
        "stage": stage.name,
        "machine": stage.machine.hardware,
        "attention": prepared.attention,
        "liger": prepared.liger,
        "parameters": parallel.count_parameters(prepared.model),
        "steps": steps,
        "tokens": steps * stage.tokens_per_step,
        "resumed_at_step": attempt.first_step,
        "code_changes": code_changes(attempt.work),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(trained_now / seconds, 1),
        "eval_loss": outcome["eval_loss"],
        **stopping_summary(trainer.state, stage.settings),
    }
    if prepared.optimizer_check:
        facts |= prepared.optimizer_check.counts
    if planned := os.environ.get(PLAN):
        facts["plan"] = json.loads(planned)
    parallel.gather_weights_on_save(trainer)
    if attempt.owner:
        attempt.owner.check()
    with disk_errors(folders.out):
        publish_stage(trainer, stage.settings, folders, attempt.work, facts, threads, inputs.shards["end_tokens"])
    if attempt.owner:
        prune_after_publishing(attempt.work, folders.out)
        attempt.owner.release()


def main() -> None:
    arguments = stage_parser(__doc__)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--threads", type=int, required=True)
    # the rule's shell ignores SIGTERM, which is inherited; until training begins it ends the process
    # (scripts/training/monitoring/interruption.py)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_torchrun()
    args = arguments.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    train(
        args.stage,
        args.settings,
        args.seed,
        args.code,
        load_machine(args.machine),
        load_monitoring(args.monitoring),
        args.threads,
        Folders(args.origin, args.shards, args.work, args.out),
    )


if __name__ == "__main__":
    run(main)
