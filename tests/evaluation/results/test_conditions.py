"""Retrieve, fine-tune, both or neither: what is compared, of items whose differences are known."""

import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_json, write_jsonl
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.conditions import compare_conditions, question_of
from scripts.evaluation.results.intervals import estimate
from scripts.evaluation.results.items import read_scored
from scripts.evaluation.suites.perplexity import SUITE
from scripts.experiment.layout import Layout
from tests.evaluation.synthetic import make_experiment

BYTES, LINES = 1000, 50  # of each file, so that both metrics are plain means of files
NATS = math.log(2) * BYTES
MODELS = ["base", "pretrain", "sft"]
COMPRESSORS = {"code": {"compressor": {"value": 3.0, "interval": [2.9, 3.1]}}}
SUMMARIES = {name: {"steps": 20, "tokens": 4000, "data_tokens": 80_000} for name in MODELS[1:]}


def experiment(retrieval=True, **changes):
    settings = {"evaluation.perplexity.datasets": ["code", "other"], "corpus.compose.other": {"kind": "code"}}
    if retrieval:
        settings["evaluation.perplexity.retrieval"] = {"datasets": ["code"]}
    return make_experiment([], settings | changes)


def figures(bits, lines):
    """The figures of a file."""
    return {
        "nll": float(bits * NATS),
        "tokens": 300,
        "bytes": BYTES,
        "lines": LINES,
        "lines_as_they_stand": int(lines),
        "characters": 2000,
        "characters_saved": 30 * int(lines),
    }


class Files:
    """Files with these true differences from the base, written as suite perplexity writes them.

    Attributes:
        bits: bits per byte of each file, by (model, variant); the variant is "" without one.
    """

    def __init__(self, root, retrieval, tuning, both, files=30, noise=0.02, elsewhere=0.0, lines=0, models=MODELS):
        self.layout, generator = Layout(root), np.random.default_rng(3)
        level, self.bits = generator.normal(3.0, 0.3, files), {}
        stand = generator.integers(8, 14, files)
        self.names = [f"s/{number}.py" for number in range(files)]
        for model in models:
            changes = {"": tuning, "retrieval": both, "5 steps": 0.5 * tuning, "10 steps": 0.6 * tuning}
            if model == "base":
                changes = {"": 0.0, "retrieval": retrieval}
            for variant, change in changes.items():
                spread = generator.normal(0, noise, files) if change or (model, variant) != ("base", "") else 0
                self.bits[model, variant] = level + change + spread
            items = []
            for place, name in enumerate(self.names):
                moved = stand[place] + lines * (model != "base")
                item = {"dataset": "code", "id": name, "language": "python"}
                item |= figures(self.bits[model, ""][place], moved)
                item["variants"] = {}
                for variant in changes:
                    if variant:
                        item["variants"][variant] = figures(self.bits[model, variant][place], moved)
                items.append(item)
                other = level[place] + (elsewhere + generator.normal(0, noise)) * (model != "base")
                items.append({"dataset": "other", "id": name, "language": "python"} | figures(other, 9))
            folder = self.layout.suite("perplexity", model)
            write_jsonl(folder / "items.jsonl.zst", items)
            scores = {}
            for dataset in ("code", "other"):
                chosen = [SUITE.columns(item) for item in items if item["dataset"] == dataset]
                sums = np.sum(chosen, axis=0)
                values = {metric: SUITE.value(metric, sums) for metric in SUITE.metrics}
                scores[dataset] = {"all": {"documents": files, **values}}
            write_json(folder / "scores.json", {"data": {"code": "c", "other": "o"}, "scores": scores})
            kept = {} if model == "base" else dict.fromkeys(("step-5.model.safetensors", "step-10.model.safetensors"))
            write_json(self.layout.model(model) / "manifest.json", {"files": kept})

    def question(self, settings=None, models=MODELS, seeds=None):
        scored = read_scored(self.layout.suite("perplexity", ""), SUITE, models, ["code", "other"], "file")
        comparison = SuiteComparison(SUITE, scored, models, 0.95, seeds)
        settings = settings or experiment()
        return compare_conditions(settings, self.layout, comparison, scored, COMPRESSORS, SUMMARIES)


def rows_of(found, metric="bits_per_byte"):
    return {row["name"]: row for row in found["rows"] if row["metric"] == metric}


