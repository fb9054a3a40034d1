"""The tiny model of the suites' tests, as a trained stage of an experiment with training code to retrieve from."""

import shutil
from pathlib import Path

import pytest

from scripts.common.files import write_jsonl
from scripts.experiment.layout import Layout
from tests.evaluation.conftest import TEXTS, datasets, model_folder, one_thread
from tests.evaluation.synthetic import make_experiment

__all__ = ["datasets", "model_folder", "one_thread"]


@pytest.fixture(scope="module")
def experiment():
    return make_experiment([], {"evaluation.perplexity.retrieval": {"datasets": ["code"]}})


@pytest.fixture(scope="module")
def layout(tmp_path_factory, model_folder) -> Layout:
    """The results of the experiment: model `sft`, and half of the texts to train on."""
    found = Layout(Path(tmp_path_factory.mktemp("served") / "results"))
    shutil.copytree(model_folder, found.model("sft"))
    train = [{"id": name, "text": text} for name, (_, text) in list(TEXTS.items())[::2]]
    write_jsonl(found.dataset("code") / "train.jsonl.zst", train)
    return found
