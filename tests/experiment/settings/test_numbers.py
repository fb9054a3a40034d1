"""Numbers in settings: how one is written does not matter."""

import pytest

from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import to_json
from scripts.experiment.settings.training import Lora, Stage
from tests.experiment.settings.test_key_hints import kinds_in

STAGE = {"from": "base", "data": "code", "steps": 3, "learning_rate": 1e-3}


@pytest.mark.parametrize(("one", "other"), [(0, 0.0), (16, 16.0), (1, "1e0"), (0.5, 0.50)])
def test_two_ways_of_writing_a_number_are_one_value(one, other):
    stages = [Stage.parse(STAGE | {"weight_decay": value}, "x") for value in (one, other)]
    assert to_json(stages[0]) == to_json(stages[1])


def test_a_number_that_is_not_whole_stays_as_it_is():
    assert Lora.parse({"dropout": 0.05}, "x").dropout == 0.05
    assert Stage.parse(STAGE | {"warmup_steps": 10.0}, "x").warmup_steps == 10


def test_a_default_is_written_as_a_value_of_a_file_would_be():
    """`1`, not `1.0`: whoever writes the default out reruns nothing."""
    records, odd = [Experiment, Machine], []
    for record in records:  # which grows
        for name, field in record.model_fields.items():
            records += [kind for kind in kinds_in(field.annotation) if kind not in records]
            if isinstance(field.default, float) and field.default.is_integer():
                odd.append(f"{record.__name__}.{name}")
    assert len(records) > 20 and odd == []
