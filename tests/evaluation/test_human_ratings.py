"""scripts/evaluation/suites/human_ratings.py: blind sheets, scores against planted ones, refused sheets."""

import csv
import json
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.evaluation.gate import evaluate
from scripts.evaluation.suites.human_ratings import Settings as Human
from scripts.evaluation.suites.human_ratings import rate
from tests.evaluation.synthetic import build, dump, dump_lines, gate, sha


def write_suite(folder: Path, written: dict[str, dict[str, str]]) -> Path:
    """A suite's folder: `written` is model → id → text; the first model's items are in reversed order."""
    for index, (model, texts) in enumerate(written.items()):
        items = []
        for number, (name, text) in enumerate(texts.items()):
            about = {"dataset": "chats", "id": name, "language": ("go", "python")[number % 2]}
            items.append({**about, "prompt": f"explain {name}", "reference": "它排序。\nIt sorts.", "written": [text]})
        dump_lines(folder / model / "items.jsonl.zst", items if index else items[::-1])
        dump(folder / model / "scores.json", {"model_sha256": sha(model), "data": {"chats": sha("chats")}})
    return folder


def written(models: list[str], count: int) -> dict[str, dict[str, str]]:
    """A text of each model for each item, which does not show the model."""
    return {model: {f"c/{n}": f"text {sha(f'{model}{n}')}" for n in range(count)} for model in models}


def make(root: Path, texts: dict[str, dict[str, str]], *sheets: Path, samples: int = 100) -> Path:
    """The folder of the sheet, of all that is written."""
    settings = Human.parse({"of": "qa", "samples": samples, "sheets": list(map(str, sheets))}, "test")
    rate(write_suite(root / "suite", texts), list(texts), settings, 42, root / "human_ratings")
    return root / "human_ratings"


def read(sheet: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((sheet / "sheet.csv").read_text(encoding="utf-8-sig").splitlines(keepends=True)))


def fill(sheet: Path, path: Path, answer, encoding: str = "utf-8-sig", delimiter: str = ",") -> Path:
    """A filled sheet; `answer` gets a row of key.json."""
    key, rows = json.loads((sheet / "key.json").read_text()), read(sheet)
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        for row in rows:
            writer.writerow(row | {"correct": answer(key[row["row"][1:]])})
    return path


def items_of(root: Path, model: str) -> dict[str, dict]:
    return {item["id"]: item for item in read_jsonl(root / f"human_ratings/{model}/items.jsonl.zst")}


def truth(row: dict) -> str:
    """What a planted rater says: of `sft` all right but c/3, of `base` the even ones."""
    number = int(row["id"][2:])
    return "yes" if ("sft" in row["models"] and number != 3) or ("base" in row["models"] and number % 2 == 0) else "no"


