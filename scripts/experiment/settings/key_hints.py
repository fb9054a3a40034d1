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
    "output_dir": "results",
    "model_name_or_path": "training.base.model",
    "max_seq_length": f"{STAGE}.sequence_length",
    "batch_size": f"{STAGE}.global_batch",
    "num_train_epochs": f"{STAGE}.epochs",
    "max_steps": f"{STAGE}.steps",
    "lr": f"{STAGE}.learning_rate",
    "warmup_ratio": f"{STAGE}.warmup_steps",
    "max_grad_norm": f"{STAGE}.clip",
    "bf16": f"{STAGE}.precision: bf16",
    "load_in_4bit": f"{STAGE}.quantize: 4bit",
    "lora_rank": f"{STAGE}.lora.r",
    "lora_alpha": f"{STAGE}.lora.alpha",
    "per_device_train_batch_size": f"{MACHINE}.micro_batch",
    "deepspeed": f"{MACHINE}.sharding",
}
# their key → why there is none here
WITHOUT_KEY = {
    "gradient_accumulation_steps": f"it follows from `{STAGE}.global_batch` and the machine file's `micro_batch`",
    "resume_from_checkpoint": "a stage that was stopped resumes by itself",
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