def test_differences_are_paired_and_their_p_corrected_for_all_of_them(tmp_path):
    files = Files(tmp_path, -0.05, -0.1, -0.13, elsewhere=0.01)
    found, bits = files.question(), files.bits
    base, retrieval = bits["base", ""], bits["base", "retrieval"]
    tuned, both = bits["pretrain", ""], bits["pretrain", "retrieval"]
    expected = {
        "retrieval": retrieval - base,
        "fine-tuning": tuned - base,
        "both": both - base,
        "both beside retrieval": both - retrieval,
        "both beside fine-tuning": both - tuned,
        "fine-tuning beside retrieval": tuned - retrieval,
        "both beyond the sum of the two": both - retrieval - tuned + base,
        "last half of the steps": tuned - bits["pretrain", "10 steps"],
    }
    rows = rows_of(found)
    assert rows.keys() - {"elsewhere"} == expected.keys()
    for name, gap in expected.items():
        assert rows[name]["value"] == pytest.approx(float(gap.mean()))
        assert rows[name]["p"] == pytest.approx(estimate(gap, len(gap), 0.95).p)
    measured = [row for row in found["rows"] if row["p"] is not None]
    corrected = multipletests([row["p"] for row in measured], method="holm")[1]
    assert [row["holm"] for row in measured] == pytest.approx(corrected)
    assert [row["name"] for row in found["conditions"]] == [
        "base",
        "base + retrieval",
        "pretrain",
        "pretrain + retrieval",
    ]
    assert [each["steps"] for each in found["curve"]] == [0, 5, 10, 20]
    assert found["answer"] == "both" and "more steps would still help" in found["sentence"]


def test_lines_are_compared_too_and_a_gain_without_them_is_one_that_nobody_sees(tmp_path):
    unseen = Files(tmp_path / "a", -0.05, -0.1, -0.13).question()
    assert unseen["lines"] == 30 * LINES
    assert unseen["advice"].startswith("A gain, but too small to be seen: ") and unseen["advice"].endswith("Do both.")
    assert unseen["heading"] == "A gain, but too small to be seen"
    seen = Files(tmp_path / "b", -0.05, -0.1, -0.13, lines=3).question()
    assert seen["advice"] == "Do both." == f"{seen['heading']}."
    assert rows_of(seen, "lines")["fine-tuning"]["value"] == pytest.approx(3 / LINES)
    assert rows_of(seen, "lines")["retrieval"]["effect"] == "none"
    lines = {row["name"]: row["lines"]["value"] for row in seen["conditions"]}
    assert lines["pretrain"] - lines["base"] == pytest.approx(0.06)
    assert f"base {lines['base']:.1%}, " in seen["sentence"]


def test_the_first_sentence_is_about_all_seeds_of_a_stage(tmp_path):
    models = ["base", "pretrain", "pretrain.seed7", "pretrain.seed8", "sft"]
    files = Files(tmp_path, -0.02, -0.1, -0.12, models=models)
    seeds = {"pretrain": models[1:4]}
    path = files.layout.suite("perplexity", "pretrain.seed7") / "items.jsonl.zst"
    alike = files.question(models=models, seeds=seeds)
    assert alike["answer"] == "both"
    for seed in ("seed7", "seed8"):  # half a bit worse
        path = files.layout.suite("perplexity", f"pretrain.{seed}") / "items.jsonl.zst"
        items = list(read_jsonl(path))
        for item in items:
            for of_one in [item, *item.get("variants", {}).values()]:
                of_one["nll"] += 0.5 * NATS
        write_jsonl(path, items)
        scores = path.with_name("scores.json")
        of_code = np.sum([SUITE.columns(item) for item in items if item["dataset"] == "code"], axis=0)
        of_other = np.sum([SUITE.columns(item) for item in items if item["dataset"] == "other"], axis=0)
        content = {"data": {"code": "c", "other": "o"}, "scores": {}}
        for dataset, sums in (("code", of_code), ("other", of_other)):
            values = {metric: SUITE.value(metric, sums) for metric in SUITE.metrics}
            content["scores"][dataset] = {"all": {"documents": 30, **values}}
        write_json(scores, content)
    found = files.question(models=models, seeds=seeds)
    row = rows_of(found)["fine-tuning"]
    assert row["value"] == pytest.approx((-0.1 + 0.4 + 0.4) / 3, abs=0.01) and len(row["seeds"]) == 3
    assert row["interval"][0] < 0 < row["interval"][1]
    assert found["answer"] == "retrieval"
    assert len(rows_of(found)["both"]["seeds"]) == 3


