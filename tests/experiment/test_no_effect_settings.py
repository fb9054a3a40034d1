"""scripts/experiment/no_effect_settings.py: what of a stage's settings can change its weights."""

from argparse import ArgumentParser

import pytest

from scripts.experiment.no_effect_settings import (
    add_no_effect_options,
    every_of,
    weight_settings,
    with_no_effect_options,
)
from scripts.experiment.settings.training import Stage

GIVEN = {"from": "base", "data": "code", "learning_rate": 1e-3, "steps": 4}


def test_all_settings_but_logging_and_saving_determine_the_weights():
    names = {field.alias or name for name, field in Stage.model_fields.items()}
    optional = {"epochs", "max_samples", "muon_learning_rate", "warmup_steps", "eval_steps", "early_stopping"}
    optional |= {"seeds"}  # the stage of each seed has none
    keys = weight_settings(Stage.parse(GIVEN, "test")).keys()
    assert names - keys - optional == {"log_steps", "log_share", "save_steps", "save_share", "keep_checkpoints"}


@pytest.mark.parametrize("select", [{"keep_best": True}, {"early_stopping": {"patience": 1}}])
def test_where_validation_losses_select_the_weights_saving_counts(select):
    plain = weight_settings(Stage.parse(GIVEN | select, "test"))
    assert plain == weight_settings(Stage.parse(GIVEN | select | {"log_steps": 3}, "test"))
    for name in ("save_steps", "keep_checkpoints"):
        assert plain != weight_settings(Stage.parse(GIVEN | select | {name: 7}, "test"))


@pytest.mark.parametrize(
    "intervals", [{}, {"log_steps": 3, "save_share": 0.25}, {"save_steps": 9, "log_share": 1}], ids=str
)
def test_options_bring_back_what_the_settings_leave_out(intervals):
    stage = Stage.parse(GIVEN | intervals, "test")
    options = ArgumentParser()
    add_no_effect_options(options)
    words = ["--log-every", every_of(stage, "log"), "--save-every", every_of(stage, "save"), "--keep-checkpoints", "3"]
    assert with_no_effect_options(Stage.parse(weight_settings(stage), "test"), options.parse_args(words)) == stage
