"""Map a stage's and a machine's settings to transformers' TrainingArguments."""

from pathlib import Path

from transformers import TrainingArguments

from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.engine.parallel import sharding_arguments
from scripts.training.optimization.optimizers import OWN, optimizer_arguments
from scripts.training.planning.batch import Batch
from scripts.training.planning.schedule import intervals


def training_arguments(
    settings: Stage, seed: int, machine: Machine, batch: Batch, steps: int, work: Path, validate: bool
) -> TrainingArguments:
    """The TrainingArguments of a stage.

    Args:
        steps: optimizer steps of the whole stage; its schedule follows from them.
        validate: whether there are validation rows; without any there is no validation loss, rather than one of 0.
    """
    sharding, steps_between = sharding_arguments(machine), intervals(settings, steps)
    if sharding["deepspeed"] and settings.optimizer in OWN:
        sharding["deepspeed"] = OWN[settings.optimizer].deepspeed(sharding["deepspeed"])
    return TrainingArguments(
        output_dir=str(work),
        seed=seed,
        **sharding,
        **optimizer_arguments(settings, machine, steps),
        per_device_train_batch_size=batch.micro,
        per_device_eval_batch_size=batch.micro,
        gradient_accumulation_steps=batch.accumulation,
        max_steps=settings.steps or -1,
        num_train_epochs=settings.epochs or 1,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        adam_epsilon=settings.eps,
        bf16=settings.precision == "bf16",
        logging_steps=steps_between.log,
        eval_strategy="steps" if validate else "no",
        eval_steps=steps_between.eval,
        save_steps=steps_between.save,
        save_total_limit=None,  # CompleteCheckpoints deletes old ones, after the new one is marked
        remove_unused_columns=False,
        logging_nan_inf_filter=False,  # it would log the mean of the steps before, in place of a NaN
        disable_tqdm=True,
        report_to=[],
        use_cache=False,
    )
