"""The stage's and the machine's settings in transformers' words."""

from pathlib import Path

from transformers import TrainingArguments

from scripts.training.engine.parallel import where
from scripts.training.optimization.optimizers import deepspeed_for, optimizer_arguments


def training_arguments(
    stage: dict, machine: dict, micro: int, steps_per_update: int, steps: int, work: Path, validated: bool
) -> TrainingArguments:
    """TrainingArguments of a stage with `micro` rows per process and pass, accumulated `steps_per_update` times.

    Args:
        steps: optimizer steps of the whole stage; its schedule follows from them.
        validated: whether there are validation rows; without one there is no validation loss, and not one of 0.
    """
    place = where(machine)
    place["deepspeed"] = deepspeed_for(stage, place["deepspeed"])
    return TrainingArguments(
        output_dir=str(work),
        seed=stage["seed"],
        **place,
        **optimizer_arguments(stage, machine, steps),
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=micro,
        gradient_accumulation_steps=steps_per_update,
        max_steps=stage.get("steps", -1),
        num_train_epochs=stage.get("epochs", 1),
        learning_rate=stage["learning_rate"],
        weight_decay=stage["weight_decay"],
        adam_beta1=stage["betas"][0],
        adam_beta2=stage["betas"][1],
        adam_epsilon=stage["eps"],
        bf16=stage["precision"] == "bf16",
        logging_steps=stage["log_steps"],
        eval_strategy="steps" if validated else "no",
        eval_steps=stage["eval_steps"],
        save_steps=stage["save_steps"],
        save_total_limit=None,  # WholeCheckpoints deletes old ones, after the new one is marked
        remove_unused_columns=False,
        logging_nan_inf_filter=False,  # it would log the mean of the steps before, in place of a NaN
        disable_tqdm=True,
        report_to=[],
        use_cache=False,
    )
