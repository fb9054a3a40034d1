"""scripts/evaluation/results/inputs.py: no verdict stands on a result that other settings or other files made."""

import json
import shutil
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.results.inputs import check_made_with
from scripts.experiment.reruns.provenance import Provenance, write_provenance
from scripts.experiment.settings.record import to_dict
from tests.evaluation.synthetic import make_experiment, sha

FILTERED = "results/corpus/filter/click/manifest.json"
DEDUPLICATED = "results/corpus/deduplicate/manifest.json"
SPLIT = "results/corpus/split/manifest.json"
TOKENIZER = "results/tokens/tokenizer/manifest.json"
BASE = "results/training/base/manifest.json"
CODE, CHATS = (f"results/corpus/compose/{name}/manifest.json" for name in ("code", "instruct"))


def made(rule: str, output: str, settings: dict | list | None, *inputs: str, **params: object) -> None:
    """Write the output of a job, which is its name, and the provenance; what it read are outputs of others."""
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(output)
    written = {"code": repr("0" * 16)} | {name: repr(value) for name, value in params.items()}
    if settings is not None:
        written["settings"] = repr(settings if isinstance(settings, list) else json.dumps(settings))
    read = {name: sha(name) for name in inputs}
    write_provenance(Provenance(rule, "", written, [], "", read, {output: sha(output)}, {}, {}, 0.0, 1.0))


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = make_experiment([])
    made("filter", FILTERED, to_dict(experiment.corpus.filter), "data/raw/click.json")
    made("deduplicate", DEDUPLICATED, None, FILTERED, keep=[])
    made("split", SPLIT, to_dict(experiment.corpus.split), DEDUPLICATED)
    for output, name in ((CODE, "code"), (CHATS, "instruct")):
        made("compose", output, to_dict(experiment.corpus.compose[name]), SPLIT, seed=42)
    written = ["--settings", json.dumps(to_dict(experiment.tokens.tokenizer))]
    made("tokenizer", TOKENIZER, written, SPLIT)
    scratch = ["--tokenizer", "results/tokens/tokenizer", "--seed", "42"]
    made("base", BASE, to_dict(experiment.training.base), TOKENIZER, scratch=scratch)
    for name, stage in experiment.stages.items():
        before = BASE if stage.origin == "base" else f"results/training/train/{stage.origin}/manifest.json"
        packed = f"results/tokens/pack/{stage.data}-{stage.sequence_length}/manifest.json"
        made("pack", packed, None, CODE if stage.data == "code" else CHATS, TOKENIZER)
        made("train", f"results/training/train/{name}/manifest.json", to_dict(stage), before, packed, seed=42)
    for model in ("base", "pretrain", "sft"):
        for suite in ("perplexity", "qa"):
            settings, read = to_dict(getattr(experiment.evaluation, suite)), BASE
            if model != "base":
                read = f"results/training/train/{model}/manifest.json"
            seed = [] if suite == "perplexity" else ["--seed", "42"]
            made(suite, f"results/evaluation/{suite}/{model}/scores.json", settings, read, CHATS, seed=seed)
    return experiment


def test_what_was_made_with_the_experiments_settings_passes_and_all_of_it_is_named(experiment):
    found = check_made_with(experiment, by_workflow=True)
    assert len(found) == 17
    assert found["results/training/train/sft/manifest.provenance.json"] == f"train {'0' * 16}"
    assert found["results/corpus/filter/click/manifest.provenance.json"] == f"filter {'0' * 16}"


CHANGED = {
    "corpus.filter.min_lines": (7, r"filter/click/manifest\.json: .*min_lines 10 → 7"),
    "corpus.split.test": (0.3, r"split/manifest\.json: .*test 0\.02 → 0\.3"),
    "corpus.compose.instruct.max_characters": (9, r"compose/instruct/manifest\.json: .*max_characters 50000 → 9"),
    "tokens.tokenizer.vocab_size": (300, r"tokens/tokenizer/manifest\.json: .*vocab_size 8192 → 300"),
    "training.base.shape": ({"hidden_size": 8}, r"training/base/manifest\.json: .*hidden_size"),
    "training.train.sft.learning_rate": (7e-4, r"train/sft/manifest\.json: .*learning_rate 0\.001 → 0\.0007"),
    "evaluation.perplexity.documents": (7, r"perplexity/\w+/scores\.json: .*documents 200 → 7"),
    "seed": (7, r"seed .*42.* → .*7"),
}


@pytest.mark.parametrize("key", CHANGED)
def test_what_another_setting_made_is_refused_however_far_it_lies_from_the_verdict(experiment, key):
    value, line = CHANGED[key]
    tokens = {"tokens.tokenizer": {"vocab_size": 8192}} if key.startswith("tokens") else {}
    changes = {"corpus.split": {}, "corpus.filter": {}, "tokens": {"tokenizer": {}}} | tokens | {key: value}
    with pytest.raises(UserError, match=f"{line}.*; run the whole workflow"):
        check_made_with(make_experiment([], changes), by_workflow=True)


@pytest.mark.parametrize("output", [FILTERED, TOKENIZER, CODE, "results/training/train/pretrain/manifest.json"])
def test_a_result_without_provenance_agrees_with_nothing(experiment, tmp_path, output):
    (tmp_path / output).with_suffix(".provenance.json").unlink()
    with pytest.raises(UserError, match=rf"{output}: it has no provenance.*; run the workflow"):
        check_made_with(experiment, by_workflow=True)


def test_what_was_made_from_another_file_than_there_is_is_refused(experiment):
    read = {"results/training/train/pretrain/manifest.json": sha("an older one")}
    params = {"code": repr("0" * 16), "settings": repr(json.dumps(to_dict(experiment.stages["sft"]))), "seed": "42"}
    output = {"results/training/train/sft/manifest.json": sha("results/training/train/sft/manifest.json")}
    write_provenance(Provenance("train", "", params, [], "", read, output, {}, {}, 0.0, 1.0))
    with pytest.raises(UserError, match=r"sft/manifest.json: it was made from another .*pretrain/manifest.json"):
        check_made_with(experiment, by_workflow=True)


SCORED = ["results/training/train/sft/manifest.json", "results/evaluation/qa/base/scores.json", TOKENIZER, SPLIT]


@pytest.mark.parametrize("output", SCORED)
@pytest.mark.parametrize("harm", ["changed", "deleted", "folder deleted"])
def test_a_verdict_stands_on_the_content_that_was_made_and_on_nothing_else(experiment, output, harm):
    path = Path(output)
    if harm == "changed":
        path.write_text(path.read_text().replace("results", "resulte"))
    elif harm == "deleted":
        path.unlink()
    else:
        shutil.rmtree(path.parent)
    line = {"changed": "has another content", "deleted": "is missing"}.get(harm, "has no provenance")
    with pytest.raises(UserError, match=f"{output}:? .*{line}.*run the"):
        check_made_with(experiment, by_workflow=True)


def test_damaged_provenance_is_one_line(experiment, tmp_path):
    path = tmp_path / "results/training/train/sft/manifest.provenance.json"
    path.write_text(path.read_text().replace("0.001", "0.007"))
    with pytest.raises(UserError, match="not what was written"):
        check_made_with(experiment, by_workflow=True)


def test_results_that_were_made_by_hand_have_no_provenance(experiment, tmp_path):
    for path in tmp_path.rglob("*.provenance.json"):
        path.unlink()
    assert check_made_with(experiment, by_workflow=False) == {}
