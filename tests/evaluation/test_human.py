"""Filled-in rating sheets: scores against planted ones, which sheets are refused, and how far raters agree."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.evaluation.gate import evaluate
from scripts.evaluation.human import rate
from scripts.evaluation.sheet import make_sheet
from scripts.experiment.settings.record import to_dict
from tests.evaluation.sheets import HOSTILE, fill, make, read, texts
from tests.evaluation.synthetic import RIGHT, build, gate, make_experiment, sha

ROOT = Path(__file__).parents[2]


def rated(sheet: Path, *paths: Path) -> dict:
    return rate(json.loads((sheet / "key.json").read_text()), list(paths), sheet.parent / "human")


def items_of(root: Path, model: str) -> dict[str, dict]:
    return {item["id"]: item for item in read_jsonl(root / f"human/{model}/items.jsonl.zst")}


def truth(row: dict) -> str:
    """What a planted rater says: of `sft` all right but c/3, of `base` the even ones."""
    number = int(row["id"][2:])
    return "yes" if ("sft" in row["models"] and number != 3) or ("base" in row["models"] and number % 2 == 0) else "no"


def test_filled_sheets_give_the_planted_scores(tmp_path):
    sheet = make(tmp_path, texts(["base", "sft"], 10))
    anna = fill(sheet, tmp_path / "anna.csv", truth)
    bo = fill(sheet, tmp_path / "bo.csv", lambda row: "no" if row["id"] == "c/0" else truth(row))
    agreed = rated(sheet, anna, bo)
    assert agreed["raters"] == {"anna": 14 / 20, "bo": 12 / 20}
    assert (agreed["rows"], agreed["agreement"]) == (20, 0.9)
    assert agreed["alpha"] == pytest.approx(1 - 39 * 4 / (2 * 26 * 14))  # 2 rows apart; 26 yes, 14 no
    base, sft = (items_of(tmp_path, model) for model in ("base", "sft"))
    assert [sft[f"c/{n}"]["correct"] for n in range(10)] == [0.5, 1, 1, 0, 1, 1, 1, 1, 1, 1]
    assert [base[f"c/{n}"]["correct"] for n in range(10)] == [0.5, 0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert sft["c/0"]["ratings"] == {"anna": True, "bo": False}
    scores = json.loads((tmp_path / "human/sft/scores.json").read_text())
    assert scores["scores"]["chats"]["all"] == {"documents": 10, "correct": 0.85}
    assert (scores["model_sha256"], scores["data"]) == (sha("sft"), {"chats": sha("chats")})


def test_a_row_that_models_share_counts_for_each(tmp_path):
    sheet = make(tmp_path, {"base": {"c/0": "same"}, "sft": {"c/0": "same"}})
    rated(sheet, fill(sheet, tmp_path / "anna.csv", lambda row: "yes"))
    assert [items_of(tmp_path, model)["c/0"]["correct"] for model in ("base", "sft")] == [1, 1]


def test_without_sheets_nothing_is_scored_and_agreement_json_shows_it(tmp_path):
    sheet = make(tmp_path, texts(["base", "sft"], 3))
    assert rated(sheet) == {
        **{"sheet": json.loads((sheet / "key.json").read_text())["sheet"], "rows": 6},
        **{"raters": {}, "agreement": None, "alpha": None},
    }
    assert [path.name for path in (tmp_path / "human").iterdir()] == ["agreement.json"]


@pytest.mark.parametrize(
    ("yes", "no"), [("YES ", " no"), ("Y", "n"), ("TRUE", "False"), ("1", "0"), ("是", "否"), ("１", "ＮＯ")]
)
def test_an_answer_may_be_spelled_in_several_ways(tmp_path, yes, no):
    sheet = make(tmp_path, texts(["sft"], 4))
    rated(sheet, fill(sheet, tmp_path / "anna.csv", lambda row: {"yes": yes, "no": no}[truth(row)]))
    assert [items_of(tmp_path, "sft")[f"c/{n}"]["correct"] for n in range(4)] == [1, 1, 1, 0]


def sorted_by_response(text: str) -> str:
    header, *rows = text.split("\r\n")[:-1]
    return "\r\n".join([header, *sorted(rows, key=lambda row: row[::-1]), ""])


@pytest.mark.parametrize(
    ("encoding", "delimiter", "change"),
    [
        ("utf-8", ",", lambda text: text),
        ("utf-8-sig", ";", lambda text: text),
        ("utf-8-sig", "\t", lambda text: text),
        ("utf-8", ",", sorted_by_response),
        ("utf-8", ",", lambda text: text.replace("\r\n", "\n")),
        ("utf-8", ",", lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n")),  # in cells too
        ("utf-8", ";", lambda text: text + ";;;;;;\r\n" * 3),  # what Excel adds
        ("utf-8", ",", lambda text: text.replace(",'", ",")),  # a spreadsheet that takes the guard for its own
    ],
)
def test_a_sheet_may_come_from_any_spreadsheet(tmp_path, encoding, delimiter, change):
    plain = {f"c/{n}": text for n, text in enumerate(["=1+1", "3.10", 'a "quoted", b; c', "TRUE", "x"])}
    sheet = make(tmp_path, {"sft": plain})
    path = fill(sheet, tmp_path / "anna.csv", truth, encoding, delimiter)
    path.write_bytes(change(path.read_bytes().decode(encoding)).encode(encoding))
    rated(sheet, path)
    assert [items_of(tmp_path, "sft")[f"c/{n}"]["correct"] for n in range(5)] == [1, 1, 1, 0, 1]


def lines(change):
    """A change to the list of a sheet's lines; none of these texts has a line end."""

    def edit(content: bytes) -> bytes:
        rows = content.decode().splitlines(keepends=True)
        change(rows)
        return "".join(rows).encode()

    return edit


