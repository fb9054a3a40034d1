"""An unknown key that other trainers use is answered by our name for it, which exists."""

import pytest
from pydantic import BaseModel

import scripts.experiment.load  # noqa: F401 - which adds the hints
from scripts.common.errors import UserError
from scripts.experiment.load import KEYS, MACHINE
from scripts.experiment.settings.experiment import Evaluation, Experiment
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import Record
from scripts.experiment.settings.training import Lora, Stage


class Suite(Record):
    batch: int = 8


def keys_of(record: type[BaseModel], prefix: str) -> set[str]:
    """The dotted keys of a record and of those in it, a mapping's names as STAGE."""
    keys = set()
    for name, field in record.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        keys.add(key)
        for kind in kinds_in(field.annotation):
            keys |= keys_of(kind, f"{key}.") | keys_of(kind, f"{key}.STAGE.")
    return keys


def kinds_in(annotation) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [kind for part in getattr(annotation, "__args__", ()) for kind in kinds_in(part)]


def test_every_name_of_ours_is_a_setting():
    settings = keys_of(Experiment, "") | keys_of(Machine, f"{MACHINE}.")
    assert {place.partition(":")[0] for place in KEYS.values()} - settings == set()


@pytest.mark.parametrize(
    ("record", "key", "line"),
    [
        (Stage, "lr", "lr: unknown key; here it is `learning_rate`"),
        (Stage, "lora_rank", "lora_rank: unknown key; here it is `lora.r`"),
        (Lora, "lora_alpha", "lora_alpha: unknown key; here it is `alpha`"),
        (Stage, "load_in_4bit", "load_in_4bit: unknown key; here it is `quantize: 4bit`"),
        (Experiment, "batch_size", "batch_size: unknown key; here it is `training.train.STAGE.global_batch_size`"),
        # names of ours that were others before
        (Stage, "global_batch", "global_batch: unknown key; here it is `global_batch_size`"),
        (Stage, "clip", "clip: unknown key; here it is `max_grad_norm`"),
        (Machine, "micro_batch", "micro_batch: unknown key; here it is `micro_batch_size`"),
        (Evaluation, "human", "human: unknown key; here it is `human_ratings`"),
        (Experiment, "output_dir", "output_dir: unknown key; here it is `results`"),
        (
            Stage,
            "per_device_train_batch_size",
            "per_device_train_batch_size: unknown key; here it is `micro_batch_size` in the machine file,"
            " config/machines/",
        ),
        (
            Stage,
            "gradient_accumulation_steps",
            "gradient_accumulation_steps: unknown key; there is none here: it follows from"
            " `training.train.STAGE.global_batch_size` and the machine file's `micro_batch_size`",
        ),
        (
            Experiment,
            "training.train.sft.steps",
            "training.train.sft.steps: unknown key; keys are nested, not dotted:"
            " `training: {train: {sft: {steps: ...}}}`",
        ),
        (Suite, "batch_size", "batch_size: unknown key; did you mean `batch`?"),
        (Stage, "stepz", "stepz: unknown key; did you mean `steps`?"),
    ],
)
def test_an_unknown_key_is_answered_by_what_would_be_right(record, key, line):
    with pytest.raises(UserError) as error:
        record.parse({key: 1}, "mine.yaml")
    assert str(error.value) == f"mine.yaml: {line}"
