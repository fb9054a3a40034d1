"""Train one stage: packed shards and a model folder in, a model folder out. Resumes a killed run by itself.

    python -m scripts.training.train --machine config/machines/local.yaml --threads 2 --stage sft \
        --origin results/training/train/pretrain --shards results/tokens/pack/instruct-1024 \
        --work results/work/train/sft --out results/training/train/sft --code 0123 --settings '{"steps": 100, ...}'

With several GPUs the same line runs under torchrun (scripts/training/launch.py). Checkpoints go to a folder below
--work that is named by everything that decides the outcome, so a changed setting never resumes from a stale one.
"""

import contextlib
import hashlib
import json
import logging
import os
import signal
import time
from pathlib import Path

import torch
from torch.utils.tensorboard import SummaryWriter
from transformers import PrinterCallback
from transformers.integrations import TensorBoardCallback
from transformers.utils import logging as transformers_logging

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.manifest import read_manifest
from scripts.experiment.machine_files import MONITORING, load_machine, load_monitoring
from scripts.experiment.settings.record import to_dict
from scripts.tokens.packing.shards import Shards
from scripts.training.engine import parallel
from scripts.training.engine.checkpoints import WholeCheckpoints, made_by, newest_whole, remove_others, step_of
from scripts.training.engine.early_stopping import Finished, Stopping, best_checkpoint, load_best, outcome
from scripts.training.engine.stage_folder import publish
from scripts.training.engine.trainer import PackedRows, StageTrainer
from scripts.training.model import logits_fingerprint
from scripts.training.model.attention import choose_attention, collator
from scripts.training.model.liger import choose_liger, liger_kernels
from scripts.training.model.loading import load_model
from scripts.training.model.lora import with_adapters
from scripts.training.model.nope import no_rope_parameters
from scripts.training.monitoring.callbacks import watch
from scripts.training.monitoring.metric_log import drop_after
from scripts.training.optimization.automatic import steps_of
from scripts.training.optimization.muon import MuonRan
from scripts.training.optimization.optimizers import factory, freeze, with_numbers
from scripts.training.optimization.training_arguments import training_arguments
from scripts.training.plan import accumulation, check_sharding, check_validation

# inputs to the outcome that the work folder is named by; what a log line looks like is not one
COSMETIC = {"log_steps", "keep_checkpoints"}


def key(stage: dict, code: str, origin: dict, shards: dict) -> str:
    """The name of the work folder: a hash over settings, code, the model started from and the data."""
    decides = {name: value for name, value in stage.items() if name not in COSMETIC}
    return hashlib.sha256(json.dumps([decides, code, origin, shards], sort_keys=True).encode()).hexdigest()[:16]