def test_the_advice_follows_the_corrected_p_and_the_smallest_gain_that_matters(tmp_path):
    cases = {
        "both": (-0.05, -0.1, -0.14),
        "retrieval": (-0.1, 0.0, -0.1),
        "fine-tuning": (0.0, -0.1, -0.1),
        "neither": (0.1, 0.1, 0.2),
    }
    for name, changes in cases.items():
        found = Files(tmp_path / name, *changes, noise=0.01).question()
        assert found["answer"] == name, found["sentence"]
        for row in found["rows"]:
            assert row["effect"] not in ("helps", "harms") or row["holm"] < 0.05
    assert "both make it worse" in found["sentence"]
    nothing = Files(tmp_path / "nothing", 0.0, 0.0, 0.0, files=120, noise=0.01).question()
    assert nothing["sentence"].endswith("Do neither: no gain above 0.01 bits per byte is shown.")
    tiny = Files(tmp_path / "tiny", -0.004, -0.004, -0.004, files=300, noise=0.01).question()
    assert rows_of(tiny)["fine-tuning"]["p"] < 0.001 and tiny["answer"] == "neither"


def test_too_few_files_have_no_interval_and_no_answer(tmp_path):
    found = Files(tmp_path, -0.1, -0.1, -0.2, files=4).question()
    assert found["answer"] == "neither" and found["advice"] == "So few files cannot tell which helps."
    assert "too few files for an interval" in found["sentence"]
    many = Files(tmp_path / "many", 0.0, 0.0, 0.0, files=40, noise=0.4).question()
    assert many["advice"] == "These files cannot tell which helps."


def test_without_retrieval_the_answer_is_about_fine_tuning_alone(tmp_path):
    found = Files(tmp_path, 0, -0.1, 0).question(experiment(retrieval=False))
    assert list(rows_of(found)) == ["fine-tuning", "elsewhere"]
    assert found["advice"].endswith("Fine-tune.") and "retrieval" not in found["sentence"]


def test_a_control_says_what_the_teams_code_gives_rather_than_any(tmp_path):
    settings = experiment(**{"evaluation.gate.controls": {"pretrain": "sft"}})
    files = Files(tmp_path, -0.02, -0.1, -0.12)
    found = files.question(settings)
    gap = files.bits["pretrain", ""] - files.bits["sft", ""]
    row = rows_of(found)["your code rather than any code"]
    assert row["value"] == pytest.approx(float(gap.mean())) and row["holm"] is not None
    assert "your code rather than any code gives" in found["sentence"]


def test_own_code_is_found_through_mixtures_and_a_control_is_not_the_answer():
    assert question_of(experiment()) == ("code", "pretrain")
    assert question_of(make_experiment([], {"evaluation.perplexity.datasets": ["instruct"]})) is None
    mixed = experiment(
        **{
            "tokens": {"mix": {"replay": {"parts": {"code": {"weight": 3}, "instruct": {"weight": 1}}}}},
            "training.train.pretrain.data": "replay",
        }
    )
    assert question_of(mixed) == ("code", "pretrain")
    stages = {"evaluation.gate.controls": {"pretrain": "sft"}, "training.train.sft.data": "code"}
    assert question_of(experiment(**stages)) == ("code", "pretrain")


def test_what_a_mixture_holds_is_not_elsewhere(tmp_path):
    mixed = experiment(
        **{
            "tokens": {"mix": {"replay": {"parts": {"code": {"weight": 3}, "other": {"weight": 1}}}}},
            "training.train.pretrain.data": "replay",
        }
    )
    found = Files(tmp_path, -0.02, -0.1, -0.12).question(mixed)
    assert found["model"] == "pretrain" and "elsewhere" not in rows_of(found)


def test_a_model_that_was_not_scored_with_retrieval_is_one_line(tmp_path):
    files = Files(tmp_path, 0, 0, 0)
    path = files.layout.suite("perplexity", "pretrain") / "items.jsonl.zst"
    write_jsonl(path, [{**item, "variants": {}} for item in read_jsonl(path)])
    with pytest.raises(UserError, match=r"pretrain.*s/0.py of code was not scored with retrieval; delete"):
        files.question()
