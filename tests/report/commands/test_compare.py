"""scripts/report/commands/compare.py: two runs of the same data, problem by problem."""

import json
import shutil

import pytest

from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.evaluation.metrics import scoring
from scripts.report.commands.compare import (
    common_items,
    compare,
    compare_runs,
    data_lines,
    made_lines,
    metric_rows,
    terminal_lines,
)
from tests.evaluation.synthetic import make_answers, sha, write_answers

GAINED, LOST = ("src/6.go", "src/7.go", "src/9.rust"), ("src/0.python",)


def answer(item, right):
    return item | {"exact_match": float(right), "f1": (1 + right) / 2}


@pytest.fixture
def runs(results_root, tmp_path):
    """(results of a run, results of one like it, but that `sft` answers three more chats right and one wrong)."""
    shutil.copytree(results_root, tmp_path / "results")
    items = [answer(item, 1) if item["id"] in GAINED else item for item in make_answers("sft", 10)]
    items = [answer(item, 0) if item["id"] in LOST else item for item in items]
    write_answers(tmp_path, "sft", items)
    return results_root, tmp_path / "results"


def row(rows, model, metric, dataset):
    return next(r for r in rows if (r["models"][0], r["metric"], r["dataset"]) == (model, metric, dataset))


def test_planted_gains_and_losses_are_found_by_id(runs):
    rows, excluded = compare_runs(*runs)
    comparison = row(rows, "sft", "exact_match", "instruct")
    assert {name for name, value in comparison["items"].items() if value == 1} == set(GAINED)
    assert {name for name, value in comparison["items"].items() if value == -1} == set(LOST)
    assert comparison["documents"] == 30
    assert (comparison["A"], comparison["B"]) == (pytest.approx(18 / 30), pytest.approx(20 / 30))
    assert comparison["value"] == pytest.approx(2 / 30)
    # McNemar's p of 3 against 1: one standard error
    assert comparison["mcnemar"] == {"gained": 3, "lost": 1, "p": pytest.approx(0.3173, abs=1e-4)}
    assert excluded == []


def test_counts_of_the_data_cards_that_differ_are_lines(tmp_path):
    card = {"examples": {"train": 3}, "sources": {"click": {"examples": 3}}, "funnel": {"kept": 3, "extension": 1}}
    other = {**card, "examples": {"train": 2}, "sources": {}, "funnel": {"kept": 2, "extension": 2}}
    for name, content in (("a", card), ("b", other)):
        write_json(tmp_path / name / "report/cards/cards.json", {"code": content})
    assert data_lines(tmp_path / "a", tmp_path / "b") == [
        "data of code: examples.train 3 → 2",
        'data of code: sources.click {"examples": 3} → not set',
        "data of code: funnel.extension 1 → 2",
        "data of code: funnel.kept 3 → 2",
    ]
    assert data_lines(tmp_path / "a", tmp_path / "a") == data_lines(tmp_path, tmp_path) == []


def test_what_made_two_runs_differ_is_named(results_root, tmp_path):
    assert made_lines(results_root, results_root) == []
    shutil.copytree(results_root, tmp_path / "results")
    path = tmp_path / "results/evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    inputs = evaluation["inputs"]
    inputs["experiment"]["training"]["train"]["sft"]["learning_rate"] = 0.5
    inputs["sources"]["alpha"]["pin"] = "1" * 40
    inputs["code"]["corpus.filter"] = "1" * 16
    inputs["versions"]["torch"] = "9.9"
    path.write_text(json.dumps(evaluation))
    lines = made_lines(results_root, tmp_path / "results")
    begins = [
        "setting training.train.sft.learning_rate ",
        "source alpha.pin ",
        "package torch ",
        "code of corpus.filter",
    ]
    assert [line for line, begin in zip(lines, begins, strict=True) if not line.startswith(begin)] == []


def test_a_run_whose_tests_failed_gained_and_lost_nothing():
    """Of five problems that A solves, the tests of one failed in B: that 0 is none of the model's."""
    suite = scoring.pass_suite([1])
    outcomes = [("passed", "passed"), ("wrong", "passed"), ("passed", "test error"), *[("passed", "wrong")] * 3]
    pairs = [[suite.columns(scoring.pass_figures([outcome], [1])) for outcome in pair] for pair in outcomes]
    documents = common_items(
        *({str(at): ("go", pair[side]) for at, pair in enumerate(pairs)} for side in (0, 1)), "file"
    )
    about = {"suite": "code", "models": ("m", "m"), "dataset": "d", "settings_differ": False, "holm": None}
    rows = [about | line for line in metric_rows(suite, documents, 0.95)]
    assert [(line["direction"], line["items"]) for line in rows] == [("not measured", {})]
    lines = terminal_lines(rows, [])
    assert not any(kind in line for kind in ("most gained", "most lost", "too few") for line in lines)
    assert "not measured: m, pass@1, d: the tests or the sandbox failed on some items" in lines


def test_other_test_data_is_not_compared_and_the_line_says_so(runs):
    a, b = runs
    for model in ("base", "pretrain", "sft"):
        scores = b / "evaluation/qa" / model / "scores.json"
        scores.write_text(scores.read_text().replace(sha("instruct"), sha("other")))
    evaluation = json.loads((b / "evaluation/gate/eval.json").read_text())
    for model in evaluation["scoring"].values():
        model["qa"]["data"]["instruct"] = sha("other")
    (b / "evaluation/gate/eval.json").write_text(json.dumps(evaluation))
    rows, excluded = compare_runs(a, b)
    assert excluded == ["qa, instruct: its test data differs"]
    assert {row["suite"] for row in rows} == {"perplexity"}
    assert terminal_lines(rows, excluded)[-1] == "not compared: qa, instruct: its test data differs"


def test_the_command_prints_the_changed_problems_and_writes_json(runs, tmp_path, capsys):
    compare(*runs, tmp_path / "out")
    printed = capsys.readouterr().out
    assert "sft, exact match, instruct: most gained: src/6.go, src/7.go, src/9.rust" in printed
    assert "sft, exact match, instruct: most lost: src/0.python" in printed
    assert len(json.loads((tmp_path / "out/compare.json").read_text())["rows"]) == 15


@pytest.mark.parametrize(("spoil", "says"), [("missing", "no such file"), ("cut", "not JSON"), ("items", "truncated")])
def test_a_damaged_run_is_a_one_line_error(runs, tmp_path, monkeypatch, spoil, says):
    a, b = runs
    path = b / "evaluation/gate/eval.json"
    if spoil == "missing":
        path.unlink()
    elif spoil == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path = b / "evaluation/qa/sft/items.jsonl.zst"
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError) as refused:
        compare(a, b, tmp_path / "out")
    message = str(refused.value)
    assert message.startswith(f"{path}: ") and says in message and "\n" not in message
    assert not (tmp_path / "out").exists()


def test_runs_with_nothing_in_common_are_one_line_errors(runs):
    a, b = runs
    evaluation = json.loads((b / "evaluation/gate/eval.json").read_text())
    for model in evaluation["scoring"].values():
        for suite in model.values():
            suite["data"] = dict.fromkeys(suite["data"], sha("other"))
    (b / "evaluation/gate/eval.json").write_text(json.dumps(evaluation))
    with pytest.raises(UserError, match="nothing to compare; perplexity, code: its test data differs"):
        compare_runs(a, b)
