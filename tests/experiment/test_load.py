"""scripts/experiment/load.py: every way to get an experiment file wrong gives one line that names the key."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.common.cli import UserError
from scripts.evaluation.metrics.registry import suites
from scripts.evaluation.results.latency_figures import METRICS as TIMED
from scripts.experiment import fingerprint
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_dict, to_json
from scripts.experiment.settings.training import Stage
from scripts.experiment.suites import METRICS, configured, scored_models

SHIPPED = [Path("config/config.yaml"), *sorted(Path("config/experiments").glob("*.yaml"))]
EXPERIMENTS = [*SHIPPED, *sorted(Path("config/smoke").glob("*.yaml"))]


@pytest.fixture
def experiment():
    return read_yaml(Path("config/config.yaml"))


GATE = ("evaluation", "gate", "gates", 0)
LOSS = {"name": "x", "model": "sft", "metric": "loss", "below": 2}


def put(*keys_and_value):
    """An edit that sets a nested key."""
    *keys, last, value = keys_and_value

    def edit(config):
        for key in keys:
            config = config[key]
        config[last] = value

    return edit


def human(gate=(), **keys):
    """An edit that has people rate the answers of `qa`, with a gate on it."""

    def edit(config):
        config["evaluation"] |= {"qa": {}, "human": {"of": "qa", **keys}}
        planted = {"name": "x", "dataset": "instruct", "model": "sft", "metric": "correct", "above": 0.8}
        config["evaluation"]["gate"]["gates"] = [planted | dict(gate)]

    return edit


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (put("sed", 1), "sed: unknown key; did you mean `seed`?"),
        (put("seed", "42"), "seed: must be a whole number, not '42'"),
        (put("corpus", None), "corpus: must be a mapping of keys, not None"),
        (
            put("corpus", "compose", "code", "fimrate", 1),
            "corpus.compose.code.fimrate: unknown key; did you mean `fim_rate`?",
        ),
        (
            put("corpus", "compose", "code", "kind", "poem"),
            "corpus.compose.code.kind: must be one of code, repository, instruct, chat, text, not 'poem'",
        ),
        (
            put("corpus", "compose", "code", []),
            "corpus.compose.code: must be a mapping of keys, not []",
        ),
        (put("corpus", "compose", {}), "corpus.compose: must be a list or mapping of at least 1 entry, not {}"),
        (
            put("corpus", "compose", "instruct", "language", "fr"),
            "corpus.compose.instruct.language: must be one of zh, en, not 'fr'",
        ),
        (put("corpus", "split", {"validation": 0.5, "test": 0.5}), "corpus.split: validation and test leave nothing"),
        (
            put("training", "train", "sft", "from", "pretain"),
            "training.train.sft.from: no 'pretain' here; known: base, pretrain, sft",
        ),
        (
            put("training", "train", "pretrain", "from", "sft"),
            "training.train.pretrain.from: a cycle: pretrain from sft from pretrain",
        ),
        (
            put("training", "train", "sft", "data", "chat"),
            "training.train.sft.data: no 'chat' here; known: code, instruct",
        ),
        (put("training", "train", "sft", "epochs", 1), "training.train.sft: give either `steps` or `epochs`"),
        (
            put("training", "train", "sft", "learning_rate", 0),
            "training.train.sft.learning_rate: must be greater than 0 or `auto`, not 0",
        ),
        (put("training", "train", {}), "training.train: must be a list or mapping of at least 1 entry, not {}"),
        (put("training", "base", {"model": "scratch"}), "training.base.shape: required"),
        (put("training", "base", {"model": "/no/such/folder"}), "training.base.model: no folder"),
        (put("training", "base", {"model": "Qwen/Qwen2.5-7B"}), "training.base.revision: required"),
        (put("evaluation", "perplexity", "datasets", ["cod"]), "evaluation.perplexity.datasets: no 'cod' here"),
        (put("evaluation", "perplexity", "stride", 10**6), "evaluation.perplexity.stride: 1000000 exceeds `context`"),
        (
            put("evaluation", "gate", "gates", 0, "above", 1),
            "evaluation.gate.gates.0: give exactly one of below, above",
        ),
        (put("evaluation", "gate", "gates", 0, "model", "sfd"), "evaluation.gate.gates.0.model: no 'sfd' here"),
        (put("evaluation", "qa", {"datasets": ["code"]}), "evaluation.qa.datasets: no 'code' here; known: instruct"),
        (put("evaluation", "qa", {"samples": 2}), "evaluation.qa.samples: with temperature 0 all samples are the same"),
        (
            put("evaluation", "bleu", {"beams": 2, "temperature": 1}),
            "evaluation.bleu.beams: a beam search does not sample",
        ),
        (put("evaluation", "keywords", {"cases": "no.yaml"}), "evaluation.keywords.cases: no file no.yaml"),
        (
            put("evaluation", "gate", "gates", 0, "metric", "f1"),  # its suite does not run
            "evaluation.gate.gates.0.metric: no 'f1' here; known: perplexity, bits_per_byte, completion_match, ",
        ),
        (
            put("evaluation", "human", {"of": "perplexity"}),
            "evaluation.human.of: must be one of qa, bleu, keywords, code, not 'perplexity'",
        ),
        (put("evaluation", "human", {"of": "qa"}), "evaluation.human.of: qa is not configured; add evaluation.qa"),
        (human(models=["sfd"]), "evaluation.human.models: no 'sfd' here; known: base, pretrain, sft"),
        (human(datasets=["code"]), "evaluation.human.datasets: no 'code' here; known: instruct"),
        (human(sheets=["no.csv"]), "evaluation.human.sheets.0: no.csv: no such file"),
        (
            human(sheets=["README.md", "./README.md"]),
            "evaluation.human.sheets.1: ./README.md has the rater's name of README.md; rename one",
        ),
        (
            human(models=["sft"], gate={"model": "base"}),
            "evaluation.gate.gates.0.model: no 'base' here; known: sft",
        ),
        (put("training", "train", "sft", "quantize", "8bit"), "training.train.sft.quantize: only with `method: lora`"),
        (put("training", "train", "sft", "lora", {"r": 4}), "training.train.sft.lora: only with `method: lora`"),
        (
            put("corpus", "compose", "code", {"kind": "text", "path": "a", "hub": "b/c"}),
            "corpus.compose.code: give either `path` or `hub`",
        ),
        (put("corpus", "compose", "code", {"kind": "text", "hub": "b/c"}), "corpus.compose.code.revision: required"),
        (
            put("training", "base", "shape", "vocab_size", 999),
            "training.base.shape.vocab_size: not with `scratch`",
        ),
        (
            put("training", "train", "sft", "learning_rate", "fast"),
            "training.train.sft.learning_rate: must be a number or `auto`, not 'fast'",
        ),
        (put("training", "train", "sft", "clip", True), "training.train.sft.clip: must be a number, not True"),
        (put("training", "train", "Sft", {}), "training.train.Sft: must be text that matches"),
        (
            put("training", "train", "base", {"from": "base", "data": "code", "steps": 1, "learning_rate": 1}),
            "training.train.base: this names the base model",
        ),
        (
            put("evaluation", "qa", {"datasets": ["instruct", "instruct"]}),
            "evaluation.qa.datasets: instruct occurs twice",
        ),
        (
            put("corpus", "filter", {"extensions": {"py": "python"}}),
            "corpus.filter.extensions.py: must be text that matches",
        ),
        (put("corpus", "compose", "code", {"kind": "chat"}), "corpus.compose.code: give either `path` or `hub`"),
        (
            put("evaluation", "code", {"benchmarks": [{"path": "a", "git": "b"}]}),
            "evaluation.code.benchmarks.0: give `git` and `commit` together",
        ),
        (put("extends", 3), "extends: must be text, not 3"),
        (put(*GATE, "metric", "loss"), "evaluation.gate.gates.0.dataset: not with `metric: loss`"),
        (put(*GATE, {**LOSS, "against": "base"}), "evaluation.gate.gates.0.against: not with `metric: loss`"),
        (put(*GATE, {**LOSS, "language": "go"}), "evaluation.gate.gates.0.language: not with `metric: loss`"),
        (put(*GATE, {**LOSS, "model": "base"}), "evaluation.gate.gates.0.model: no 'base' here; known: pretrain, sft"),
        (put(*GATE, {**LOSS, "metric": "perplexity"}), "evaluation.gate.gates.0.dataset: required with `metric: perp"),
        (put(*GATE, {**LOSS, "metric": "lose"}), "evaluation.gate.gates.0.metric: no 'lose' here; known: perplexity,"),
        (lambda config: config.pop("sources"), "sources: required, dataset code is made from repositories"),
        (
            put(
                "corpus", "compose", {"code": {"kind": "chat", "path": "a"}, "instruct": {"kind": "chat", "path": "b"}}
            ),
            "sources: no dataset is made from repositories; leave it out",
        ),
        (put("results", "/somewhere/else"), "results: must be text that matches ^results"),
        (put("results", "results/../.."), "results: must be text that matches ^results"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(experiment, edit, line):
    edit(experiment)
    with pytest.raises(UserError) as error:
        load_experiment(experiment, "x.yaml")
    assert str(error.value).startswith(f"x.yaml: {line}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("training", "tokens", "line"),
    [
        (True, {"sequence_lengths": [512]}, "tokens.sequence_lengths: only without `training`"),
        (True, {"tokenizer": {"folder": "a"}}, "tokens.tokenizer.folder: only without `training`"),
        (False, {"tokenizer": {"folder": "a"}}, "tokens.tokenizer.folder: no file a/tokenizer.json"),
        (False, {"tokenizer": {"folder": "a", "vocab_size": 999}}, "tokens.tokenizer.folder: give either this, or"),
        (False, {"sequence_lengths": []}, "tokens.sequence_lengths: must be a list or mapping of at least 1 entry"),
        (False, {"sequence_lengths": [512, 512]}, "tokens.sequence_lengths: 512 occurs twice"),
        (False, {"sequence_lengths": [8]}, "tokens.sequence_lengths.0: must be at least 16, not 8"),
        (False, {"sequence_lengths": 512}, "tokens.sequence_lengths: must be a list, not 512"),
    ],
)
def test_what_is_for_data_alone_is_refused_beside_training(experiment, training, tokens, line):
    experiment["tokens"] = tokens
    if not training:
        del experiment["training"]
    with pytest.raises(UserError) as error:
        load_experiment(experiment, "x.yaml")
    assert str(error.value).startswith(f"x.yaml: {line}")


@pytest.mark.parametrize(
    ("mix", "line"),
    [
        (
            {"code": {"parts": {"code": {"weight": 1}}}},
            "tokens.mix.code: this names a dataset; give the mixture another",
        ),
        ({"m": {"parts": {"cod": {"weight": 1}}}}, "tokens.mix.m.parts: no 'cod' here; known: code, instruct"),
        ({"m": {"parts": {}}}, "tokens.mix.m.parts: must be a list or mapping of at least 1 entry"),
        ({"m": {"parts": {"code": {"weight": 0}}}}, "tokens.mix.m.parts.code.weight: must be greater than 0, not 0"),
        ({"m": {"parts": {"code": {}}}}, "tokens.mix.m.parts.code.weight: required"),
    ],
)
def test_a_mixture_of_what_is_not_there_is_refused(experiment, mix, line):
    experiment["tokens"]["mix"] = mix
    with pytest.raises(UserError) as error:
        load_experiment(experiment, "x.yaml")
    assert str(error.value).startswith(f"x.yaml: {line}")


def test_without_training_nothing_is_evaluated_whatever_the_file_says(experiment):
    del experiment["training"]
    loaded = load_experiment(experiment)
    assert loaded.stages == {} and configured(loaded.evaluation) == {} and loaded.evaluation.gate.gates == []


@pytest.mark.parametrize("written", ["1e-3", "1E-3", "1.e-3", "0.001", "1.0e-3"])
def test_a_number_may_be_written_as_yaml_1_1_reads_as_text(written):
    """PyYAML reads `1e-3` as text, for want of a dot; users mean the number."""
    text = Path("config/config.yaml").read_text()
    assert "learning_rate: 1.5e-3" in text
    experiment = yaml.safe_load(text.replace("learning_rate: 1.5e-3", f"learning_rate: {written}"))
    assert load_experiment(experiment).training.train["pretrain"].learning_rate == 0.001


def test_settings_survive_the_way_to_a_script_as_json(experiment):
    stage = load_experiment(experiment).training.train["sft"]
    assert Stage.from_json(to_json(stage)) == stage
    with pytest.raises(UserError, match=r"^--settings: stepz: unknown key; did you mean `steps`\?$"):
        Stage.from_json('{"from": "base", "data": "code", "learning_rate": 1, "stepz": 3}')
    with pytest.raises(UserError, match=r"^--settings: not JSON"):
        Stage.from_json("{")


def test_the_code_of_a_training_stage_holds_nothing_of_evaluation():
    """A changed suite must not rerun a stage: the stage's fingerprint covers all modules that it imports."""
    modules = fingerprint.reach("scripts.training.train").modules
    assert "scripts.training.engine.checkpoints" in modules
    assert not [module for module in modules if "evaluation" in module or "suites" in module or "gates" in module]


