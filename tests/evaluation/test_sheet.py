"""The rating sheet: it does not reveal the models, and browsers and spreadsheets keep its texts."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.results.blank_sheets import LONGEST, guarded, plain
from tests.evaluation.sheets import HEADER, HOSTILE, make, read, texts, write_suite
from tests.evaluation.synthetic import dump_lines

ROOT = Path(__file__).parents[2]
FILES = ("sheet.csv", "sheet.html")


def key_of(sheet: Path) -> dict:
    return json.loads((sheet / "key.json").read_text())


def contents(sheet: Path) -> list[bytes]:
    return [(sheet / name).read_bytes() for name in FILES]


def test_a_sheet_does_not_reveal_the_models(tmp_path):
    """With the texts of two models exchanged the sheet is the same to the byte: only the key says whose is whose."""
    written = texts(["base", "sft"], 30)
    first, second = (
        make(tmp_path / name, answers)
        for name, answers in (("a", written), ("b", {"base": written["sft"], "sft": written["base"]}))
    )
    assert contents(first) == contents(second)
    rows, exchanged = key_of(first)["rows"], key_of(second)["rows"]
    assert {name: row["models"] for name, row in rows.items()} == {
        name: [{"base": "sft", "sft": "base"}[model] for model in row["models"]] for name, row in exchanged.items()
    }
    for content in contents(first):
        assert not re.search(rb'\bsft\b|"base"|c/\d', content.split(b"<script>")[-1])


def test_rows_are_mixed_over_models_and_items(tmp_path):
    rows = list(key_of(make(tmp_path, texts(["base", "mid", "sft"], 80)))["rows"].values())
    assert len(rows) == 240
    neighbours = list(pairwise(rows))
    alike = sum(row["models"] == next_row["models"] for row, next_row in neighbours)
    assert 50 <= alike <= 110  # a third of 239 by chance; a rule about neighbours would itself tell of models
    assert sum(row["id"] == next_row["id"] for row, next_row in neighbours) <= 10
    for model in ("base", "mid", "sft"):
        early = sum(row["models"] == [model] for row in rows[:120])
        assert 27 <= early <= 53


def test_the_same_items_are_drawn_for_all_models_whatever_the_models(tmp_path):
    written = texts(["base", "mid", "sft"], 40)
    few, all_models = (
        make(tmp_path / name, {model: written[model] for model in models}, samples=10)
        for name, models in (("few", ["sft"]), ("all", ["base", "mid", "sft"]))
    )
    drawn = {row["id"] for row in key_of(few)["rows"].values()}
    assert len(drawn) == 10
    seen = {(row["id"], *row["models"]) for row in key_of(all_models)["rows"].values()}
    assert seen == {(identity, model) for identity in drawn for model in ("base", "mid", "sft")}
    other_seed = make(tmp_path / "other", written, samples=10, seed=43)
    assert {row["id"] for row in key_of(other_seed)["rows"].values()} != drawn


def test_models_that_wrote_the_same_share_a_row(tmp_path):
    sheet = make(tmp_path, {"base": {"c/0": "same", "c/1": "one"}, "sft": {"c/0": "same", "c/1": "two"}})
    rows = key_of(sheet)["rows"].values()
    assert sorted((row["id"], row["response"], row["models"]) for row in rows) == [
        ("c/0", "same", ["base", "sft"]),
        ("c/1", "one", ["base"]),
        ("c/1", "two", ["sft"]),
    ]
    assert len(read(sheet / "sheet.csv")) == 3


def test_same_texts_give_the_same_sheet_and_other_texts_another_name(tmp_path):
    written = texts(["base", "sft"], 5)
    first, again = (make(tmp_path / name, written) for name in ("first", "again"))
    assert contents(first) == contents(again)
    written["sft"]["c/3"] += "!"
    names = {key_of(make(tmp_path / "third", written))["sheet"], key_of(first)["sheet"]}
    assert len(names) == 2
    assert all(re.fullmatch("[b-df-hj-np-t]{8}", name) for name in names)  # no number, no date, no formula


def test_the_cells_of_the_csv_file_are_read_back_unchanged(tmp_path):
    sheet = make(tmp_path, {"sft": {f"c/{n}": text for n, text in enumerate(HOSTILE)}})
    assert (sheet / "sheet.csv").read_bytes().startswith(b"\xef\xbb\xbf")  # else Excel garbles Chinese
    rows, key = read(sheet / "sheet.csv"), key_of(sheet)["rows"]
    assert list(rows[0]) == HEADER
    for row in rows:
        shown = key[row["row"]]
        assert row["response"].removeprefix("'") == shown["response"]
        assert (row["reference"], row["correct"], row["comment"]) == ("它排序。\nIt sorts.", "", "")
    assert '"quoted", and; more\nlines\ttoo' in [row["response"] for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "  =1", "\n=1", "\t=1", "＝1+1", "＠x"),
        *("3.10", "007", "1e5", "1/2", "2024-01-02", "2 Mar 2024", "10:30", "5%", "(5)", "TRUE", "false"),
    ],
)
def test_cells_that_a_spreadsheet_would_convert_are_marked_as_text(text):
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "def f(x):\n    return x + 1", "它排序 3 个数", "x = 1\n", "true story", "a=b"])
def test_other_cells_are_not_changed(text):
    assert guarded(text) == text


def test_characters_that_no_spreadsheet_keeps_are_shown_as_pictures_and_long_texts_are_cut():
    assert plain("a\x00b\x1bc\x7fd\r\ne\rf\tg") == "a␀b␛c␡d\ne\nf\tg"
    assert plain("x" * LONGEST) == "x" * LONGEST
    cut = plain("𝒳" * (LONGEST + 5))
    assert cut.endswith("𝒳 … (5 characters more)")
    assert len(cut.encode("utf-16-le")) / 2 < 32_767  # of a cell of Excel


class Tags(HTMLParser):
    def __init__(self, html: str):
        super().__init__()
        self.found, self.loads = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "action") or name.startswith("on")]


def test_the_form_loads_nothing_and_holds_texts_as_data_only(tmp_path):
    sheet = make(tmp_path, {"sft": {f"c/{n}": text for n, text in enumerate(HOSTILE)}})
    html = (sheet / "sheet.html").read_text(encoding="utf-8")
    tags = Tags(html)
    assert (tags.found.count("script"), tags.loads) == (1, [])
    assert not re.findall(r"url\(|@import|https?:|fetch\(|innerHTML|document\.write", html)
    assert html.count("<script") == html.count("</script") == 1
    assert '"viewport" content="width=device-width' in html


def test_items_without_a_response_of_every_model_are_refused_in_one_line(tmp_path):
    written = texts(["base", "sft"], 3)
    del written["sft"]["c/1"]
    with pytest.raises(UserError, match="base has item c/1 of chats, sft has not"):
        make(tmp_path, written)
    with pytest.raises(UserError, match=r"evaluation\.human.datasets: base has no items of code"):
        make(tmp_path, texts(["base"], 3), datasets=["code"])


@pytest.mark.parametrize("item", [{"id": "c/0"}, {"written": []}, ["no item"]])
def test_an_item_without_a_text_is_named(tmp_path, item):
    suite = write_suite(tmp_path / "suite", texts(["base"], 1))
    dump_lines(suite / "base/items.jsonl.zst", [item])
    settings = json.dumps({"of": "qa", "models": ["base"], "datasets": ["chats"], "samples": 1})
    command = [sys.executable, "-m", "scripts.evaluation.sheet", "--suite", str(suite), "--settings", settings]
    done = subprocess.run(
        [*command, "--seed", "1", "--out", str(tmp_path / "sheet")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {suite / 'base/items.jsonl.zst'}: line 1: no generated text, ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "sheet").exists()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Fills the form as a person does, presses the button and shows the file, which `--dump-dom` then prints.
DRIVER = """
<script>
const answers = ANSWERS;
for (const [row, answer] of Object.entries(answers))
  document.querySelector(`input[name="${row}"][value=${answer}]`).click();
