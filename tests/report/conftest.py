"""A results tree that is evaluated, with gates of every outcome and names that mean harm, and its page."""

import shutil
from html.parser import HTMLParser

import pytest

from scripts.common.files import write_json
from scripts.evaluation.gate import evaluate
from scripts.evaluation.results.inputs import gather
from scripts.report.page import render
from tests.evaluation.synthetic import (
    CODES,
    LEVELS,
    SOURCES,
    build,
    gate,
    make_items,
    sha,
    write_baselines,
    write_model,
)

HOSTILE = '<script>alert("$x$")</script>'
GATES = [
    gate("训练有效", model="pretrain", against="base", below=0),
    gate(f"hostile {HOSTILE}", below=0.3),
    gate("close", metric="perplexity", model="pretrain", below=20),
]
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and sees that what is opened is closed."""

    def __init__(self, html: str):
        super().__init__()
        self.open, self.tags, self.attributes, self.text, self.ids = [], [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text.append(data)


def make(root, gates=GATES, fail=False, **keys):
    """Build the tree and evaluate it; return the results root."""
    experiment = build(root, gates, changes={"evaluation.gate.fail": fail}, **keys)
    results = root / "results"
    for model, level in LEVELS.items():
        items = make_items(model, keys.get("documents", 10), level)
        items[0] |= {"id": HOSTILE, "nll": 9.0 * items[0]["bytes"]}  # the worst there is, so the page shows it
        write_model(root, model, items, {"code": sha("code"), "instruct": sha("instruct")})
        write_baselines(root, items)
    inputs = gather(experiment, SOURCES, CODES, results, root / "data/raw")
    write_json(
        results / "evaluation/gate/eval.json",
        {"experiment": "synthetic", **evaluate(experiment, results), "inputs": inputs},
    )
    return results


@pytest.fixture(scope="session")
def results_root(tmp_path_factory):
    """An evaluated tree, which no test changes."""
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture
def make_results(results_root, tmp_path):
    """A copy of the results with these gates and keys."""

    def make_own(*args, **keys):
        if not args and not keys:
            return shutil.copytree(results_root.parent, tmp_path, dirs_exist_ok=True) / "results"
        return make(tmp_path, *args, **keys)

    return make_own


@pytest.fixture(scope="session")
def html(results_root):
    return render(results_root)


@pytest.fixture(scope="session")
def page(html):
    return Page(html)
