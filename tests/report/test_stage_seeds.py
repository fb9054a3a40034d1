"""A stage with seeds in eval.json and on the page: over seeds and documents, all seeds its inputs."""

import numpy as np
import pytest

from scripts.common.files import write_json
from scripts.evaluation.gate import evaluate
from scripts.evaluation.results.inputs import gather
from scripts.report.page import render
from tests.evaluation import synthetic
from tests.evaluation.synthetic import CODES, SOURCES, build, dump, gate
from tests.report.conftest import Page

pytestmark = pytest.mark.slow  # scores three trees and draws one page

LEVELS = {**synthetic.LEVELS, "sft.seed7": 1.3, "sft.seed8": 1.2}
BETTER = gate("chats improve", dataset="instruct", against="base", below=0)
LOSS = {"name": "loss", "model": "sft", "language": "all", "metric": "loss", "below": 2.4}


@pytest.fixture
def seeded(tmp_path, monkeypatch):
    """A results root whose stage sft has three seeds, and its experiment."""
    monkeypatch.setattr(synthetic, "RIGHT", synthetic.RIGHT | {"sft.seed7": 4, "sft.seed8": 5})
    changes = {"training.train.sft.seeds": [42, 7, 8]}
    experiment, results = build(tmp_path, [BETTER, LOSS], levels=LEVELS, changes=changes), tmp_path / "results"
    for model, loss in (("sft.seed7", 2.5), ("sft.seed8", 2.3)):
        dump(results / f"training/train/{model}/summary.json", {"seconds": 10, "tokens": 1, "eval_loss": loss})
        dump(results / f"training/train/{model}/environment.json", {"gpus": [], "git_commit": "f" * 40})
    return experiment, results


def test_scores_gates_and_comparisons_of_the_stage_are_over_its_seeds(seeded):
    evaluation = evaluate(*seeded)
    assert set(evaluation["scores"]) == {"base", "pretrain", "sft"}
    score = evaluation["scores"]["sft"]["qa"]["instruct"]["all"]
    assert score["documents"] == 30 and score["exact_match"]["seeds"] == pytest.approx([0.6, 0.4, 0.5])
    assert score["exact_match"]["value"] == pytest.approx(0.5)
    better, loss = evaluation["gates"]
    assert better["outcome"] == "met" and len(better["seeds"]) == 3 and better["documents"] == 30
    assert better["value"] == pytest.approx(np.mean(better["seeds"]))
    assert (loss["value"], loss["outcome"]) == (2.5, "not met")  # that of the worst seed
    pairs = {(row["model"], row["against"]) for row in evaluation["comparisons"]}
    assert pairs == {("pretrain", "base"), ("sft", "pretrain"), ("sft", "base")}
    assert list(evaluation["stages"]["sft"]["seeds"]) == ["sft", "sft.seed7", "sft.seed8"]
    assert {"sft.seed7", "sft.seed8"} <= set(evaluation["scoring"])


def test_the_page_says_over_how_many_seeds_and_documents(seeded):
    experiment, results = seeded
    inputs = gather(experiment, SOURCES, CODES, results, results.parent / "data/raw")
    evaluation = {"experiment": "synthetic", **evaluate(experiment, results), "inputs": inputs}
    write_json(results / "evaluation/gate/eval.json", evaluation)
    page_text = " ".join(" ".join(Page(render(results)).text).split())
    assert "sft - base, bits per byte, instruct, over 3 seeds and 30 documents" in page_text
    assert "of sft (3 seeds) what training with other seeds would, too" in page_text
    assert "to -0." in page_text
    assert "Training took 45 s" in page_text  # of all seeds