def test_defaults_are_filled_in_without_touching_what_was_given(experiment):
    given = copy.deepcopy(experiment)
    full = to_dict(load_experiment(experiment))
    assert experiment == given
    assert full["corpus"]["filter"]["max_characters"] == 50_000
    assert full["training"]["train"]["sft"]["clip"] == 1.0
    assert full["evaluation"]["gate"]["gates"][0]["language"] == "all"
    assert full["evaluation"]["perplexity"]["datasets"] == ["code", "instruct"]
    assert "fim_rate" not in full["corpus"]["compose"]["instruct"]


def test_an_extension_is_merged_key_by_key_and_null_takes_a_key_away(tmp_path):
    """The reference is the file that says the same at length."""
    middle, top = tmp_path / "middle.yaml", tmp_path / "top.yaml"
    middle.write_text(
        "extends: config/experiments/qwen2.5-7b-code.yaml\ntraining: {train: {sft: {epochs: null, steps: 9000}}}\n"
    )
    top.write_text(f"extends: {middle}\nseed: 7\ncorpus: {{compose: {{notes: {{kind: text, path: docs}}}}}}\n")
    said = read_yaml(Path("config/experiments/qwen2.5-7b-code.yaml"))
    said["seed"] = 7
    said["corpus"]["compose"]["notes"] = {"kind": "text", "path": "docs"}
    del said["training"]["train"]["sft"]["epochs"]
    said["training"]["train"]["sft"]["steps"] = 9000
    assert load_experiment(read_yaml(top)) == load_experiment(said)


