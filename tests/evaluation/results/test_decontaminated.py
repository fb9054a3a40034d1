"""scripts/evaluation/results/items.py: scores without the problems that overlap, and broken overlaps.json."""

import json
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.gate import evaluate
from tests.evaluation.synthetic import LEVELS, build, dump, make_answers, write_answers

OVERLAPS = "results/evaluation/contamination/overlaps.json"


def test_scores_without_are_those_of_a_run_on_the_other_problems_alone(tmp_path):
    evaluation = evaluate(build(tmp_path / "all", []), tmp_path / "all/results")
    overlaps = json.loads((tmp_path / "all" / OVERLAPS).read_text())
    left_out = overlaps["suites"]["qa"]["instruct"]["overlapping"]
    assert 0 < len(left_out) < 30
    experiment = build(tmp_path / "rest", [])
    for model in LEVELS:
        rest = [item for item in make_answers(model, 10) if item["id"] not in left_out]
        write_answers(tmp_path / "rest", model, rest)
    row = overlaps["suites"]["qa"]["instruct"] | {"overlapping": {}, "problems": 30 - len(left_out)}
    dump(tmp_path / "rest" / OVERLAPS, overlaps | {"suites": {"qa": {"instruct": row}}})
    alone = evaluate(experiment, tmp_path / "rest/results")
    assert evaluation["contamination"]["without"] == {model: {"qa": alone["scores"][model]["qa"]} for model in LEVELS}
    assert alone["contamination"]["without"] == evaluation["contamination"]["without"]
    assert (
        evaluation["scores"]["sft"]["qa"]["instruct"]["go"]
        != evaluation["contamination"]["without"]["sft"]["qa"]["instruct"]["go"]
    )


def test_without_a_suite_with_prompts_no_overlaps_are_read_or_reported(tmp_path):
    experiment = build(tmp_path, [], changes={"evaluation.qa": None})
    (tmp_path / OVERLAPS).unlink()
    assert evaluate(experiment, tmp_path / "results")["contamination"] is None


def broken(edit):
    def change(path: Path) -> None:
        overlaps = json.loads(path.read_text())
        edit(overlaps, overlaps["suites"]["qa"]["instruct"])
        path.write_text(json.dumps(overlaps))

    return change


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda path: path.unlink(), "no such file"),
        (lambda path: path.write_text("{"), "not JSON"),
        (lambda path: path.write_text("[]"), "not what rule contamination writes"),
        (
            broken(lambda overlaps, row: overlaps.update(suites={"qa": {}})),
            "not what rule contamination writes: KeyError",
        ),
        (broken(lambda overlaps, row: row.update(overlapping=3)), "not what rule contamination writes: TypeError"),
        (broken(lambda overlaps, row: row.update(overlapping=["src/1.go"])), "not what rule contamination writes"),
        (broken(lambda overlaps, row: row.update(data="other")), "not about the problems of instruct that qa scored"),
        (broken(lambda overlaps, row: row.update(problems=29)), "not about the problems of instruct that qa scored"),
        (
            broken(lambda overlaps, row: row["overlapping"].update(x=row["overlapping"]["src/1.go"])),
            "not about the problems of instruct that qa scored",
        ),
    ],
)
def test_overlaps_that_are_malformed_or_of_other_problems_are_refused_in_one_line(tmp_path, change, line):
    experiment = build(tmp_path, [])
    change(tmp_path / OVERLAPS)
    with pytest.raises(UserError) as error:
        evaluate(experiment, tmp_path / "results")
    assert str(tmp_path / OVERLAPS) in str(error.value) and line in str(error.value)
    assert "\n" not in str(error.value)
