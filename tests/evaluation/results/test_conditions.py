"""Retrieve, fine-tune, both or neither: what is said of items whose differences are known."""

import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.conditions import answer, compare_conditions, question_of, stated
from scripts.evaluation.results.intervals import estimate
from scripts.evaluation.results.items import Documents
from scripts.evaluation.suites.perplexity import SUITE
from scripts.experiment.layout import Layout
from tests.evaluation.synthetic import make_experiment

BYTES = 1000  # of each file, so that bits per byte is a plain mean of files
MODELS = ["base", "pretrain", "sft"]
COMPRESSORS = {"code": {"compressor": {"value": 3.0, "interval": [2.9, 3.1]}}}


def experiment(retrieval=True):
    changes = {"evaluation.perplexity.datasets": ["code", "other"]}
    if retrieval:
        changes["evaluation.perplexity.retrieval"] = {"datasets": ["code"]}
        changes["evaluation.completion"] = {"dataset": "code", "retrieval": True}
    return make_experiment([], changes)


def answers(names, model):
    """Items of suite `completion`, two of each file; retrieval adds 0.2 to the similarity, and pretraining 0.1."""
    items = []
    for number, name in enumerate(names):
        for line in (1, 2):
            similarity = 0.4 + 0.01 * number + 0.1 * (model == "pretrain")
            after = {"figures": {"edit_similarity": similarity + 0.2}}
            items.append({"id": f"{name}:{line}-{line}", "edit_similarity": similarity, "retrieval": after})
    return items


def question(tmp_path, retrieval, tuning, both, files=16, noise=0.02, elsewhere=0.0, settings=None):
    """The question, and bits per byte by condition, of files with these true differences from the base."""
    generator = np.random.default_rng(3)
    level = generator.normal(1.2, 0.3, files)

    def bits(change):
        return level + change + generator.normal(0, noise, files)

    alone = {"base": level, "pretrain": bits(tuning), "sft": bits(tuning)}
    after = {"base": bits(retrieval), "pretrain": bits(both), "sft": bits(both)}
    names = [f"s/{number}.py" for number in range(files)]
    layout = Layout(tmp_path)
    for model in MODELS:
        items = []
        for name, one, other in zip(names, alone[model], after[model], strict=True):
            item = {"dataset": "code", "id": name, "language": "python", "tokens": 300, "bytes": BYTES}
            nats = math.log(2) * BYTES
            item |= {"names": 50, "names_right": 20 + len(items) % 3, "names_right_retrieval": 30}
            items.append(item | {"nll": float(one * nats), "nll_retrieval": float(other * nats)})
        write_jsonl(layout.suite("perplexity", model) / "items.jsonl.zst", items)
        write_jsonl(layout.suite("completion", model) / "items.jsonl.zst", answers(names, model))

    def documents(values):
        columns = []
        for model in MODELS:
            ones = np.ones(files)
            columns += [values[model] * math.log(2) * BYTES, 300 * ones, BYTES * ones, ones]
        return Documents(names, np.array(["python"] * files), np.stack(columns, axis=1), np.arange(files))

    other = {model: level + (elsewhere + generator.normal(0, noise, files)) * (model != "base") for model in MODELS}
    scored = {"code": documents(alone), "other": documents(other)}
    comparison = SuiteComparison(SUITE, scored, MODELS, 0.95)
    found = compare_conditions(settings or experiment(), layout, comparison, scored, COMPRESSORS)
    values = {"base": alone["base"], "pretrain": alone["pretrain"], "other": other["pretrain"]}
    return found, values | {"base + retrieval": after["base"], "pretrain + retrieval": after["pretrain"]}


def test_differences_are_paired_and_their_p_corrected_for_all_of_them(tmp_path):
    found, bits = question(tmp_path, -0.05, -0.1, -0.13, elsewhere=0.01)
    expected, rows = [], found["rows"]
    for row in rows:
        model = "other" if row["name"] == "elsewhere" else row["model"]
        pair = bits[model], bits[row["against"]]
        expected.append(estimate(pair[0] - pair[1], 16, 0.95).p)
        assert row["value"] == pytest.approx(float(np.mean(pair[0] - pair[1])))
    assert [row["p"] for row in rows] == pytest.approx(expected)
    assert [row["holm"] for row in rows] == pytest.approx(multipletests(expected, method="holm")[1])
    assert [row["name"] for row in found["conditions"]][:2] == ["compressor", "base"]
    names = {row["name"]: row["names"] for row in found["conditions"] if "names" in row}
    shares = (20 + np.arange(16) % 3) / 50
    assert names["base"]["value"] == pytest.approx(shares.mean())
    expected = estimate(shares, 16, 0.95).interval
    assert names["base"]["interval"] == pytest.approx(list(expected))
    assert names["base + retrieval"]["value"] == pytest.approx(0.6)
    written = {row["name"]: row["written"] for row in found["conditions"] if "written" in row}
    similarities = 0.4 + 0.01 * np.arange(16)  # of the files: two tasks of one file are no two
    expected = estimate(similarities, 16, 0.95).interval
    for name, change in {"base": 0, "base + retrieval": 0.2, "pretrain": 0.1, "pretrain + retrieval": 0.3}.items():
        assert written[name]["value"] == pytest.approx(similarities.mean() + change)
        assert written[name]["interval"] == pytest.approx([bound + change for bound in expected])


