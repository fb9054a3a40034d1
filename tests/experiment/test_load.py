"""scripts/experiment/load.py: defaults, extensions, and how settings are passed to a script."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.evaluation.suites import scored_models
from scripts.experiment.load import check_owner, extended, load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_dict, to_json
from scripts.experiment.settings.training import Stage
from tests.experiment.edits import human_ratings

SHIPPED = [Path("config/config.yaml"), *sorted(Path("config/experiments").glob("*.yaml"))]
EXPERIMENTS = [*SHIPPED, *sorted(Path("config/smoke").glob("*.yaml"))]


def test_results_of_another_experiment_are_refused_until_they_are_said_to_be_this_ones(experiment, tmp_path):
    mine = load_experiment(experiment).model_copy(update={"results": str(tmp_path / "results")})
    other = mine.model_copy(update={"experiment": "other"})
    check_owner(other)  # a look claims nothing
    check_owner(mine, claim=True)
    check_owner(mine)
    with pytest.raises(UserError, match=f"holds the results of experiment {mine.experiment}, this one is other"):
        check_owner(other, claim=True)
    (tmp_path / "results/work/experiment").unlink()
    check_owner(other, claim=True)
    with pytest.raises(UserError, match="experiment other"):
        check_owner(mine)


@pytest.mark.parametrize("written", ["1e-3", "1E-3", "1.e-3", "0.001", "1.0e-3"])
def test_numbers_that_yaml_1_1_reads_as_text_are_accepted(written):
    """PyYAML reads `1e-3` as text, for want of a dot; users mean the number."""
    text = Path("config/examples/from-scratch.yaml").read_text()
    assert "learning_rate: 1.5e-3" in text
    experiment = yaml.safe_load(text.replace("learning_rate: 1.5e-3", f"learning_rate: {written}"))
    assert load_experiment(experiment).training.train["pretrain"].learning_rate == 0.001


def test_settings_are_unchanged_after_being_passed_to_a_script_as_json(experiment):
    stage = load_experiment(experiment).training.train["sft"]
    assert Stage.from_json(to_json(stage)) == stage
    with pytest.raises(UserError, match=r"^--settings: stepz: unknown key; did you mean `steps`\?$"):
        Stage.from_json('{"from": "base", "data": "code", "learning_rate": 1, "stepz": 3}')
    with pytest.raises(UserError, match=r"^--settings: not JSON"):
        Stage.from_json("{")


def test_an_extension_is_merged_key_by_key_and_null_takes_a_key_away(tmp_path):
    """The reference is the file that says the same at length."""
    middle, top = tmp_path / "middle.yaml", tmp_path / "top.yaml"
    middle.write_text(
        "extends: config/experiments/qwen2.5-7b-code.yaml\ntraining: {train: {sft: {epochs: null, steps: 9000}}}\n"
    )
    top.write_text(f"extends: {middle}\nseed: 7\ncorpus: {{compose: {{notes: {{kind: text, path: docs}}}}}}\n")
    expected = read_yaml(Path("config/experiments/qwen2.5-7b-code.yaml"))
    expected["seed"] = 7
    expected["corpus"]["compose"]["notes"] = {"kind": "text", "path": "docs"}
    del expected["training"]["train"]["sft"]["epochs"]
    expected["training"]["train"]["sft"]["steps"] = 9000
    assert load_experiment(read_yaml(top)) == load_experiment(expected)


@pytest.mark.parametrize(
    ("layer", "place", "gone", "kept"),
    [
        ("training: {base: {model: /tmp}}", "base", {"package", "file", "sha256"}, {"model": "/tmp"}),
        ("training: {train: {own: {epochs: 2}}}", "own", {"steps"}, {"epochs": 2, "precision": "fp32"}),
        ("corpus: {filter: {extensions: {.x: go}}}", "filter", {"languages"}, {"extensions": {".x": "go"}}),
        ("training: {train: {own: {steps: 22}}}", "own", {"epochs"}, {"steps": 22}),
    ],
)
def test_of_keys_that_exclude_each_other_a_layer_s_own_takes_the_place_of_the_other(layer, place, gone, kept):
    whole = extended({"extends": "config/config.yaml", **yaml.safe_load(layer)}, "mine.yaml")
    training = whole["training"]
    found = {"base": training["base"], "own": training["train"]["own"], "filter": whole["corpus"]["filter"]}[place]
    assert not gone & found.keys() and kept.items() <= found.items()


def test_an_error_names_the_file_that_says_what_is_wrong(tmp_path):
    below = tmp_path / "below.yaml"
    below.write_text("extends: config/config.yaml\ntraining: {train: {own: {steps: 0}}}\n")
    above = {"extends": str(below), "corpus": {"split": {"test": 2}}}
    with pytest.raises(UserError, match=rf"^mine\.yaml: training\.train\.own\.steps: .* \({below} says it\)$"):
        load_experiment({"extends": str(below)}, "mine.yaml")
    with pytest.raises(UserError, match=r"^mine\.yaml: corpus\.split\.test: [^(]*$"):
        load_experiment(above, "mine.yaml")


def test_an_extension_that_leads_nowhere_or_in_a_circle_is_a_one_line_error(tmp_path):
    first, second = tmp_path / "one.yaml", tmp_path / "two.yaml"
    first.write_text(f"extends: {second}\n")
    second.write_text(f"extends: {first}\n")
    with pytest.raises(UserError, match=r"one\.yaml: extends: .*two\.yaml extends itself"):
        load_experiment(read_yaml(first), str(first))
    with pytest.raises(UserError, match=r"^none\.yaml: no such file"):
        load_experiment({"extends": "none.yaml"})


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "no such file"),
        (b"", "must hold a mapping"),
        (b"- a\n- b\n", "must hold a mapping"),
        (b"a: [1\n", "not YAML"),
        (b"? [1, 2]\n: 3\n", "line 1: not YAML"),
        (b"a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "line 5: 'c' is there twice"),
        (b"a: 1\nb: 2024-02-30\n", "line 2: not YAML: no such value: '2024-02-30'"),
        (b"\xff\xfe\x00a", "not UTF-8; save it as such"),
        (b"a: " + b"[" * 20_000, "brackets or indentation too deep"),
        (b"a: &x\n  b: *x\n", r"an alias \(\*name\) stands inside what it names"),
        (b"a: !!python/object/apply:os.system ['true']\n", "not YAML"),
    ],
)
def test_an_unreadable_file_is_a_one_line_error(tmp_path, content, line):
    path = tmp_path / "x.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=line) as error:
        read_yaml(path)
    assert "\n" not in str(error.value)


def test_the_command_ends_with_one_line_and_no_traceback(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("experiment: x\n")
    done = subprocess.run(
        [sys.executable, "-m", "scripts.experiment.load", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"error: {path}: corpus: required\n"


def test_a_gate_names_a_dataset_that_the_suite_of_its_metric_scores(experiment):
    experiment["evaluation"] |= {"qa": {}, "keywords": {}}
    gates = [
        {"name": "f1", "dataset": "instruct", "model": "sft", "metric": "f1", "above": 0.5},
        {"name": "words", "dataset": "keywords", "model": "sft", "metric": "keywords", "above": 0.5},
    ]
    experiment["evaluation"]["gate"] = {"gates": gates}
    evaluation = to_dict(load_experiment(experiment))["evaluation"]
    qa = evaluation["qa"]
    assert qa["datasets"] == ["instruct"]  # code has no chats
    assert (qa["max_new_tokens"], qa["repetition_penalty"]) == (40, 1.1)
    assert "bleu" not in evaluation
    gates[0]["dataset"] = "code"
    with pytest.raises(UserError, match=r"gates\.0\.dataset: no 'code' here; known: instruct"):
        load_experiment(experiment)


def test_people_score_all_models_once_a_sheet_is_filled(experiment):
    experiment["evaluation"].pop("completion")
    human_ratings()(experiment)
    evaluation = load_experiment(experiment).evaluation
    assert to_dict(evaluation.human_ratings) == {"of": "qa", "samples": 50, "sheets": []}
    assert list(scored_models(evaluation, ["pretrain", "sft"])) == ["perplexity", "qa"]
    human_ratings(sheets=["README.md"])(experiment)
    actual = scored_models(load_experiment(experiment).evaluation, ["pretrain", "sft"])
    assert actual == {suite: ["base", "pretrain", "sft"] for suite in ("perplexity", "qa", "human_ratings")}


def test_the_order_of_languages_decides_nothing(experiment):
    experiment["corpus"]["filter"]["languages"] = ["rust", "c", "python"]
    first = to_json(load_experiment(experiment, "e").corpus.filter)
    experiment["corpus"]["filter"]["languages"] = ["python", "rust", "c"]
    assert to_json(load_experiment(experiment, "e").corpus.filter) == first
