"""What would be right in the place of an unknown key: our name for what other trainers call so, nested for dotted keys.

    key_hint("lr", ["learning_rate", "steps"])    # "here it is `learning_rate`"

The others are transformers, TRL, LLaMA-Factory, axolotl, torchtune and LitGPT. A key of ours may stand here too, for
where it is written at the wrong level.
"""

import difflib

STAGE = "training.train.STAGE"
MACHINE = "machine"  # the machine file

# their key → ours, with its place in the experiment file or in the machine file; behind a colon the value, if it is one
KEYS = {
    "run_name": "experiment",
    "output_dir": "results",
    "data_seed": "seed",
    "val_size": "corpus.split.validation",
    "model_name_or_path": "training.base.model",
    "pretrained_model_name_or_path": "training.base.model",
    "model_name": "training.base.model",
    "base_model": "training.base.model",
    "model_revision": "training.base.revision",
    "template": "training.base.chat_template",
    "dataset": f"{STAGE}.data",
    "finetuning_type": f"{STAGE}.method",
    "adapter": f"{STAGE}.method: lora",
    "max_seq_length": f"{STAGE}.sequence_length",
    "max_seq_len": f"{STAGE}.sequence_length",
    "max_length": f"{STAGE}.sequence_length",
    "model_max_length": f"{STAGE}.sequence_length",
    "cutoff_len": f"{STAGE}.sequence_length",
    "sequence_len": f"{STAGE}.sequence_length",
    "seq_length": f"{STAGE}.sequence_length",
    "seq_len": f"{STAGE}.sequence_length",
    "block_size": f"{STAGE}.sequence_length",
    "batch_size": f"{STAGE}.global_batch",
    "train_batch_size": f"{STAGE}.global_batch",
    "global_batch_size": f"{STAGE}.global_batch",
    "num_train_epochs": f"{STAGE}.epochs",
    "num_epochs": f"{STAGE}.epochs",
    "max_steps": f"{STAGE}.steps",
    "max_train_steps": f"{STAGE}.steps",
    "learning_rate": f"{STAGE}.learning_rate",
    "lr": f"{STAGE}.learning_rate",
    "lr_scheduler_type": f"{STAGE}.scheduler",
    "lr_scheduler": f"{STAGE}.scheduler",
    "warmup_ratio": f"{STAGE}.warmup_share",
    "num_warmup_steps": f"{STAGE}.warmup_steps",
    "optim": f"{STAGE}.optimizer",
    "weight_decay": f"{STAGE}.weight_decay",
    "adam_beta1": f"{STAGE}.betas",
    "adam_beta2": f"{STAGE}.betas",
    "adam_epsilon": f"{STAGE}.eps",
    "max_grad_norm": f"{STAGE}.clip",
    "gradient_clipping": f"{STAGE}.clip",
    "bf16": f"{STAGE}.precision: bf16",
    "fp16": f"{STAGE}.precision",
    "dtype": f"{STAGE}.precision",
    "torch_dtype": f"{STAGE}.precision",
    "load_in_8bit": f"{STAGE}.quantize: 8bit",
    "load_in_4bit": f"{STAGE}.quantize: 4bit",
    "quantization_bit": f"{STAGE}.quantize",
    "lora_rank": f"{STAGE}.lora.r",
    "lora_r": f"{STAGE}.lora.r",
    "rank": f"{STAGE}.lora.r",
    "lora_alpha": f"{STAGE}.lora.alpha",
    "lora_dropout": f"{STAGE}.lora.dropout",
    "lora_target": f"{STAGE}.lora.targets",
    "lora_target_modules": f"{STAGE}.lora.targets",
    "target_modules": f"{STAGE}.lora.targets",
    "logging_steps": f"{STAGE}.log_steps",
    "save_total_limit": f"{STAGE}.keep_checkpoints",
    "load_best_model_at_end": f"{STAGE}.keep_best",
    "early_stopping_patience": f"{STAGE}.early_stopping.patience",
    "per_device_train_batch_size": f"{MACHINE}.micro_batch",
    "micro_batch_size": f"{MACHINE}.micro_batch",
    "gradient_checkpointing": f"{MACHINE}.gradient_checkpointing",
    "deepspeed": f"{MACHINE}.sharding",
    "fsdp": f"{MACHINE}.sharding",
    "use_liger_kernel": f"{MACHINE}.liger",
    "torch_compile": f"{MACHINE}.compile",
}
# their key → why there is none here
WITHOUT_KEY = {
    "gradient_accumulation_steps": f"it follows from `{STAGE}.global_batch` and the machine file's `micro_batch`",
    "resume_from_checkpoint": "a stage that was stopped resumes by itself",
    "packing": "rows are always packed",
    "sample_packing": "rows are always packed",
}


def key_hint(key: str, known: list[str]) -> str | None:
    """What to say about an unknown key; None if nothing is known about it.

    Args:
        known: the keys at the place where it stands, from which on ours is written.
    """
    nested = key.split(".")
    if len(nested) > 1 and nested[0] in known:
        return f"keys are nested, not dotted: `{': {'.join(nested)}: ...{'}' * (len(nested) - 1)}`"
    if key in WITHOUT_KEY:
        return f"there is none here: {WITHOUT_KEY[key]}"
    if key not in KEYS:
        return None
    parts = KEYS[key].split(".")
    for number, part in enumerate(parts):
        if part.partition(":")[0] in known:
            return f"here it is `{'.'.join(parts[number:])}`"
    if parts[0] == MACHINE:
        return f"here it is `{parts[1]}` in the machine file, config/machines/"
    if difflib.get_close_matches(key, known, 1):  # as `batch_size` of a suite that has `batch`
        return None
    return f"here it is `{KEYS[key]}`"
