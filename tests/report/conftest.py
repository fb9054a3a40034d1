"""A results tree that is evaluated, with gates of every outcome and names that mean harm."""

import pytest

from scripts.common.files import write_json
from scripts.evaluation.gate import evaluate
from scripts.evaluation.inputs import gather
from scripts.report.plots import draw
from tests.evaluation.synthetic import CODES, LEVELS, SOURCES, build, gate, make_items, sha, write_model

HOSTILE = '<script>alert("$x$")</script>'
GATES = [
    gate("训练有效", model="pretrain", against="base", below=0),
    gate(f"hostile {HOSTILE}", below=0.3),
    gate("close", metric="perplexity", model="pretrain", below=20),
]


def make(root, gates=GATES, fail=False, **keys):
    """Build the tree, evaluate it, draw its pictures; return the results root."""
    experiment = build(root, gates, **keys)
    experiment["evaluation"]["gate"]["fail"] = fail
    results = root / "results"
    for model, level in LEVELS.items():
        items = make_items(model, keys.get("documents", 10), level)
        items[0] |= {"id": HOSTILE, "nll": 9.0 * items[0]["bytes"]}  # the worst there is, so the page shows it
        write_model(root, model, items, {"code": sha("code"), "instruct": sha("instruct")})
    inputs = gather(experiment, SOURCES, CODES, results, root / "data/raw")
    write_json(
        results / "evaluation/gate/eval.json",
        {"experiment": "synthetic", **evaluate(experiment, results), "inputs": inputs},
    )
    draw(results, results / "report/plots")
    return results


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture
def make_results(tmp_path):
    return lambda *args, **keys: make(tmp_path, *args, **keys)