def replacement(old: str, new: str, row: int = 1):
    def change(rows):
        assert old in rows[row]
        rows[row] = rows[row].replace(old, new, 1)

    return lines(change)


def other_sheet(content: bytes) -> bytes:
    name = content.decode().splitlines()[1].split("-")[0].encode()
    return content.replace(name, b"zzzzzzzz")


REFUSED = {
    "an empty file": (lambda content: b"", "its first line is '', must be row,language,prompt,"),
    "only a header": (lambda content: content.splitlines(keepends=True)[0], "missing (and 3 more rows)"),
    "an Excel workbook": (lambda content: b"PK\x03\x04\xff\xfe\x00", "not UTF-8 text; save it as `CSV UTF-8`"),
    "binary zeros": (lambda content: bytes(100), "its first line is "),
    "UTF-16": (lambda content: content.decode().encode("utf-16"), "not UTF-8 text"),
    "GBK": (lambda content: content.decode().encode("gbk"), "not UTF-8 text"),
    "another header": (
        replacement("correct", "right", 0),
        "its first line is 'row,language,prompt,reference,response,right",
    ),
    "a column left out": (lambda content: content.replace(b",comment", b""), "must be row,"),
    "cut within a cell": (lambda content: content.replace(b"text", b'"text', 1)[:120], "malformed CSV, "),
    "cut between rows": (lines(lambda rows: rows.pop()), "missing"),
    "a row twice": (lines(lambda rows: rows.append(rows[1])), "occurs twice; keep one"),
    "a row of no sheet": (replacement("-1,", "-9,"), "-9': no such row in the sheet (and 1 more rows)"),
    "another run's sheet": (other_sheet, "filled in for sheet 'zzzzzzzz', but this run's sheet is '"),
    "an altered response": (replacement("text ", "texts "), "its response is not what was given out"),
    "one sorted column": (
        lines(lambda rows: rows.__setitem__(slice(1, 3), [rows[1].replace("go", "c"), rows[2]])),
        "its language is not what was given out; was one column sorted",
    ),
    "an open row": (replacement(",yes,", ",,"), "correct is '', must be yes or no"),
    "a doubtful answer": (replacement(",yes,", ",maybe,"), "correct is 'maybe', must be yes or no"),
    "a huge cell": (replacement(",yes,", f",yes,{'x' * 200_000}"), "malformed CSV, field larger than field limit"),
    "a cell too many": (replacement(",yes,", ",yes,,,more"), "cells, must be 7"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sheet_that_is_incomplete_or_altered_is_refused_in_one_line(tmp_path, case):
    change, line = REFUSED[case]
    one_line = {f"c/{n}": f"text {sha(str(n))}" for n in range(4)}
    sheet = make(tmp_path, {"sft": one_line})
    key = json.loads((sheet / "key.json").read_text())
    for row in key["rows"].values():
        row.update(reference="它排序。", language="go")
    path = tmp_path / "anna.csv"
    rows = [[name, "go", row["prompt"], "它排序。", row["response"], "yes", ""] for name, row in key["rows"].items()]
    header = ["row", "language", "prompt", "reference", "response", "correct", "comment"]
    path.write_bytes(change("".join(",".join(row) + "\r\n" for row in [header, *rows]).encode()))
    with pytest.raises(UserError) as error:
        rate(key, [path], tmp_path / "human")
    assert str(error.value).startswith(f"{path}: ")
    assert line in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "human").exists()


def test_each_wrong_row_is_named(tmp_path, caplog):
    sheet = make(tmp_path, {"sft": {f"c/{n}": text for n, text in enumerate(HOSTILE)}})
    path = fill(sheet, tmp_path / "anna.csv", lambda row: "" if row["id"] in ("c/1", "c/4") else "yes")
    with pytest.raises(UserError, match=r"anna\.csv: row .*: correct is '', must be yes or no \(and 1 more rows\)"):
        rated(sheet, path)
    key = json.loads((sheet / "key.json").read_text())["rows"]
    open_rows = [name for name, row in key.items() if row["id"] in ("c/1", "c/4")]
    assert [name for name in key if name in caplog.text] == open_rows


def test_the_command_refuses_in_one_line(tmp_path):
    sheet = make(tmp_path, texts(["sft"], 1))
    command = [sys.executable, "-m", "scripts.evaluation.human", "--key", str(sheet / "key.json"), "--sheets", "no.csv"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "human")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "error: no.csv: no such file\n")


