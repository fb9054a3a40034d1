"""scripts/experiment/load.py: every way to get an experiment file wrong gives one line that names the key."""

import copy
import math
from functools import cache
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from tests.experiment.edits import human_ratings, set_key

pytestmark = pytest.mark.fault("an experiment file", "hostile input")

GATE = ("evaluation", "gate", "gates", 0)
LOSS = {"name": "x", "model": "sft", "metric": "loss", "below": 2}


def unscored_chats(config):
    config["corpus"]["compose"]["mine"] = {"kind": "chat", "path": "README.md", "test": 0}
    config["evaluation"]["perplexity"] = {"datasets": ["mine"]}


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (set_key("sed", 1), "sed: unknown key; did you mean `seed`?"),
        (set_key("seed", "42"), "seed: must be a whole number, not '42'"),
        (set_key("seed", 2**32), "seed: must be at most 4294967295, not 4294967296"),
        (
            set_key("corpus", "filter", {"languages": ["C#"]}),
            "corpus.filter.languages.0: must be a language, such as csharp, c, cpp, go, java, python, rust, c_or_cpp,",
        ),
        (set_key("corpus", None), "corpus: must be a mapping of keys, not None"),
        (
            set_key("corpus", "compose", "code", "fimrate", 1),
            "corpus.compose.code.fimrate: unknown key; did you mean `fim_rate`?",
        ),
        (
            set_key("corpus", "compose", "code", "kind", "poem"),
            "corpus.compose.code.kind: must be one of code, instruct, chat, text, not 'poem'",
        ),
        (
            set_key("corpus", "compose", "code", []),
            "corpus.compose.code: must be a mapping of keys, not []",
        ),
        (set_key("corpus", "compose", {}), "corpus.compose: must be a list or mapping of at least 1 entry, not {}"),
        (
            set_key("corpus", "compose", "instruct", "language", "fr"),
            "corpus.compose.instruct.language: must be one of zh, en, not 'fr'",
        ),
        (
            set_key("corpus", "split", {"validation": 0.5, "test": 0.5}),
            "corpus.split: validation and test leave nothing",
        ),
        (
            set_key("training", "train", "sft", "from", "pretain"),
            "training.train.sft.from: no 'pretain' here; known: base, pretrain, sft",
        ),
        (
            set_key("training", "train", "pretrain", "from", "sft"),
            "training.train.pretrain.from: a cycle: pretrain from sft from pretrain",
        ),
        (
            set_key("training", "train", "sft", "data", "chat"),
            "training.train.sft.data: no 'chat' here; known: code, instruct",
        ),
        (set_key("training", "train", "sft", "epochs", 1), "training.train.sft: give either `steps` or `epochs`"),
        (
            set_key("training", "train", "sft", "learning_rate", 0),
            "training.train.sft.learning_rate: must be greater than 0 or `auto`, not 0",
        ),
        (set_key("training", "train", {}), "training.train: must be a list or mapping of at least 1 entry, not {}"),
        (set_key("training", "base", {"model": "scratch"}), "training.base.shape: required"),
        (set_key("training", "base", {"model": "/no/such/folder"}), "training.base.model: no folder"),
        (set_key("training", "base", {"model": "Qwen/Qwen2.5-7B"}), "training.base.revision: required"),
        (set_key("evaluation", "perplexity", "datasets", ["cod"]), "evaluation.perplexity.datasets: no 'cod' here"),
        (
            set_key("evaluation", "perplexity", "context", 5000),
            "evaluation.perplexity.context: 5000 is more than the base's max_position_embeddings 4096",
        ),
        (
            lambda config: config["evaluation"]["gate"]["gates"].append(config["evaluation"]["gate"]["gates"][0]),
            "evaluation.gate.gates.6: the same as an earlier gate; remove one",
        ),
        (
            set_key("evaluation", "perplexity", "stride", 10**6),
            "evaluation.perplexity.stride: 1000000 exceeds `context`",
        ),
        (
            set_key("evaluation", "gate", "gates", 0, "above", 1),
            "evaluation.gate.gates.0: give exactly one of below, above",
        ),
        (set_key("evaluation", "gate", "gates", 0, "model", "sfd"), "evaluation.gate.gates.0.model: no 'sfd' here"),
        (
            set_key("evaluation", "qa", {"datasets": ["code"]}),
            "evaluation.qa.datasets: no 'code' here; known: instruct",
        ),
        (
            set_key("evaluation", "lm_eval", {"tasks": ["a", "a b"]}),
            "evaluation.lm_eval.tasks.1: must be `task` or `task:metric`, not 'a b'",
        ),
        (
            set_key("evaluation", "lm_eval", {"tasks": ["a"], "include_path": "nowhere"}),
            "evaluation.lm_eval.include_path: no folder nowhere",
        ),
        (
            set_key("evaluation", "qa", {"samples": 2}),
            "evaluation.qa.samples: with temperature 0 all samples are the same",
        ),
        (set_key("evaluation", "keywords", {"cases": "no.yaml"}), "evaluation.keywords.cases: no file no.yaml"),
        (
            unscored_chats,
            "corpus.compose.mine.test: 0 leaves nothing to score; raise it, or take mine out of evaluation.perplexity",
        ),
        (
            set_key("evaluation", "gate", "gates", 0, "metric", "f1"),  # its suite does not run
            "evaluation.gate.gates.0.metric: no 'f1' here; known: perplexity, bits_per_byte, lines, ",
        ),
        (
            set_key("evaluation", "human_ratings", {"of": "perplexity"}),
            "evaluation.human_ratings.of: must be one of qa, bleu, keywords, code, not 'perplexity'",
        ),
        (
            set_key("evaluation", "human_ratings", {"of": "qa"}),
            "evaluation.human_ratings.of: qa is not configured; add evaluation.qa",
        ),
        (human_ratings(sheets=["no.csv"]), "evaluation.human_ratings.sheets.0: no.csv: no such file"),
        (
            human_ratings(sheets=["README.md", "./README.md"]),
            "evaluation.human_ratings.sheets.1: ./README.md has the rater's name of README.md; rename one",
        ),
        (
            set_key("training", "train", "sft", "quantize", "8bit"),
            "training.train.sft.quantize: only with `method: lora`",
        ),
        (set_key("training", "train", "sft", "lora", {"r": 4}), "training.train.sft.lora: only with `method: lora`"),
        (
            set_key("corpus", "compose", "code", {"kind": "text", "path": "a", "hub": "b/c"}),
            "corpus.compose.code: give either `path` or `hub`",
        ),
        (
            set_key("corpus", "compose", "code", {"kind": "text", "hub": "b/c"}),
            "corpus.compose.code.revision: required",
        ),
        (
            set_key("training", "base", "shape", "vocab_size", 999),
            "training.base.shape.vocab_size: not with `scratch`",
        ),
        (
            set_key("training", "train", "sft", "learning_rate", "fast"),
            "training.train.sft.learning_rate: must be a number or `auto`, not 'fast'",
        ),
        (
            set_key("training", "train", "sft", "max_grad_norm", True),
            "training.train.sft.max_grad_norm: must be a number, not True",
        ),
        (
            set_key("training", "train", "sft", "warmup_steps", math.inf),
            "training.train.sft.warmup_steps: must be a finite number",
        ),
        (
            set_key("training", "train", "sft", "lora", {"targets": ["q_proj", "q_proj"]}),
            "training.train.sft.lora.targets: q_proj occurs twice",
        ),
        (set_key("training", "train", "Sft", {}), "training.train.Sft: must be text that matches"),
        (
            set_key("training", "train", "base", {"from": "base", "data": "code", "steps": 1, "learning_rate": 1}),
            "training.train.base: this names the base model",
        ),
        (
            set_key("evaluation", "qa", {"datasets": ["instruct", "instruct"]}),
            "evaluation.qa.datasets: instruct occurs twice",
        ),
        (
            set_key("corpus", "filter", {"extensions": {"py": "python"}}),
            "corpus.filter.extensions.py: must be text that matches",
        ),
        (set_key("corpus", "compose", "code", {"kind": "chat"}), "corpus.compose.code: give either `path` or `hub`"),
        (
            set_key("evaluation", "code", {"benchmarks": [{"path": "a", "git": "b"}]}),
            "evaluation.code.benchmarks.0: give `git` and `commit` together",
        ),
        (set_key("extends", 3), "extends: must be text, not 3"),
        (set_key(*GATE, "metric", "loss"), "evaluation.gate.gates.0.dataset: not with `metric: loss`"),
        (set_key(*GATE, {**LOSS, "against": "base"}), "evaluation.gate.gates.0.against: not with `metric: loss`"),
        (set_key(*GATE, {**LOSS, "language": "go"}), "evaluation.gate.gates.0.language: not with `metric: loss`"),
        (
            set_key(*GATE, {**LOSS, "model": "base"}),
            "evaluation.gate.gates.0.model: no 'base' here; known: pretrain, sft",
        ),
        (
            set_key(*GATE, {**LOSS, "metric": "perplexity"}),
            "evaluation.gate.gates.0.dataset: required with `metric: perp",
        ),
        (
            set_key(*GATE, {**LOSS, "metric": "lose"}),
            "evaluation.gate.gates.0.metric: no 'lose' here; known: perplexity,",
        ),
        (lambda config: config.pop("sources"), "sources: required, dataset code is made from repositories"),
        (
            set_key(
                "corpus", "compose", {"code": {"kind": "chat", "path": "a"}, "instruct": {"kind": "chat", "path": "b"}}
            ),
            "sources: no dataset is made from repositories; leave it out",
        ),
        (set_key("results", "/somewhere/else"), "results: must be text that matches ^results"),
        (set_key("results", "results/../.."), "results: must be text that matches ^results"),
    ],
)
def test_a_mistake_is_a_one_line_error_that_names_the_key(experiment, edit, line):
    edit(experiment)
    with pytest.raises(UserError) as error:
        load_experiment(experiment, "x.yaml")
    assert str(error.value).startswith(f"x.yaml: {line}")
    assert "\n" not in str(error.value)


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
def test_a_mixture_of_unknown_datasets_is_refused(experiment, mix, line):
    experiment["tokens"]["mix"] = mix
    with pytest.raises(UserError) as error:
        load_experiment(experiment, "x.yaml")
    assert str(error.value).startswith(f"x.yaml: {line}")


HOSTILE = (
    None,
    "",
    "auto",
    "é\t",
    0,
    -1,
    0.5,
    10**30,
    -(10**30),
    math.inf,
    True,
    [None],
    ["a", "a"],
    {},
    {1: None},
    b"x",
)


def places(value, *keys):
    """The keys of all that lies in a mapping."""
    if keys:
        yield keys
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], *keys, key)


@pytest.mark.parametrize("name", ["config", "experiments/lora-qa", "experiments/qwen2.5-7b-code-dual"])
def test_no_value_in_any_place_of_a_shipped_experiment_is_a_traceback(name, monkeypatch):
    shipped, refused = read_yaml(Path(f"config/{name}.yaml")), 0
    read_once = cache(read_yaml)  # what it extends, thousands of times
    monkeypatch.setattr("scripts.experiment.load.read_yaml", lambda path: copy.deepcopy(read_once(path)))
    for keys in places(shipped):
        for value in HOSTILE:
            config = copy.deepcopy(shipped)
            set_key(*keys, value)(config)
            try:
                load_experiment(config, "x.yaml")
            except UserError as error:
                assert "\n" not in str(error)
                refused += 1
    assert refused > 400
