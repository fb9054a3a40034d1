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
from fnmatch import fnmatch
from pathlib import Path

import torch
from accelerate import PartialState
from torch import nn
from transformers import PreTrainedModel, TrainingArguments
from transformers.utils import logging as transformers_logging

from scripts.common.cli import run
from scripts.common.disk import disk_errors
from scripts.common.errors import UserError
from scripts.common.files import new_folder_beside
from scripts.common.manifest import read_manifest
from scripts.experiment.machine_files import load_machine, load_monitoring
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine, Monitoring
from scripts.experiment.settings.training import Stage
from scripts.tokens.packing.shards import Shards
from scripts.training.engine import parallel
from scripts.training.engine.callbacks import STOPS, AlreadyFinished, add_callbacks, stopping_summary
from scripts.training.engine.checkpoint_folders import no_half_written_checkpoint, step_of
from scripts.training.engine.muon import MuonCheck, deepspeed_for_muon, muon_factory
from scripts.training.engine.parallel import sharding_arguments
from scripts.training.engine.pruning import prune_after_publishing, prune_before_start
from scripts.training.engine.resume_across_code import Run, code_changes, prepare_work_folder, resume_anyway
from scripts.training.engine.resuming import checkpoint_that_loads, resume_from
from scripts.training.engine.run_lock import Ownership
from scripts.training.engine.stage_folder import Folders, check_disk_space, publish_stage
from scripts.training.engine.stage_process import die_with_torchrun, stage_parser
from scripts.training.engine.trainer import Rows, StageTrainer
from scripts.training.model.attention import choose_attention, collator_for
from scripts.training.model.chunked_loss import use_chunked_loss
from scripts.training.model.compiled import choose_compile, compile_layers
from scripts.training.model.float32_products import float32_products
from scripts.training.model.kernels import architecture
from scripts.training.model.loading import adapter_base, count_parameters, load_model
from scripts.training.model.lora import load_with_adapters
from scripts.training.model.nope import no_rope_parameters
from scripts.training.monitoring.measurements import size_of
from scripts.training.planning.checks import check_validation
from scripts.training.planning.plan_stage import PLAN
from scripts.training.planning.resolved_stage import ResolvedStage, resolve_stage, rows_of_splits, schedule_warnings


def load_stage_model(
    name: str, settings: Stage, seed: int, origin: Path, attention: str, arguments: TrainingArguments
) -> PreTrainedModel:
    """Load the model in `origin`.

    Args:
        name: the stage's, for errors.
        attention: name of the attention kernel.

    Raises:
        UserError: the model lacks layers or parameters that the stage trains.
    """
    if settings.method == "lora":
        model = load_with_adapters(name, settings, seed, origin, arguments.device, attn_implementation=attention)
    else:
        model = load_model(origin, torch.float32, attn_implementation=attention)
    if settings.trainable != "all":
        selected = settings.trainable
        freeze_others(model, no_rope_parameters(model) if selected == "no_rope_layers" else selected)
    return model