@pytest.fixture
def experiment(tmp_path):
    """A results tree in which the answers of two models are rated, with gates on that."""
    target = {"dataset": "instruct", "metric": "correct"}
    gates = [gate("shares", **target, above=0.5), gate("gain", **target, against="base", above=0)]
    human = {"of": "qa", "models": ["base", "sft"], "datasets": ["instruct"], "samples": 50, "sheets": []}
    experiment, results = build(tmp_path, gates, changes={"evaluation.human": human}), tmp_path / "results/evaluation"
    make_sheet(results / "qa", experiment.evaluation.human, 42, results / "sheet")
    rate(json.loads((results / "sheet/key.json").read_text()), [], results / "human")
    return experiment


def test_before_a_sheet_is_filled_gates_are_not_measured(tmp_path, experiment):
    evaluation = evaluate(experiment, tmp_path / "results")
    assert [(result["outcome"], result["value"], result["interval"]) for result in evaluation["gates"]] == [
        ("not measured", None, None)
    ] * 2
    assert evaluation["verdict"] == "not measured"
    assert (evaluation["human"]["rows"], evaluation["human"]["raters"]) == (60, {})
    assert "human" not in evaluation["scores"]["sft"]


def test_filled_sheets_are_judged_like_every_share(tmp_path, experiment):
    """The planted rater calls right what `exact_match` does: 18 of 30 by sft, 6 of 30 by the base."""
    results = tmp_path / "results/evaluation"

    def truth(row):
        return "yes" if int(row["id"][4:].split(".")[0]) < RIGHT[row["models"][0]] else "no"

    path = fill(results / "sheet", tmp_path / "anna.csv", truth)
    human = to_dict(experiment.evaluation.human) | {"sheets": [str(path)]}
    gates = [to_dict(gate) for gate in experiment.evaluation.gate.gates]
    experiment = make_experiment(gates, {"evaluation.human": human})
    rate(json.loads((results / "sheet/key.json").read_text()), [path], results / "human")
    evaluation = evaluate(experiment, tmp_path / "results")
    shares, gain = evaluation["gates"]
    assert (shares["value"], shares["outcome"], gain["outcome"]) == (0.6, "met, not secured", "met")
    assert shares["interval"] == pytest.approx([0.4232, 0.7541], abs=1e-4)  # Wilson by table
    rows = [row for row in evaluation["comparisons"] if (row["suite"], row["language"]) == ("human", "all")]
    assert [(row["model"], row["against"]) for row in rows] == [("sft", "base")]  # nobody rated pretrain
    assert rows[0]["mcnemar"] == {"gained": 12, "lost": 0, "p": pytest.approx(5.32e-4, rel=1e-2)}
    assert [model for model in evaluation["scores"] if "human" in evaluation["scores"][model]] == ["base", "sft"]
    assert evaluation["human"]["raters"] == {"anna": 0.4}
    assert math.isclose(evaluation["scores"]["base"]["human"]["instruct"]["go"]["correct"]["value"], 0.2)
    for row in read(results / "sheet/sheet.csv"):
        assert row["correct"] == ""  # the blank sheet stays blank