def test_an_extension_that_leads_nowhere_or_in_a_circle_is_one_line(tmp_path):
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(f"extends: {two}\n")
    two.write_text(f"extends: {one}\n")
    with pytest.raises(UserError, match=r"one\.yaml: extends: .*two\.yaml extends itself"):
        load_experiment(read_yaml(one), str(one))
    with pytest.raises(UserError, match=r"^none\.yaml: no such file"):
        load_experiment({"extends": "none.yaml"})


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "no such file"),
        (b"", "must hold a mapping"),
        (b"- a\n- b\n", "must hold a mapping"),
        (b"a: [1\n", "not YAML"),
        (b"\xff\xfe\x00a", "not YAML"),
        (b"a: !!python/object/apply:os.system ['true']\n", "not YAML"),
    ],
)
def test_an_unreadable_file_is_one_line(tmp_path, content, line):
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
        {"name": "words", "dataset": "keywords", "model": "sft", "metric": "structure", "above": 0.5},
    ]
    experiment["evaluation"]["gate"] = {"gates": gates}
    found = to_dict(load_experiment(experiment))["evaluation"]
    assert found["qa"]["datasets"] == ["instruct"]  # code has no chats
    assert (found["qa"]["max_new_tokens"], found["qa"]["repetition_penalty"], found["qa"]["beams"]) == (40, 1.1, 1)
    assert "bleu" not in found
    gates[0]["dataset"] = "code"
    with pytest.raises(UserError, match=r"gates\.0\.dataset: no 'code' here; known: instruct"):
        load_experiment(experiment)


def test_people_rate_all_models_on_all_datasets_by_default_and_score_once_a_sheet_is_filled(experiment):
    experiment["evaluation"].pop("completion")
    human()(experiment)
    evaluation = load_experiment(experiment).evaluation
    wanted = {"of": "qa", "models": ["base", "pretrain", "sft"], "datasets": ["instruct"], "samples": 50, "sheets": []}
    assert to_dict(evaluation.human) == wanted
    assert list(scored_models(evaluation, ["pretrain", "sft"])) == ["perplexity", "qa"]
    human(models=["sft"], sheets=["README.md"])(experiment)
    actual = scored_models(load_experiment(experiment).evaluation, ["pretrain", "sft"])
    assert actual == {"perplexity": ["base", "pretrain", "sft"], "qa": ["base", "pretrain", "sft"], "human": ["sft"]}


def test_the_table_of_suites_has_the_metrics_that_the_configuration_knows():
    found = suites(METRICS, ks=[1, 10])
    expected = METRICS | {"code": ("pass@1", "pass@10")}
    assert {name: tuple(suite.metrics) for name, suite in found.items()} | {"latency": tuple(TIMED)} == expected