def freeze_others(model: nn.Module, patterns: list[str]) -> list[str]:
    """Train only the parameters whose names match one of `patterns` (fnmatch); returns these names."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise UserError(f"trainable: {pattern!r} matches no parameter; an example of a name: {names[1]!r}")
    trained = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    return trained


SCHEDULES = {"constant": "constant_with_warmup", "warmup-stable-decay": "warmup_stable_decay"}  # transformers' names


def training_arguments(stage: ResolvedStage, seed: int, work: Path, validate: bool) -> TrainingArguments:
    """The TrainingArguments of a stage. `validate`: whether there are validation rows; without any there is no
    validation loss, rather than one of 0."""
    settings, sharding = stage.settings, sharding_arguments(stage.machine)
    if sharding["deepspeed"] and settings.optimizer == "muon":
        sharding["deepspeed"] = deepspeed_for_muon(sharding["deepspeed"])
    return TrainingArguments(
        output_dir=str(work),
        seed=seed,
        **sharding,
        **optimizer_arguments(stage),
        per_device_train_batch_size=stage.micro_batch_size,
        per_device_eval_batch_size=stage.micro_batch_size,
        gradient_accumulation_steps=stage.accumulation,
        max_steps=settings.steps or -1,
        num_train_epochs=settings.epochs or 1,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        bf16=settings.precision == "bf16",
        logging_steps=stage.log_every,
        eval_strategy="steps" if validate else "no",
        eval_steps=stage.eval_every,
        save_steps=stage.save_every,
        save_total_limit=None,  # CompleteCheckpoints deletes old ones, after the new one is marked
        remove_unused_columns=False,
        logging_nan_inf_filter=False,  # it would log the mean of the steps before, in place of a NaN
        disable_tqdm=True,
        report_to=[],
        use_cache=False,
    )


def optimizer_arguments(stage: ResolvedStage) -> dict:
    """The TrainingArguments that follow from optimizer and schedule."""
    settings, optimizer = stage.settings, OPTIMIZERS[stage.settings.optimizer]
    arguments = {"max_grad_norm": settings.max_grad_norm, "warmup_steps": stage.warmup}
    if optimizer.optim:
        arguments["optim"] = optimizer.optim
    if not optimizer.clips:
        # Under ZeRO clipping would come after Muon's orthogonalization: it is off in every mode. An infinite limit
        # clips nothing, and the norm is still logged.
        arguments["max_grad_norm"] = 0.0 if stage.machine.sharding.startswith("zero") else float("inf")
    arguments["lr_scheduler_type"] = SCHEDULES.get(settings.scheduler, settings.scheduler)
    if stage.decay:
        arguments["lr_scheduler_kwargs"] = {"num_decay_steps": stage.decay, "decay_type": "1-sqrt"}
    if settings.keep_best:
        arguments |= {"metric_for_best_model": "eval_loss", "greater_is_better": False}
    return arguments


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
    """Run one stage to its end, from its newest whole checkpoint if it has one. On all ranks. Raises UserError: an
    input is missing or not what its manifest says, or the settings do not fit it or the machine."""
    # the stage's numbers, from its settings, the model that it starts from, and its rows
    origin, shards = read_manifest(folders.origin), read_manifest(folders.shards)
    check_validation(name, settings, folders.shards, shards)
    auto = "auto" in (settings.learning_rate, settings.global_batch_size)
    parameters = None
    if auto:
        parameters = count_parameters(folders.origin)
    rows, validation_rows = rows_of_splits(shards, settings)
    stage = resolve_stage(name, settings, machine, parameters, rows, parallel.world_size(), monitoring)
    settings = stage.settings
    if auto:
        logging.info(f"auto: learning rate {settings.learning_rate}, global batch {settings.global_batch_size} rows")
    validates = shards["splits"]["validation"]["targets"] > 0

    # a folder named by all that determines the weights: the first rank claims it
    parallel.start_process_group(machine)
    this_run = Run(settings, seed, origin, shards, code)
    work = folders.work / this_run.folder_name()
    arguments = training_arguments(stage, seed, work, validates)
    parallel.enable_fsdp2_on_cpu(machine, arguments)
    first_rank, owner = arguments.process_index == 0, None
    if first_rank:
        prepare_work_folder(name, work, this_run, resume_anyway())
    PartialState().wait_for_everyone()
    if first_rank:
        owner = Ownership(work)
        with new_folder_beside(folders.out):
            pass  # that nothing can be written there is found now, not after the last step
        for line in schedule_warnings(stage, validation_rows):
            logging.warning(f"warning: {line}")
        prune_before_start(work, folders.origin)
    checkpoint = resume_from(name, work, machine, first_rank)
    first_step = step_of(checkpoint) if checkpoint else 0

    # the model, with the fastest attention kernel that is right for it
    with arguments.main_process_first():  # the first rank of each host tries the kernels, if nobody has yet
        whole = adapter_base(folders.origin) or folders.origin
        attention = choose_attention(name, settings, machine.gpus, whole)
    model = load_stage_model(name, settings, seed, folders.origin, attention, arguments)
    largest = max(split["largest_id"] for split in shards["splits"].values())
    if largest >= model.config.vocab_size:
        raise UserError(
            f"{folders.shards}: packed with a vocabulary of {largest + 1} or more, {folders.origin} has one of"
            f" {model.config.vocab_size}; use its tokenizer"
        )
    if first_rank:
        check_disk_space(stage, model, origin, work)
    compiled = choose_compile(machine, settings)
    if compiled:
        compile_layers(model)
    chunked = use_chunked_loss(model, machine.sharding, architecture(whole).own_loss, compiled)
    arguments.ddp_find_unused_parameters = parallel.may_lack_gradients(model.config)

    # the trainer, with rows, optimizer and callbacks
    together = stage.processes * stage.micro_batch_size
    trainer = StageTrainer(
        model=model,
        args=arguments,
        train_dataset=Rows(
            Shards(folders.shards, "train"), settings.packing, settings.max_samples, settings.global_batch_size
        ),
        eval_dataset=Rows(Shards(folders.shards, "validation"), settings.packing, settings.eval_rows, together),
        data_collator=collator_for(attention, chunked),
        optimizer_cls_and_kwargs=muon_factory(settings, machine) if settings.optimizer == "muon" else None,
    )
    parallel.reduce_in_float32(trainer)
    optimizer_check = None
    if settings.optimizer == "muon":
        optimizer_check = MuonCheck(trainer)
    add_callbacks(trainer, stage, monitoring, optimizer_check, owner, first_step)

    # train to the last step
    began, eval_loss = time.monotonic(), None
    with (
        no_half_written_checkpoint(work, owner),
        disk_errors(work),
        parallel.lost_ranks_as_fault(name, machine),
        checkpoint_that_loads(trainer, checkpoint, first_rank),
    ):
        with contextlib.suppress(AlreadyFinished):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        seconds = time.monotonic() - began
        if validates:
            eval_loss = trainer.evaluate_final_weights(settings.keep_best)

    # publish model, records and summary, and remove the checkpoints that nobody needs then
    steps = trainer.state.global_step
    facts = stage.record() | {
        "stage": name,
        "machine": machine.hardware,
        "attention": attention,
        "compiled": compiled,
        "chunked_loss": chunked,
        **({} if machine.gpus else {"float32_products": float32_products()}),
        "parameters": sum(map(size_of, model.parameters())),
        "steps": steps,
        "tokens": steps * stage.tokens_per_step,
        "data_tokens": shards["splits"]["train"]["tokens"],
        "resumed_at_step": first_step,
        "code_changes": code_changes(work),
        "seconds": round(seconds, 1),
        "tokens_per_second": round((steps - first_step) * stage.tokens_per_step / seconds, 1),
        "eval_loss": eval_loss,
        **stopping_summary(trainer.state, settings),
    }
    if optimizer_check:
        facts |= optimizer_check.counts
    planned = os.environ.get(PLAN)
    if planned:
        facts["plan"] = json.loads(planned)
    if owner:
        owner.check()
    with disk_errors(folders.out), parallel.gathered_weights_on_save(trainer):
        publish_stage(trainer, stage, folders, work, facts, threads, shards["end_tokens"])
    if owner:
        prune_after_publishing(work, folders.out)
        owner.release()
    parallel.barrier_and_destroy()


def main() -> None:
    arguments = stage_parser(__doc__)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--threads", type=int, required=True)
    # the rule's shell ignores these, which is inherited; until training begins they end the process
    # (scripts/training/engine/callbacks.py)
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)
    die_with_torchrun()
    args = arguments.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    machine = load_machine(args.machine)
    if not machine.gpus:
        float32_products()
    train(
        args.stage,
        args.settings,
        args.seed,
        args.code,
        machine,
        load_monitoring(args.monitoring),
        args.threads,
        Folders(args.origin, args.shards, args.work, args.out),
    )


if __name__ == "__main__":
    run(main)
