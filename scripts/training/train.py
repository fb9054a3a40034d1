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
import os
import signal
import time
from pathlib import Path

import torch
from accelerate import PartialState
from transformers.utils import logging as transformers_logging

from scripts.common.cli import parser, run
from scripts.common.disk import disk_errors
from scripts.common.errors import UserError
from scripts.common.files import new_folder_beside
from scripts.common.manifest import read_manifest
from scripts.experiment.machine_files import MONITORING, load_machine, load_monitoring
from scripts.experiment.no_effect_settings import add_no_effect_options, with_no_effect_options
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
from scripts.training.engine.stage_folder import Folders, publish_stage
from scripts.training.engine.stage_model import load_stage_model
from scripts.training.engine.trainer import PackedRows, StageTrainer
from scripts.training.model.attention import choose_attention, collator_for
from scripts.training.model.liger import choose_liger, liger_kernels
from scripts.training.optimization.auto_settings import training_steps
from scripts.training.optimization.optimizers import OWN, optimizer_factory, resolve_auto_for_model
from scripts.training.optimization.training_arguments import training_arguments
from scripts.training.planning.batch import divide_batch
from scripts.training.planning.checks import check_sharding, check_validation
from scripts.training.planning.resolve_auto import PLAN
from scripts.training.planning.schedule import check_schedule, log_warnings


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
    check_sharding(name, settings, machine)
    parallel.start_process_group(machine)
    origin, shards = folders.origin, folders.shards
    origin_manifest, shards_manifest = read_manifest(origin), read_manifest(shards)
    check_validation(name, settings, shards, shards_manifest)
    validate = shards_manifest["splits"]["validation"]["targets"] > 0
    rows = shards_manifest["splits"]["train"]["rows"]
    settings = resolve_auto_for_model(settings, origin, rows)
    check_schedule(name, settings, steps := training_steps(settings, rows))
    batch = divide_batch(settings.global_batch, machine.micro_batch, parallel.world_size(), name)
    this_run = Run(settings, seed, origin_manifest, shards_manifest, code)
    work = folders.work / this_run.folder_name()
    arguments = training_arguments(settings, seed, machine, batch, steps, work, validate)
    parallel.enable_fsdp2_on_cpu(machine, arguments)

    first_rank = arguments.process_index == 0
    if first_rank:
        prepare_work_folder(name, work, this_run, resume_anyway())
    PartialState().wait_for_everyone()
    owner = Ownership(work) if first_rank else None
    if first_rank:
        with new_folder_beside(folders.out):
            pass  # that nothing can be written there is found now, not after the last step
        log_warnings(name, settings, steps, parallel.world_size(), shards_manifest["splits"]["validation"]["rows"])
        prune_before_start(work, origin)
    checkpoint = resume_from(name, work, machine, first_rank)
    first_step = step_of(checkpoint) if checkpoint else 0

    attention = choose_attention(machine.gpus, settings.precision)
    model = load_stage_model(name, settings, seed, origin, attention, arguments)
    if shards_manifest["vocab_size"] > model.config.vocab_size:
        raise UserError(
            f"{shards}: packed with a vocabulary of {shards_manifest['vocab_size']}, {origin} has one of"
            f" {model.config.vocab_size}; use its tokenizer"
        )
    if first_rank:
        check_disk_space(name, settings, machine, model, steps, origin_manifest, work)
    liger = choose_liger(machine, model.config.model_type)
    trainer = StageTrainer(
        model=model,
        args=arguments,
        train_dataset=PackedRows(Shards(shards, "train"), settings.max_samples),
        eval_dataset=PackedRows(
            Shards(shards, "validation"), settings.eval_rows, multiple=arguments.world_size * batch.micro
        ),
        data_collator=collator_for(attention),
        optimizer_cls_and_kwargs=optimizer_factory(settings, machine),
    )
    own = OWN.get(settings.optimizer)
    optimizer_check = own.check(trainer) if own else None
    add_callbacks(trainer, name, settings, machine, monitoring, optimizer_check, owner, first_step)

    began = time.monotonic()
    with (
        liger_kernels(model, liger),
        no_half_written_checkpoint(work, owner),
        disk_errors(work),
        parallel.lost_ranks_as_fault(name, machine),
        checkpoint_that_loads(trainer, checkpoint, first_rank),
    ):
        with contextlib.suppress(AlreadyFinished):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        seconds = time.monotonic() - began
        validation_loss = trainer.evaluate_final_weights(settings.keep_best) if validate else None
    steps, tokens_per_step = trainer.state.global_step, settings.global_batch * settings.sequence_length
    facts = {
        "stage": name,
        "parameters": parallel.count_parameters(model),
        "steps": steps,
        "resumed_at_step": first_step,
        "code_changes": code_changes(work),
        "tokens": steps * tokens_per_step,
        "tokens_per_second": round((steps - first_step) * tokens_per_step / seconds, 1),
        "seconds": round(seconds, 1),
        "micro_batch": batch.micro,
        "gradient_accumulation": batch.accumulation,
        "machine": machine.hardware,
        **parallel.current_layout(machine)._asdict(),
        "attention": attention,
        "liger": liger,
        "compile": machine.compile,
        "global_batch": settings.global_batch,
        "learning_rate": settings.learning_rate,
        **(optimizer_check.counts if optimizer_check else {}),
        **stopping_summary(trainer.state, settings),
        "eval_loss": validation_loss,
    }
    parallel.gather_weights_on_save(trainer)
    if planned := os.environ.get(PLAN):
        facts["plan"] = json.loads(planned)
    if owner:
        owner.check()
    with disk_errors(folders.out):
        publish_stage(trainer, settings, origin, work, folders.out, facts, threads, shards_manifest["end_tokens"])
    if owner:
        prune_after_publishing(work, folders.out)
        owner.release()
    parallel.barrier_and_destroy()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--threads", type=int, required=True)
    arguments.add_argument("--stage", required=True)
    arguments.add_argument("--settings", type=Stage.from_json, required=True)
    add_no_effect_options(arguments)
    arguments.add_argument("--seed", type=int, required=True)
    arguments.add_argument("--code", required=True)
    arguments.add_argument("--origin", type=Path, required=True)
    arguments.add_argument("--shards", type=Path, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--monitoring", type=Path, default=MONITORING / "default.yaml")
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
        with_no_effect_options(args.settings, args),
        args.seed,
        args.code,
        load_machine(args.machine),
        load_monitoring(args.monitoring),
        args.threads,
        Folders(args.origin, args.shards, args.work, args.out),
    )


if __name__ == "__main__":
    run(main)