ANSWERS = {
    "both": ((-0.05, -0.1, -0.13), "Do both."),
    "retrieve": ((-0.1, 0.0, -0.1), "Retrieve; fine-tuning is not shown to add to it."),
    "fine-tune": ((0.0, -0.1, -0.1), "Fine-tune; retrieval is not shown to add to it."),
    "neither": ((0.1, 0.1, 0.2), "Do neither: both make it worse."),
    "cannot tell": ((0.0, 0.0, 0.0), "So few files cannot tell which helps."),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_sentence_says_what_the_corrected_p_shows(tmp_path, name):
    changes, words = ANSWERS[name]
    found, _ = question(tmp_path, *changes)
    assert found["answer"] == name
    assert found["sentence"].endswith(words)
    for row in found["rows"]:
        assert (row["direction"] == "cannot tell") == (row["holm"] > 0.05)
        assert found["sentence"].count("cannot tell") >= (row["name"] == "retrieval" and row["holm"] > 0.05)


def test_what_one_test_alone_would_show_is_not_told_where_many_were_made(tmp_path):
    for files in range(8, 20):
        found, _ = question(tmp_path, -0.02, -0.02, -0.02, files=files, noise=0.03)
        uncorrected = [row for row in found["rows"] if row["p"] < 0.05 < row["holm"]]
        if uncorrected:
            assert {row["direction"] for row in uncorrected} == {"cannot tell"}
            return
    raise AssertionError("no case was drawn in which the correction matters")


def test_too_few_files_have_no_interval_and_no_answer(tmp_path):
    found, _ = question(tmp_path, -0.1, -0.1, -0.2, files=4)
    assert found["answer"] == "cannot tell"
    assert "too few files for an interval" in found["sentence"]


def test_without_retrieval_the_answer_is_about_fine_tuning_alone(tmp_path):
    found, _ = question(tmp_path, 0, -0.1, 0, settings=experiment(retrieval=False))
    assert [row["name"] for row in found["rows"]] == ["fine-tuning", "elsewhere"]
    assert found["answer"] == "fine-tuning helps" and "retrieval" not in found["sentence"]
    assert answer({"fine-tuning": "worse"}) == "fine-tuning harms"


def test_there_is_no_question_where_no_stage_is_trained_on_scored_code():
    assert question_of(experiment()) == ("code", "pretrain")
    assert question_of(make_experiment([], {"evaluation.perplexity.datasets": ["instruct"]})) is None


def test_a_model_that_was_not_scored_with_retrieval_is_one_line(tmp_path):
    question(tmp_path, 0, 0, 0)
    path = Layout(tmp_path).suite("perplexity", "pretrain") / "items.jsonl.zst"
    settings = experiment()
    names = [f"s/{number}.py" for number in range(16)]
    items = [{"dataset": "code", "id": name, "language": "python", "tokens": 1, "bytes": 1, "nll": 1} for name in names]
    columns = np.ones((16, 4 * len(MODELS)))
    documents = Documents(names, np.array(["python"] * 16), columns, np.arange(16))
    write_jsonl(path, items)
    comparison = SuiteComparison(SUITE, {"code": documents}, MODELS, 0.95)
    with pytest.raises(UserError, match=r"pretrain.*s/0.py of code was not scored with retrieval; delete"):
        compare_conditions(settings, Layout(tmp_path), comparison, {"code": documents}, COMPRESSORS)


def test_an_interval_beyond_zero_that_the_correction_takes_back_says_so():
    row = {"value": -0.119, "interval": [-0.214, -0.025], "holm": 0.0701, "direction": "cannot tell"}
    assert stated(row) == "-0.119 [-0.214, -0.025], cannot tell (corrected p 0.07)"
    assert stated(row | {"interval": [-0.214, 0.025]}) == "-0.119 [-0.214, +0.025], cannot tell"
    assert stated(row | {"holm": 0.04, "direction": "better"}) == "-0.119 [-0.214, -0.025]"
