"""Train one stage: packed shards and a model folder in, a model folder out. Resumes a killed run by itself.

    python -m scripts.training.train --machine config/machines/local.yaml --threads 2 --stage sft \
        --origin results/training/train/pretrain --shards results/tokens/pack/instruct-1024 \
        --work results/work/train/sft --out results/training/train/sft --code 0123 --settings '{"steps": 100, ...}'

With several GPUs the same line runs under torchrun (scripts/training/launch.py). Checkpoints go to a folder below
--work that is named by everything that decides the outcome, so a changed setting never resumes from a stale one.
"""

import hashlib
import json
import logging
import os
import time
from pathlib import Path

import torch
from torch.utils.tensorboard import SummaryWriter
from transformers import AutoModelForCausalLM, PrinterCallback
from transformers.integrations import TensorBoardCallback
from transformers.utils import logging as transformers_logging

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.config import read_machine
from scripts.common.manifest import read_manifest
from scripts.tokens.shards import Shards
from scripts.training.arguments import training_arguments
from scripts.training.checkpoints import WholeCheckpoints, newest_whole, remove_others, step_of
from scripts.training.folder import publish
from scripts.training.metrics import MetricLog, drop_after
from scripts.training.plan import accumulation
from scripts.training.trainer import PackedRows, StageTrainer, stack

# inputs to the outcome that the work folder is named by; what a log line looks like is not one
COSMETIC = {"log_steps", "keep_checkpoints"}


def key(stage: dict, code: str, origin: dict, shards: dict) -> str:
    """The name of the work folder: a hash over settings, code, the model started from and the data."""
    decides = {name: value for name, value in stage.items() if name not in COSMETIC}
    return hashlib.sha256(json.dumps([decides, code, origin, shards], sort_keys=True).encode()).hexdigest()[:16]


def train(
    name: str, stage: dict, code: str, machine: dict, threads: int, origin: Path, shards: Path, work: Path, out: Path
) -> None:
    """Run one stage to its end, from its newest whole checkpoint where there is one.

    Raises:
        UserError: a file is missing or not what its manifest says, or the shards do not fit the model.
    """
    # as many processes as really run, also where somebody started torchrun by hand with another number
    processes = int(os.environ.get("WORLD_SIZE", 1))
    micro, steps_per_update = accumulation(stage["global_batch"], machine["micro_batch"], processes, name)
    origin_manifest, shards_manifest = read_manifest(origin), read_manifest(shards)
    work = work / key(stage, code, origin_manifest, shards_manifest)
    work.mkdir(parents=True, exist_ok=True)
    arguments = training_arguments(stage, machine, micro, steps_per_update, work)

    resumed = newest_whole(work)
    step = step_of(resumed) if resumed else 0
    if arguments.process_index == 0:
        remove_others(work, {resumed} if resumed else set())
        drop_after(work / "metrics.jsonl", step)
        logging.info(f"{name}: {f'resumes at step {step}' if resumed else 'starts'}, work in {work}")

    model = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32, attn_implementation="sdpa")
    if (vocabulary := shards_manifest["vocab_size"]) > model.config.vocab_size:
        raise UserError(
            f"{shards}: made with {vocabulary} tokens, {origin} has {model.config.vocab_size}; use its tokenizer"
        )
    train_rows, validation_rows = (
        PackedRows(Shards(shards, "train")),
        PackedRows(Shards(shards, "validation"), stage["eval_rows"]),
    )
    trainer = StageTrainer(
        model=model,
        args=arguments,
        train_dataset=train_rows,
        eval_dataset=validation_rows,
        data_collator=stack,
        callbacks=[
            MetricLog(work / "metrics.jsonl", name, stage["global_batch"] * stage["sequence_length"]),
            WholeCheckpoints(work, stage["keep_checkpoints"]),
        ],
    )
    trainer.remove_callback(PrinterCallback)
    if arguments.process_index == 0:
        trainer.add_callback(TensorBoardCallback(SummaryWriter(str(work / "tensorboard"), purge_step=step or None)))
    began = time.monotonic()
    result = trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    seconds = time.monotonic() - began
    final = trainer.evaluate()
    done = trainer.state.global_step
    facts = {
        "stage": name,
        "parameters": model.num_parameters(),
        "steps": done,
        "resumed_at_step": step,
        "tokens": done * stage["global_batch"] * stage["sequence_length"],
        "tokens_per_second": round((done - step) * stage["global_batch"] * stage["sequence_length"] / seconds, 1),
        "seconds": round(seconds, 1),
        "micro_batch": micro,
        "gradient_accumulation": steps_per_update,
        "train_loss": result.training_loss,
        "eval_loss": final["eval_loss"],
    }
    publish(trainer, origin, work, out, facts, threads)


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
    given = arguments.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(given.threads)
    machine = read_machine(given.machine)
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
    )


if __name__ == "__main__":
    run(main)
