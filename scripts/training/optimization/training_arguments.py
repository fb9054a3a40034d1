"""Map a resolved stage to transformers' TrainingArguments."""

from pathlib import Path

from transformers import TrainingArguments

from scripts.experiment.optimizers import OPTIMIZERS
from scripts.training.engine.parallel import sharding_arguments
from scripts.training.optimization.muon import deepspeed_for_muon
from scripts.training.planning.resolved_stage import ResolvedStage

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
        per_device_train_batch_size=stage.micro_batch,
        per_device_eval_batch_size=stage.micro_batch,
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
    arguments = {"max_grad_norm": settings.clip, "warmup_steps": stage.warmup}
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
