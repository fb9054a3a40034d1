"""The page as a browser and a reader meet it."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib import pyplot

from scripts.common.cli import UserError
from scripts.evaluation.answers import SUITE
from scripts.report import plots
from scripts.report.data import EVALUATION
from scripts.report.examples import chosen
from scripts.report.page import extremes, render
from scripts.report.plots import draw
from scripts.report.text import contamination, explanation, interval, number
from tests.evaluation.synthetic import CODES, SOURCES, WRITTEN, dump, sha
from tests.report.conftest import GATES, HOSTILE

ROOT = Path(__file__).parents[2]
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and sees that what is opened is closed."""

    def __init__(self, html: str):
        super().__init__()
        self.open, self.tags, self.attributes, self.text, self.ids = [], [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text.append(data)


@pytest.fixture(scope="module")
def html(made):
    return render(made)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_page_is_well_formed_and_its_ids_are_its_own(page):
    assert page.tags[0] == "html"
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("svg") == 4


def test_page_loads_nothing(html, page):
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(page.tags)
    loading = [(tag, value) for tag, name, value in page.attributes if name in ("src", "href", "xlink:href", "srcset")]
    assert [value for tag, value in loading if not value.startswith("#")] == ["evaluation/gate/eval.json"]  # a link
    assert not re.findall(r"url\((?!#)|@import|@font-face", html)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


def test_hostile_names_come_out_as_text(html, page):
    assert "<script" not in html
    text = "".join(page.text)
    assert text.count(HOSTILE) >= 4  # the verdict, the gate's row, its picture, a test document
    assert HOSTILE in text[text.index("worst") :]


def test_verdict_comes_first_then_the_gates(html, page):
    text = " ".join("".join(page.text).split())
    assert html.index('id="verdict"') < html.index('id="gates"') < html.index("<svg")
    assert text.index("Not met") < text.index("2 of 3 gates are met.") < text.index("GateOutcomeValueIntervalBound")
    for gate in GATES:
        assert gate["name"] in text


def test_page_tells_scores_funnel_examples_and_what_made_it(made, page):
    text = " ".join("".join(page.text).split())
    evaluation = json.loads((made / "evaluation/gate/eval.json").read_text())
    for gate in evaluation["gates"]:
        signed = gate["against"] is not None
        assert f"{number(gate['value'], signed)}" in text
        assert interval(gate["interval"], signed) in text
    for scores in evaluation["scores"].values():
        for score in scores["perplexity"]["code"].values():
            assert interval(score["perplexity"]["interval"]) in text
    for told in (
        "1,300 files seen, 210 documents kept",
        "180 for train",
        "reference answer",
        "该文件定义了函数 main。",
    ):
        assert told in text
    for made_it in (*CODES.values(), *(source["pin"] for source in SOURCES.values()), sha("beta")[:12], "git_commit"):
        assert made_it in text


def test_page_shows_what_was_written_base_against_tuned_as_text(html, page):
    assert WRITTEN not in html
    text = "".join(page.text)
    told = text[text.index("qa, instruct: what base and sft wrote") :]
    assert told.index("gained") < told.index("failing")
    assert told.count(f"{WRITTEN} base") == told.count(f"{WRITTEN} sft") == 6  # three of each kind
    assert "请分析 src/2.go" in told  # wrong by the base, right once tuned
    assert text.index("0 to 1: share of exact matches") < text.index("what base and sft wrote")


def test_examples_are_where_tuning_gained_most_then_where_it_fails():
    def items(*grades):
        return {
            name: {
                **{"id": name, "language": "go", "prompt": "x" * 5000, "reference": "", "written": [name]},
                **dict.fromkeys(("exact_match", "f1", "strict_match"), grade),
            }
            for name, grade in zip("abcdef", grades, strict=True)
        }

    found = chosen(SUITE, items(0, 0, 0.5, 1, 0.5, 0), items(1, 0.25, 0.75, 0.5, 0.5, 0))
    assert [(item["kind"], item["id"]) for item in found] == [
        *(("gained", name) for name in "abc"),
        *(("failing", name) for name in "fde"),
    ]
    assert found[0]["prompt"].endswith("x … (1,000 characters more)")


def test_same_data_gives_the_same_page(made, html):
    assert render(made) == html


def test_extremes_are_the_easiest_and_hardest_documents():
    items = [{"id": f"{n}", "nll": float(n), "bytes": 2, "tokens": 1} for n in (5, 1, 9, 3, 7, 2, 8)]
    found = [(item["kind"], item["id"]) for item in extremes(items)]
    assert found == [("best", "1"), ("best", "2"), ("best", "3"), ("worst", "9"), ("worst", "8"), ("worst", "7")]
    assert [item["id"] for item in extremes(items[:2])] == ["1", "5"]  # none is both


def test_no_gates_and_few_documents_are_said(make_results):
    text = "".join(Page(render(make_results([], documents=2))).text)
    assert "No gates, no verdict" in text
    assert "too few documents" in text


def test_explanation_names_what_is_not_met_and_what_is_not_secured():
    outcomes = ["met", "not met", "not met, not secured", "met, not secured"]
    told = explanation([{"name": f"gate {n}", "outcome": outcome} for n, outcome in enumerate(outcomes)])
    assert told.startswith("2 of 4 gates are met. Not met: gate 1; gate 2. Not secured")
    assert told.endswith(": gate 2; gate 3.")


@pytest.mark.parametrize(
    ("value", "signed", "shown"),
    [
        (8201.4, False, "8,201"),
        (12.345, False, "12.35"),
        (1.1346, False, "1.135"),
        (-0.03181, True, "-0.0318"),
        (0.5, True, "+0.5000"),
        (0.0, False, "0.000"),
        (float("nan"), False, "none"),
        (None, False, "none"),
    ],
)
def test_numbers_have_four_digits(value, signed, shown):
    assert number(value, signed) == shown


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\x00", b'{"gates": '])
def test_malformed_evaluation_is_told_in_one_line(content, tmp_path):
    path = tmp_path / "evaluation/gate/eval.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    command = [sys.executable, "-m", "scripts.report.page", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {path}: not ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("content", [None, b"", b"<svg <p>cut", b"\xff\xfe"])
def test_broken_picture_is_named(content, make_results):
    results = make_results()
    picture = results / "report/plots/loss.svg"
    picture.unlink() if content is None else picture.write_bytes(content)
    with pytest.raises(UserError, match=r"loss\.svg: no"):
        render(results)


def test_summary_is_the_table_and_nothing_else(made):
    command = [sys.executable, "-m", "scripts.report.page", "--results", str(made), "--summary"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert re.split(r"\s{2,}", lines[0]) == ["gate", "value", "95% interval", "bound", "outcome"]
    assert re.split(r"\s{2,}", lines[3])[::4] == ["close", "met, not secured"]
    assert lines[4:] == ["verdict: not met", f"report:  {made / 'report.html'}"]
    assert not (made / "report.html").exists()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")
def test_browser_shows_title_and_verdict_at_the_width_of_a_phone(html, tmp_path):
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    quiet = ["background-networking", "component-update", "sync", "gpu", "quic"]
    command = [CHROMIUM, "--headless", "--no-sandbox", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}"]
    command += [f"--disable-{name}" for name in quiet] + ["--window-size=500,2000", "--hide-scrollbars"]
    url = f"file://{tmp_path / 'report.html'}"
    shown = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "<title>synthetic: Not met</title>" in shown
    assert ">Not met</h1>" in shown
    picture = tmp_path / "page.png"
    subprocess.run([*command, f"--screenshot={picture}", url], capture_output=True, timeout=60, check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000  # an empty page of that size has 5 kB


def test_a_gate_on_a_stage_itself_is_told_without_an_interval(make_results):
    gates = [
        {"name": "memory", "model": "sft", "language": "all", "metric": "memory_gib", "below": 45},
        {"name": "final loss", "model": "sft", "language": "all", "metric": "loss", "below": 3},
    ]
    results = make_results(gates)
    page = Page(render(results))
    text = " ".join(" ".join(page.text).split())
    assert "Met as far as it was measured" in text
    assert "1 of 2 gates are met. Not measured: memory." in text
    assert "memory sft, memory (GiB) not measured none below 45" in text
    assert "final loss sft, loss met 2.100 below 3" in text
    assert "too few documents" not in text[: text.index("Scores")]
    assert "memory: not measured" in (results / "report/plots/gates.svg").read_text()


def test_latency_is_told_where_it_was_measured_and_why_not_elsewhere(make_results):
    """The gate, its interval and the table of models, as the gate's own file says them."""
    results = make_results()
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    evaluation["inputs"]["experiment"]["evaluation"]["latency"] = {
        **{"device": "A40", "prompt_tokens": 300, "new_tokens": 512, "warmup": 2, "runs": 10}
    }
    timed = {
        "first_token_seconds": {"value": 0.125, "interval": [0.12, 0.13], "p95": 0.2},
        "answer_seconds": {"value": 1.5, "interval": [1.25, 1.75], "p95": 2.5},
        "tokens_per_second": {"value": 371.6, "interval": None, "p95": 222.2},
        "throughput": [{"batch": 1, "tokens_per_second": 341.3}, {"batch": 2, "tokens_per_second": 600}],
        "out_of_memory": 4,
    }
    evaluation["latency"] = {"base": {"not_applicable": f"models run on {HOSTILE} here"}, "sft": timed}
    load = {"load_per_core": 0.25, "gpu_utilisation": 0, "gpu_memory_gib": 0.5}
    conditions = {"dtype": "bfloat16", "attention": "sdpa", "threads": 8, "load": load}
    facts = {"device": "NVIDIA A40", "engine": {"name": "transformers", "version": "5.23.0"}, "conditions": conditions}
    evaluation["scoring"]["sft"]["latency"] = facts
    evaluation["scoring"]["base"]["latency"] = {"device": HOSTILE}
    facts = {
        "metric": "answer_seconds",
        "dataset": None,
        "language": None,
        "against": None,
        "side": "below",
        "bound": 2,
    }
    judged = {"name": "fast", "model": "sft", "value": 1.5, "interval": [1.25, 1.75], "outcome": "met"}
    evaluation["gates"].append(facts | judged)
    dump(path, evaluation)
    html = render(results)
    assert "<script" not in html
    text = " ".join(" ".join(Page(html).text).split())
    for told in (
        "fast sft, answer seconds met 1.500 1.250 to 1.750 below 2",
        "Medians of 10 runs after 2 to warm up, each from 300 tokens to 512 new ones",
        f"base: not applicable: models run on {HOSTILE} here",
        "sft NVIDIA A40, bfloat16, transformers 5.23.0, sdpa attention, CPU threads: 8; load per core before 0.2500,"
        " GPU 0% seconds to the first token 0.1250 0.1200 to 0.1300 0.2000",
        "tokens per second 371.6 too few runs 222.2",
        "tokens per second, batch 2 600.0",
        "batch 4 out of memory",
    ):
        assert told in text


def test_people_are_told_with_their_agreement_or_where_the_blank_sheet_lies(make_results):
    results = make_results()
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())

    def told(**keys):
        evaluation["human"] = {"sheet": "bcdfghjk", "rows": 30, "raters": {}, "agreement": None, "alpha": None} | keys
        dump(path, evaluation)
        page = Page(render(results))
        return page, " ".join(" ".join(page.text).split())

    page, text = told()
    assert "No sheet is filled yet. The blank one, 30 rows" in text
    assert ("a", "href", "evaluation/sheet/sheet.html") in page.attributes
    score = {"documents": 30, "correct": {"value": 0.8765, "interval": [0.7123, 0.9432]}}
    evaluation["scores"]["sft"]["human"] = {"instruct": {"all": score}}  # nobody rated the others
    evaluation["inputs"]["experiment"]["evaluation"]["human"] = {"of": "qa"}
    assert "One rater agrees with nobody" in told(raters={"anna": 0.9})[1]
    text = told(raters={"<b>anna": 0.9, "bo": 0.85}, agreement=0.875, alpha=0.6123)[1]
    assert "correct Interval instruct sft all 30 0.8765 0.7123 to 0.9432" in text
    assert "30 responses rated by <b>anna (90% correct), bo (85% correct). Pairs of raters agree on 88%" in text
    assert "alpha is 0.6123" in text
    picture = plots.scores(evaluation)
    assert [axes.get_title() for axes in picture.axes][-1] == "correct, instruct"
    pyplot.close(picture)


def test_summary_over_datasets_ends_with_the_average(made, page):
    summary = json.loads((made / "evaluation/gate/eval.json").read_text())["summary"]
    text = " ".join(" ".join(page.text).split())
    for name, row in (("code pretrain 30", summary["datasets"][0]), ("average", summary["average"])):
        ends = interval(row["interval"], True)
        told = [name, number(row["base"]), number(row["tuned"]), number(row["value"], True), ends, row["reading"]]
        assert " ".join(told) in text


def test_without_repositories_there_is_no_funnel(make_results):
    results = make_results()
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    evaluation["inputs"]["sources"] = {}
    dump(path, evaluation)
    draw(results, results / "report/plots")
    assert "no file was filtered" in (results / "report/plots/funnel.svg").read_text()
    text = "".join(Page(render(results)).text)
    assert not [told for told in ("files seen", "Sources and their pins", "no file was filtered") if told in text]


def test_chats_of_another_shape_are_no_part_of_a_page_without_instruct_data(make_results):
    results = make_results()
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    for dataset in evaluation["inputs"]["experiment"]["corpus"]["compose"].values():
        dataset["kind"] = "code"
    dump(path, evaluation)
    (results / "corpus/compose/instruct/test.jsonl.zst").unlink()
    assert "reference answer" not in render(results)


def test_the_page_shows_scores_with_and_without_what_overlaps(html, page):
    said = " ".join("".join(page.text).split())
    assert "5 of 30 problems share 10 words in a row with the training data. 1 could not be looked for" in said
    section = html[html.index("<h2>Contamination") : html.index("<h2>Datasets")]
    shown = " ".join(re.sub("<[^>]+>", " ", section).split())
    # of 30 answers of sft 18 are right, of the 25 that overlap nothing 13
    for row in ("sft with 30 0.6000", "without 25 0.5200", "50% of it found; 12 words in a row in code, src/a.go"):
        assert row in shown
    assert "<script" not in section and "&lt;script&gt;" in section
    assert section.count("<pre>") == 3  # of five


@pytest.fixture
def changed(made, tmp_path):
    """The page of the same results once `edit` has changed the `contamination` of eval.json."""

    def make(edit) -> str:
        results = shutil.copytree(made, tmp_path / "results")
        evaluation = json.loads((results / EVALUATION).read_text())
        edit(evaluation)
        dump(results / EVALUATION, evaluation)
        return render(results)

    return make


def test_the_page_says_plainly_when_nothing_overlaps(changed):
    html = changed(lambda evaluation: evaluation["contamination"]["suites"]["qa"]["instruct"].update(overlapping={}))
    assert "None of the 30 problems shares 10 words" in html and "without the overlapping" not in html


def test_the_page_says_plainly_when_everything_overlaps(changed):
    def edit(evaluation):
        for model in evaluation["contamination"]["without"].values():
            model["qa"]["instruct"] = dict.fromkeys(model["qa"]["instruct"])

    assert changed(edit).count("no problem is left") == 3


def test_without_a_suite_that_asks_the_page_has_no_such_section(changed):
    assert "Contamination" not in changed(lambda evaluation: evaluation.update(contamination=None))


def test_the_sentence_on_contamination():
    row = {"problems": 164, "too_short": 0, "overlapping": 16}
    assert contamination(10, [row]) == "16 of 164 problems share 10 words in a row with the training data."
    assert contamination(8, [row | {"overlapping": 0}]).startswith("None of the 164 problems shares 8 words")
