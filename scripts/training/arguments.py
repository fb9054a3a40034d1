"""The stage's and the machine's settings in transformers' words."""

import os
from pathlib import Path

from transformers import TrainingArguments


def training_arguments(stage: dict, machine: dict, micro: int, steps_per_update: int, work: Path) -> TrainingArguments:
    """TrainingArguments of a stage with `micro` rows per process and pass, accumulated `steps_per_update` times."""
    return TrainingArguments(
        output_dir=str(work),
        seed=stage["seed"],
        use_cpu=machine["gpus"] == 0,
        deepspeed=None if machine["sharding"] == "none" else f"config/deepspeed/{machine['sharding']}.json",
        ddp_backend="gloo" if machine["gpus"] == 0 and "WORLD_SIZE" in os.environ else None,
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=micro,
        gradient_accumulation_steps=steps_per_update,
        activation_checkpointing=machine["gradient_checkpointing"],
        max_steps=stage.get("steps", -1),
        num_train_epochs=stage.get("epochs", 1),
        learning_rate=stage["learning_rate"],
        lr_scheduler_type="cosine",
        warmup_steps=stage["warmup_steps"],
        weight_decay=stage["weight_decay"],
        adam_beta1=stage["betas"][0],
        adam_beta2=stage["betas"][1],
        adam_epsilon=stage["eps"],
        max_grad_norm=stage["clip"],
        bf16=stage["precision"] == "bf16",
        logging_steps=stage["log_steps"],
        eval_strategy="steps",
        eval_steps=stage["eval_steps"],
        save_steps=stage["save_steps"],
        save_total_limit=None,  # WholeCheckpoints deletes old ones, after the new one is marked
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        use_cache=False,
    )