def train(
    name: str,
    stage: dict,
    code: str,
    machine: dict,
    threads: int,
    origin: Path,
    shards: Path,
    work: Path,
    out: Path,
    monitoring: dict,
) -> None:
    """Run one stage to its end, from its newest whole checkpoint where there is one.

    Raises:
        UserError: a file is missing or not what its manifest says, the shards do not fit the model, the machine file
            shards what cannot be sharded, or there is no validation row to choose by.
    """
    check_sharding(name, stage, machine)
    parallel.start(machine)
    origin_manifest, shards_manifest = read_manifest(origin), read_manifest(shards)
    check_validation(name, stage, shards, shards_manifest)
    validated = shards_manifest["splits"]["validation"]["targets"] > 0
    rows = shards_manifest["splits"]["train"]["rows"]
    stage = with_numbers(stage, origin, rows)
    processes = parallel.processes()
    micro, steps_per_update = accumulation(stage["global_batch"], machine["micro_batch"], processes, name)
    work = work / key(stage, code, origin_manifest, shards_manifest)
    work.mkdir(parents=True, exist_ok=True)
    arguments = training_arguments(stage, machine, micro, steps_per_update, steps_of(stage, rows), work, validated)
    parallel.declare(machine)

    resumed = newest_whole(work)
    if resumed:
        parallel.check_resumable(resumed, made_by(resumed), parallel.maker(machine))
    step = step_of(resumed) if resumed else 0
    if arguments.process_index == 0:
        remove_others(work, {resumed, best_checkpoint(resumed)} if resumed else set())
        drop_after(work / "metrics.jsonl", step)
        drop_after(work / "alerts.jsonl", step)
        logging.info(f"{name}: {f'resumes at step {step}' if resumed else 'starts'}, work in {work}")

    attention = choose_attention()
    if stage["method"] == "lora":
        model = with_adapters(name, stage, origin, arguments.device, attn_implementation=attention)
    else:
        model = load_model(origin, torch.float32, attn_implementation=attention)
    liger = choose_liger(machine, model.config.model_type)
    if arguments.process_index == 0:
        logits_fingerprint.check(model, origin)
    if (vocabulary := shards_manifest["vocab_size"]) > model.config.vocab_size:
        raise UserError(
            f"{shards}: made with {vocabulary} tokens, {origin} has {model.config.vocab_size}; use its tokenizer"
        )
    train_rows, validation_rows = (
        PackedRows(Shards(shards, "train"), stage.get("max_samples")),
        PackedRows(Shards(shards, "validation"), stage["eval_rows"]),
    )
    if stage["trainable"] != "all":
        chosen = stage["trainable"]
        freeze(model, no_rope_parameters(model) if chosen == "no_rope_layers" else chosen)
    muon = MuonRan(stage["optimizer"] == "muon")
    trainer = StageTrainer(
        model=model,
        args=arguments,
        train_dataset=train_rows,
        eval_dataset=validation_rows,
        data_collator=collator(attention),
        optimizer_cls_and_kwargs=factory(stage, machine),
        callbacks=[
            muon,
            WholeCheckpoints(work, stage["keep_checkpoints"], parallel.maker(machine)),
        ],
    )
    trainer.add_callback(parallel.ReallySharded(trainer, machine))
    watch(trainer, name, stage, monitoring, work)
    trainer.remove_callback(PrinterCallback)
    if arguments.process_index == 0:
        trainer.add_callback(TensorBoardCallback(SummaryWriter(str(work / "tensorboard"), purge_step=step or None)))
    muon.trainer = trainer
    trainer.add_callback(Stopping(stage))  # the last: it may end a resumed run that was done
    began = time.monotonic()
    with liger_kernels(model, liger):
        with contextlib.suppress(Finished):
            trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
        seconds = time.monotonic() - began
        if stage["keep_best"]:
            load_best(trainer)
        final = trainer.evaluate()["eval_loss"] if validated else None
    done = trainer.state.global_step
    facts = {
        "stage": name,
        "parameters": parallel.parameters(model),
        "steps": done,
        "resumed_at_step": step,
        "tokens": done * stage["global_batch"] * stage["sequence_length"],
        "tokens_per_second": round((done - step) * stage["global_batch"] * stage["sequence_length"] / seconds, 1),
        "seconds": round(seconds, 1),
        "micro_batch": micro,
        "gradient_accumulation": steps_per_update,
        **parallel.maker(machine),
        "attention": attention,
        "liger": liger,
        "compile": machine["compile"],
        "global_batch": stage["global_batch"],
        "learning_rate": stage["learning_rate"],
        **muon.counts,
        **outcome(trainer.state, stage),
        "eval_loss": final,
    }
    parallel.save_whole(trainer)
    publish(trainer, stage, origin, work, out, facts, threads)
    parallel.part()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--threads", type=int, required=True)
    arguments.add_argument("--stage", required=True)
    arguments.add_argument("--settings", type=settings, required=True)
    arguments.add_argument("--code", required=True)
    arguments.add_argument("--origin", type=Path, required=True)
    arguments.add_argument("--shards", type=Path, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--monitoring", type=Path, default=MONITORING / "default.yaml")
    # the rule's shell ignores SIGTERM, which is inherited; until training begins it ends the process (stop.py)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    given = arguments.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(given.threads)
    machine, monitoring = to_dict(load_machine(given.machine)), to_dict(load_monitoring(given.monitoring))
    train(
        given.stage,
        given.settings,
        given.code,
        machine,
        given.threads,
        given.origin,
        given.shards,
        given.work,
        given.out,
        monitoring,
    )


if __name__ == "__main__":
    run(main)
