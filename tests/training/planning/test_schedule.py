"""planning/resolved_stage.py, schedule.py: shares become steps; logging or saving too rarely gives a warning."""

import pytest

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Monitoring
from scripts.training.planning.plan_stage import PlanInputs, plan
from scripts.training.planning.resolved_stage import ResolvedStage, resolve_stage, schedule_warnings
from tests.training.test_plan import a40, stage


def resolved(steps: int, **changes) -> ResolvedStage:
    """The stage with so many steps, on eight processes; `changes` are of its settings or of its monitoring file."""
    watched = {key: changes.pop(key) for key in ("log_steps", "save_steps") if key in changes}
    monitoring = Monitoring.parse(watched, "test")
    settings = stage(epochs=None, steps=steps, **changes)
    return resolve_stage("sft", settings, a40(gpus=8), None, None, monitoring=monitoring)


def test_a_warm_up_longer_than_the_stage_is_refused_with_a_setting_that_passes():
    """207 steps of 25 repositories under a warm-up of 1,000."""
    with pytest.raises(UserError, match=r"sft\.warmup_steps: 1,000 of the stage's 207 steps .* use 0\.03"):
        resolved(207, warmup_steps=1000)
    with pytest.raises(UserError, match=r"sft\.warmup_steps: 207 of"):
        plan(PlanInputs("sft", stage(warmup_steps=207), a40(), rows=69 * 64))
    resolved(207, warmup_steps=0.03)
    resolved(207, warmup_steps=206)
    with pytest.raises(UserError, match=r"100 steps and a decay of 120 are more than .* 200; use at most 80 steps"):
        resolved(200, warmup_steps=100, scheduler="warmup-stable-decay", decay_share=0.6)
    with pytest.raises(UserError, match=r"sft\.warmup_steps: 180 steps and a decay of 60"):
        resolved(200, warmup_steps=0.9, scheduler="warmup-stable-decay", decay_share=0.3)


@pytest.mark.parametrize("selects", [{"keep_best": True}, {"early_stopping": {"patience": 2}}])
def test_a_stage_that_selects_by_a_loss_it_never_measures_is_refused(selects):
    with pytest.raises(UserError, match=rf"eval_steps: 1,000 .* `{next(iter(selects))}` has .* here 10 steps"):
        resolved(207, eval_steps=1000, **selects)
    resolved(207, eval_steps=207, **selects)


WARNED = [
    ({"eval_steps": 1000}, "eval_steps: 1,000 gives 0 evaluations in 207 steps; 10, or a share of 0.05"),
    ({"log_steps": 100}, "log_steps: 100 gives 2 logged metrics in 207 steps; 10, or a share of 0.05"),
    ({"save_steps": 1000}, "save_steps: 1,000 makes no checkpoint before the end of 207 steps"),
    ({"eval_rows": 3}, "eval_rows: 3 leaves some of the 8 processes none; use 8"),
]


@pytest.mark.parametrize(("change", "line"), WARNED, ids=[next(iter(change)) for change, _ in WARNED])
def test_a_schedule_that_evaluates_logs_or_saves_too_rarely_gets_a_warning_with_a_value_that_passes(change, line):
    (warning,) = schedule_warnings(resolved(207, **change), validation_rows=100)
    assert line in warning and "\n" not in warning
    (setting,) = change
    better = {"eval_steps": 10, "log_steps": 10, "save_steps": 20, "eval_rows": 8}[setting]
    assert schedule_warnings(resolved(207, **{setting: better}), validation_rows=100) == []


def test_few_validation_rows_are_named_with_the_factor_that_is_missing():
    (line,) = schedule_warnings(resolved(207), validation_rows=5)
    assert "5 validation rows leave some of the 8 processes none; make `validation` 1.6 times as large" in line
    (none,) = schedule_warnings(resolved(207), validation_rows=0)
    assert none.startswith("training.train.sft.data: no validation rows, so no validation loss is measured")
    planned = plan(PlanInputs("sft", stage(eval_steps=1000), a40(), rows=69 * 64, validation_rows=1))
    assert [line.split(":")[0] for line in planned["warnings"]] == [
        f"training.train.sft.{n}" for n in ("eval_steps", "data")
    ]
