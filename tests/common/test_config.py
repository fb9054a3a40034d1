"""scripts/common/config.py: every way to get an experiment file wrong gives one line that names the key."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.cli import UserError
from scripts.common.config import check, read_machine, read_yaml

EXPERIMENTS = sorted(path for path in Path("config").glob("*.yaml") if "schema" not in path.name)


@pytest.fixture
def experiment():
    return read_yaml(Path("config/config.yaml"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=str)
def test_shipped_experiments_pass_and_say_their_command(path):
    check(read_yaml(path), str(path))
    assert "#     snakemake --profile" in path.read_text()


@pytest.mark.parametrize("path", sorted(Path("profiles").iterdir()), ids=str)
def test_each_profile_names_an_experiment_and_a_machine_that_exist(path):
    profile = read_yaml(path / "config.yaml")
    assert Path(profile["configfile"]).is_file()
    read_machine(Path(f"config/machines/{profile['default-resources']['machine']}.yaml"))
    assert Path(path.name).resolve() == path.resolve(), f"`snakemake --profile {path.name}` needs the link {path.name}"


def put(*keys_and_value):
    """An edit that sets a nested key."""
    *keys, last, value = keys_and_value

    def edit(config):
        for key in keys:
            config = config[key]
        config[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (put("sed", 1), "sed: unknown key; did you mean `seed`?"),
        (put("seed", "42"), "seed: '42' is not of type 'integer'"),
        (put("corpus", None), "corpus: None is not of type 'object'"),
        (
            put("corpus", "compose", "code", "fimrate", 1),
            "corpus.compose.code.fimrate: unknown key; did you mean `fim_rate`?",
        ),
        (
            put("corpus", "compose", "code", "kind", "poem"),
            "corpus.compose.code.kind: must be one of code, instruct, chat, text, not 'poem'",
        ),
        (
            put("corpus", "compose", "code", []),
            "corpus.compose.code.kind: must be one of code, instruct, chat, text, not None",
        ),
        (put("corpus", "compose", {}), "corpus.compose: {} should be non-empty"),
        (
            put("corpus", "compose", "instruct", "language", "fr"),
            "corpus.compose.instruct.language: 'fr' is not one of",
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
            "training.train.sft.learning_rate: 0 is less than or equal",
        ),
        (put("training", "train", {}), "training.train: {} should be non-empty"),
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
        (put("training", "train", "sft", "quantize", "8bit"), "training.train.sft.quantize: only with `method: lora`"),
        (put("training", "train", "sft", "lora", {"r": 4}), "training.train.sft.lora: only with `method: lora`"),
        (
            put("corpus", "compose", "code", {"kind": "text", "path": "a", "hub": "b/c"}),
            "corpus.compose.code: give either `path` or `hub`",
        ),
        (put("corpus", "compose", "code", {"kind": "text", "hub": "b/c"}), "corpus.compose.code.revision: required"),
        (lambda config: config.pop("sources"), "sources: required, dataset code is made from repositories"),
        (
            put(
                "corpus", "compose", {"code": {"kind": "chat", "path": "a"}, "instruct": {"kind": "chat", "path": "b"}}
            ),
            "sources: no dataset is made from repositories; leave it out",
        ),
        (put("results", "/somewhere/else"), "results: '/somewhere/else' does not match"),
        (put("results", "results/../.."), "results: 'results/../..' does not match"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(experiment, edit, line):
    edit(experiment)
    with pytest.raises(UserError) as error:
        check(experiment, "x.yaml")
    assert str(error.value).startswith(f"x.yaml: {line}")
    assert "\n" not in str(error.value)


def test_defaults_are_filled_in_without_touching_what_was_given(experiment):
    given = copy.deepcopy(experiment)
    full = check(experiment)
    assert experiment == given
    assert full["corpus"]["filter"]["max_characters"] == 50_000
    assert full["training"]["train"]["sft"]["clip"] == 1.0
    assert full["evaluation"]["gate"]["gates"][0]["language"] == "all"
    assert full["evaluation"]["perplexity"]["datasets"] == ["code", "instruct"]
    assert "fim_rate" not in full["corpus"]["compose"]["instruct"]


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
        [sys.executable, "-m", "scripts.common.config", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"error: {path}: top level: 'corpus' is a required property\n"
