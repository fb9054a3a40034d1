"""Numbers in settings: how one is written does not matter."""

import pytest

from scripts.experiment.settings.record import to_json
from scripts.experiment.settings.training import Lora, Stage

STAGE = {"from": "base", "data": "code", "steps": 3, "learning_rate": 1e-3}


@pytest.mark.parametrize(("one", "other"), [(0, 0.0), (16, 16.0), (1, "1e0"), (0.5, 0.50)])
def test_two_ways_of_writing_a_number_are_one_value(one, other):
    stages = [Stage.parse(STAGE | {"weight_decay": value}, "x") for value in (one, other)]
    assert to_json(stages[0]) == to_json(stages[1])


def test_a_number_that_is_not_whole_stays_as_it_is():
    assert Lora.parse({"dropout": 0.05}, "x").dropout == 0.05
    assert Stage.parse(STAGE | {"warmup_steps": 10.0}, "x").warmup_steps == 10