const comment = document.querySelector("fieldset input[type=text]");
comment.value = "=HYPERLINK(1) 好, \\"so\\"";
comment.dispatchEvent(new Event("input"));
byId("name").value = "Anna / 安娜";
URL.createObjectURL = blob => { window.blob = blob; return "#"; };
HTMLAnchorElement.prototype.click = function () { window.file = this.download; };
byId("save").click();
const show = (id, text) => { element(document.body, "output", { id, textContent: encodeURIComponent(text) }); };
show("file", window.file);
show("kept", localStorage.getItem("sheet " + sheet));
show("count", byId("count").textContent);
blob.arrayBuffer().then(bytes => show("bytes", String.fromCharCode(...new Uint8Array(bytes))));
</script>
</body>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")
def test_a_browser_downloads_the_sheet_that_was_filled_in(tmp_path):
    sheet = make(tmp_path, {"sft": {f"c/{n}": text for n, text in enumerate(HOSTILE)}})
    rows = read(sheet / "sheet.csv")
    answers = {row["row"]: ("yes", "no")[number % 2] for number, row in enumerate(rows)}
    html = (sheet / "sheet.html").read_text(encoding="utf-8")
    page = tmp_path / "driven.html"
    page.write_text(html.replace("</body>", DRIVER.replace("ANSWERS", json.dumps(answers))), encoding="utf-8")
    quiet = ["background-networking", "component-update", "sync", "gpu", "quic"]
    command = [CHROMIUM, "--headless", "--no-sandbox", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}"]
    command += [f"--disable-{name}" for name in quiet] + ["--virtual-time-budget=3000", "--window-size=500,2000"]
    shown = subprocess.run([*command, "--dump-dom", f"file://{page}"], capture_output=True, timeout=60, check=True)
    dom = shown.stdout.decode()
    outputs = {
        name: urllib.parse.unquote(text) for name, text in re.findall(r'<output id="(\w+)">([^<]*)</output>', dom)
    }
    assert outputs["file"] == "Anna-安娜.csv"
    assert outputs["count"] == f"{len(rows)} of {len(rows)} rated"
    assert json.loads(outputs["kept"])[rows[0]["row"]]["correct"] == "yes"
    expected = io.StringIO(newline="")
    writer = csv.DictWriter(expected, HEADER, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    comments = {rows[0]["row"]: '\'=HYPERLINK(1) 好, "so"'}
    writer.writerows(row | {"correct": answers[row["row"]], "comment": comments.get(row["row"], "")} for row in rows)
    assert outputs["bytes"].encode("latin-1").decode("utf-8-sig") == expected.getvalue()
    assert outputs["bytes"].startswith("\xef\xbb\xbf")
