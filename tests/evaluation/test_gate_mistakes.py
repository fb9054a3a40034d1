"""Scores that cannot be compared with each other: each is refused in one line."""

import json
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.gate import evaluate
from tests.evaluation.synthetic import (
    build,
    dump,
    dump_lines,
    make_items,
    model_folder,
    sha,
    write_model,
)

DATA = {"code": sha("code"), "instruct": sha("instruct")}


def other_data(root: Path) -> str:
    write_model(root, "sft", make_items("sft", 10, 1.1), DATA | {"code": sha("other")})
    return "scored on test data"


def missing_document(root: Path) -> str:
    write_model(root, "sft", make_items("sft", 10, 1.1)[1:], DATA)
    return "src/0.go of code is missing, though"


def other_text(root: Path) -> str:
    items = make_items("sft", 10, 1.1)
    items[0]["bytes"] += 1
    write_model(root, "sft", items, DATA)
    return "src/0.go of code is"


def repeated_document(root: Path) -> str:
    items = make_items("sft", 10, 1.1)
    write_model(root, "sft", [*items, items[0]], DATA)
    return "src/0.go of code occurs twice"


def scores_of_another_run(root: Path) -> str:
    items = make_items("sft", 10, 1.3)
    dump_lines(root / "results/evaluation/perplexity/sft/items.jsonl.zst", items)
    return "perplexity, items.jsonl.zst holds"


def other_model(root: Path) -> str:
    dump(model_folder(root, "sft") / "manifest.json", {"files": {}})
    return "scored with model"


def diverged(root: Path) -> str:
    items = make_items("sft", 10, 1.1)
    items[3]["nll"] = None
    dump_lines(root / "results/evaluation/perplexity/sft/items.jsonl.zst", items)
    return "line 4: src/3.go: nll, tokens, bytes, lines, lines_as_they_stand, characters, characters_saved are [None,"


def no_record(root: Path) -> str:
    dump_lines(root / "results/evaluation/perplexity/sft/items.jsonl.zst", [["no", "record"]])
    return "line 1: not a scored document"


def cut_short(root: Path) -> str:
    path = root / "results/evaluation/perplexity/base/items.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-40])
    return "perplexity/"


def binary(root: Path) -> str:
    (root / "results/evaluation/perplexity/sft/items.jsonl.zst").write_bytes(b"\x00\xff" * 100)
    return "items.jsonl.zst: line 1"


def empty(root: Path) -> str:
    (root / "results/evaluation/perplexity/sft/scores.json").write_bytes(b"")
    return "sft/scores.json: not JSON"


def no_scores(root: Path) -> str:
    dump(root / "results/evaluation/perplexity/sft/scores.json", {"data": DATA})
    return "sft/scores.json: 'scores' is missing for code"


def other_settings(root: Path) -> str:
    path = root / "results/evaluation/qa/sft/scores.json"
    dump(path, json.loads(path.read_text()) | {"settings": {"seed": 43}})
    return "qa/sft/scores.json: not scored with the base's settings: seed 43, must be 42"


def no_summary(root: Path) -> str:
    (root / "results/training/train/sft/summary.json").unlink()
    return "sft/summary.json: no such file"


MISTAKES = [
    *(other_data, missing_document, other_text, repeated_document, scores_of_another_run, other_model, diverged),
    *(no_record, cut_short, binary, empty, no_scores, other_settings, no_summary),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_scores_that_cannot_be_compared_are_refused_in_one_line(mistake, tmp_path):
    experiment = build(tmp_path, [])
    line = mistake(tmp_path)
    with pytest.raises(UserError) as refused:
        evaluate(experiment, tmp_path / "results")
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