def test_filled_sheets_give_the_planted_scores(tmp_path):
    texts = written(["base", "sft"], 10)
    texts["base"]["c/2"] += " a form feed\f, a line separator\u2028."  # neither of which ends a row
    sheet = make(tmp_path, texts)
    anna = fill(sheet, tmp_path / "anna.csv", truth)
    bo = fill(sheet, tmp_path / "bo.csv", lambda row: "no" if row["id"] == "c/0" else truth(row), delimiter=";")
    agreed = json.loads((make(tmp_path, texts, anna, bo) / "agreement.json").read_text())
    assert agreed == {"rows": 20, "raters": {"anna": 14 / 20, "bo": 12 / 20}, "agreement": 0.9}
    base, sft = (items_of(tmp_path, model) for model in ("base", "sft"))
    assert [sft[f"c/{n}"]["correct"] for n in range(10)] == [0.5, 1, 1, 0, 1, 1, 1, 1, 1, 1]
    assert [base[f"c/{n}"]["correct"] for n in range(10)] == [0.5, 0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert sft["c/0"]["ratings"] == {"anna": True, "bo": False}
    scores = json.loads((tmp_path / "human_ratings/sft/scores.json").read_text())
    assert scores["scores"]["chats"]["all"] == {"documents": 10, "correct": 0.85}
    assert (scores["model_sha256"], scores["data"]) == (sha("sft"), {"chats": sha("chats")})


def test_a_sheet_does_not_reveal_the_models_and_rows_that_models_share_count_for_each(tmp_path):
    texts = written(["base", "sft"], 30)
    texts["base"]["c/7"] = texts["sft"]["c/7"] = "=SUM(1)"
    sheet = make(tmp_path, texts)
    shown, key = (sheet / "sheet.csv").read_text(encoding="utf-8-sig"), json.loads((sheet / "key.json").read_text())
    assert "base" not in shown and "sft" not in shown
    assert [row["row"] for row in read(sheet)] == [f"r{name}" for name in sorted(key)] and len(key) == 59
    first_half = [row["models"] for row in list(key.values())[:30]]
    assert 5 < first_half.count(["base"]) < 25
    assert [row["response"] for row in read(sheet) if "SUM" in row["response"]] == ["'=SUM(1)"]
    make(tmp_path, texts, fill(sheet, tmp_path / "anna.csv", lambda row: "YES "))
    assert [items_of(tmp_path, model)["c/7"]["correct"] for model in texts] == [1, 1]
    drawn = {row["id"] for row in json.loads((make(tmp_path, texts, samples=4) / "key.json").read_text()).values()}
    assert len(drawn) == 4


def test_models_that_were_scored_on_other_items_are_refused(tmp_path):
    texts = written(["base", "sft"], 3)
    del texts["sft"]["c/1"]
    with pytest.raises(UserError, match=r"suite/sft: 1 items of base are missing; score again"):
        make(tmp_path, texts)


REFUSED = {
    "an Excel workbook": (lambda rows: b"PK\x03\x04\xff\xfe\x00", "not UTF-8 text; save it as `CSV UTF-8`"),
    "another header": (
        lambda rows: [rows[0].replace("correct", "right"), *rows[1:]],
        "its first line is 'row,language",
    ),
    "an empty file": (lambda rows: [], "its first line is '', must be row,language,prompt,"),
    "cut between rows": (lambda rows: rows[:-1], "missing (and 0 more rows)"),
    "a row twice": (lambda rows: [*rows, rows[1]], "occurs twice; keep one"),
    "another run's sheet": (lambda rows: [rows[0], "r00" + rows[1][3:], *rows[2:]], "not in this run's sheet"),
    "an open row": (lambda rows: [rows[0], rows[1].replace("yes", ""), *rows[2:]], "correct is '', must be yes or no"),
    "cut within a cell": (lambda rows: [*rows, 'r1,"go'], "malformed CSV, "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sheet_that_is_incomplete_or_another_runs_is_refused_in_one_line_and_nothing_is_written(tmp_path, case):
    change, line = REFUSED[case]
    texts = written(["sft"], 3)
    path = fill(make(tmp_path, texts), tmp_path / "anna.csv", lambda row: "yes", encoding="utf-8")
    rows = path.read_text().replace("\nIt sorts.", "").replace('"', "").splitlines()
    changed = change(rows)
    path.write_bytes(changed if isinstance(changed, bytes) else "\n".join(changed).encode())
    with pytest.raises(UserError) as error:
        make(tmp_path, texts, path)
    assert str(error.value).startswith(f"{path}: ") and line in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "human_ratings/sft").exists()


@pytest.fixture
def experiment(tmp_path):
    """A results tree in which the answers of all models are rated, with gates on that."""
    target = {"dataset": "instruct", "metric": "correct"}
    gates = [gate("shares", **target, above=0.5), gate("gain", **target, against="base", above=0)]
    experiment = build(tmp_path, gates, changes={"evaluation.human_ratings": {"of": "qa", "samples": 50, "sheets": []}})
    rated(experiment, tmp_path / "results/evaluation")
    return experiment


def rated(experiment, results: Path) -> None:
    models = ["base", *experiment.training.train]
    rate(results / "qa", models, experiment.evaluation.human_ratings, 42, results / "human_ratings")


def test_before_a_sheet_is_filled_gates_are_not_measured(tmp_path, experiment):
    evaluation = evaluate(experiment, tmp_path / "results")
    assert [(gate["outcome"], gate["value"], gate["interval"]) for gate in evaluation["gates"]] == [
        ("not measured", None, None)
    ] * 2
    assert evaluation["human_ratings"]["raters"] == {} and "human_ratings" not in evaluation["scores"]["sft"]
