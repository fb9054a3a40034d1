"""scripts/evaluation/results/inputs.py: eval.json never names other settings than those of its models and scores."""

import json

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.results.inputs import check_made_with
from scripts.experiment.provenance import Provenance, write_provenance
from scripts.experiment.settings.record import to_dict
from tests.evaluation.synthetic import make_experiment


def made(rule: str, output: str, settings: dict) -> None:
    params = {"settings": repr(json.dumps(settings)), "code": repr("0" * 16)}
    write_provenance(Provenance(rule, "", params, [], "", {}, {output: "0" * 64}, {}, {}, 0.0, 1.0))


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = make_experiment([])
    for name, stage in experiment.stages.items():
        made("train", f"results/training/train/{name}/manifest.json", to_dict(stage))
    for model in ("base", "pretrain", "sft"):
        for suite in ("perplexity", "qa"):
            settings = to_dict(getattr(experiment.evaluation, suite))
            made(suite, f"results/evaluation/{suite}/{model}/scores.json", settings)
    return experiment


def test_what_was_made_with_the_experiments_settings_passes_and_is_named(experiment):
    found = check_made_with(experiment)
    assert len(found) == 8
    assert found["results/training/train/sft/manifest.provenance.json"] == f"train {'0' * 16}"


def test_a_stage_that_was_trained_with_another_learning_rate_is_refused(experiment):
    other = make_experiment([], {"training.train.sft.learning_rate": 7e-4})
    with pytest.raises(UserError, match=r"train/sft/manifest\.json: .*learning_rate 0\.001 → 0\.0007; run"):
        check_made_with(other)


def test_scores_of_other_settings_are_refused(experiment):
    other = make_experiment([], {"evaluation.perplexity.documents": 7})
    with pytest.raises(UserError, match=r"perplexity/base/scores\.json: .*documents 200 → 7"):
        check_made_with(other)


def test_damaged_provenance_is_one_line(experiment, tmp_path):
    path = tmp_path / "results/training/train/sft/manifest.provenance.json"
    path.write_text(path.read_text().replace("0.001", "0.007"))
    with pytest.raises(UserError, match="not what was written"):
        check_made_with(experiment)


def test_without_provenance_there_is_nothing_to_contradict(experiment, tmp_path):
    for path in tmp_path.rglob("*.provenance.json"):
        path.unlink()
    assert check_made_with(experiment) == {}
