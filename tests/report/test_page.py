"""results/report.html: its structure, the texts and figures on it, and how a browser shows it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.files import read_json, write_json
from scripts.evaluation.gate import evaluate
from scripts.evaluation.suites.qa import SUITE
from scripts.report.content.formatting import interval, number
from scripts.report.content.wording import printed_summary
from scripts.report.page import choose_examples, render, repeats, side_of
from tests.evaluation.synthetic import (
    SOURCES,
    WRITTEN,
    dump,
    gate,
    make_items,
    sha,
    write_baselines,
    write_model,
)
from tests.evaluation.synthetic import make_experiment as build_experiment
from tests.report.conftest import GATES, HOSTILE, Page

ROOT = Path(__file__).parents[2]


def test_page_is_well_formed_and_its_ids_are_unique(page):
    assert page.tags[0] == "html"
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("svg") == 3


class Tables(Page):
    """Records the elements around each table."""

    def __init__(self, html: str):
        self.around = []
        super().__init__(html)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.around.append(tuple(self.open))
        super().handle_starttag(tag, attrs)


def test_each_table_scrolls_in_a_box_of_its_own_so_that_a_phone_does_not_scroll_the_page():
    template = (ROOT / "scripts/report/content/page.html.j2").read_text()
    tables = Tables(re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", template, flags=re.S)).around
    assert len(tables) > 10
    assert {around[-1] for around in tables} == {"div"}


def test_each_box_of_tables_says_that_they_scroll():
    """The style shows it only where they do, in browsers that can tell."""
    template = (ROOT / "scripts/report/content/page.html.j2").read_text()
    boxes = [box for box in re.split(r"<div\b", template) if "<table" in box]
    assert len(boxes) > 10 and [box[:200] for box in boxes if 'class="hint"' not in box.split("<table")[0]] == []


def test_page_loads_nothing(html, page):
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(page.tags)
    loading = [(tag, value) for tag, name, value in page.attributes if name in ("src", "href", "xlink:href", "srcset")]
    links = ["report/cards", "evaluation/gate/eval.json"]
    assert [value for tag, value in loading if not value.startswith("#")] == links
    assert {value[1:] for tag, value in loading if tag == "a" and value.startswith("#")} <= set(page.ids)
    assert not re.findall(r"url\((?!#)|@import|@font-face", html)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


def test_hostile_names_are_shown_as_text(html, page):
    assert "<script" not in html
    text = "".join(page.text)
    assert text.count(HOSTILE) >= 2  # the verdict and the gate's row


def test_verdict_comes_first_then_the_gates(html, page):
    text = " ".join("".join(page.text).split())
    assert html.index('id="verdict"') < html.index('id="question"') < html.index('id="gates"')
    text = text[text.index("On your code (code, 600 lines of 30 files): ") :]  # the title says `Not met` before
    assert text.index("Not met") < text.index("2 of 3 gates are met.") < text.index("GateOutcomeValueIntervalBound")
    for row in GATES:
        assert row["name"] in text


def test_page_shows_scores_funnel_and_the_inputs_of_the_run(results_root, page):
    text = " ".join("".join(page.text).split())
    evaluation = json.loads((results_root / "evaluation/gate/eval.json").read_text())
    for row in evaluation["gates"]:
        signed = row["against"] is not None
        assert f"{number(row['value'], signed)}" in text
        assert interval(row["interval"], signed) in text
    for scores in evaluation["scores"].values():
        for score in scores["perplexity"]["code"].values():
            assert interval(score["perplexity"]["interval"]) in text
    for phrase in (
        "1,300 files seen, 210 documents kept",
        "180 for train",
    ):
        assert phrase in text
    for made_it in (*(source["pin"] for source in SOURCES.values()), sha("beta")[:12], "git_commit"):
        assert made_it in text


def test_page_shows_the_answers_of_each_model_as_text(html, page):
    assert WRITTEN not in html
    text = "".join(page.text)
    section = text[text.index("qa, instruct: written by base, pretrain, sft") :]
    assert section.index("gained") < section.index("failing")
    for model in ("base", "pretrain", "sft"):
        assert section.count(f"{WRITTEN} {model}") == 6  # three of each kind
    assert re.search(r"sft: 1(\.0+)?\b", section) and "numbers are f1" in section  # its grade beside each text
    assert "请分析 src/2.go" in section  # wrong by the base, right once tuned
    assert text.index("0 to 1: share of exact matches") < text.index("written by base, pretrain, sft")


def test_a_model_that_forgot_is_no_success_however_the_gates_are_met(make_results):
    gates = [gate("chats", dataset="instruct", against="pretrain", below=0)]
    results = make_results(gates)
    for model, level in {"base": 2.0, "pretrain": 1.2, "sft": 1.7}.items():
        items = [item for item in make_items(model, 10, level) if item["dataset"] == "code"]
        chats = make_items(model, 10, {"pretrain": 1.2}.get(model, 1.0))
        items += [item for item in chats if item["dataset"] == "instruct"]
        write_model(results.parent, model, items, {"code": sha("code"), "instruct": sha("instruct")})
        write_baselines(results.parent, items)
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    dump(path, evaluation | evaluate(build_experiment(gates), results))
    text = " ".join("".join(Page(html := render(results)).text).split())
    assert "All gates are met, but sft is worse on code" in text
    shown = printed_summary(read_json(path), results)
    assert shown.startswith("On your code") and "better on" not in shown
    assert "sft against pretrain: worse on code (bits per byte +0." in shown
    assert 'class="verdict met-not-secured"' in html
    assert "average" not in text


def test_examples_are_where_tuning_gained_most_then_where_it_fails():
    def items(*grades):
        return {
            name: {
                **{"id": name, "language": "go", "prompt": "x" * 5000, "reference": "", "written": [name]},
                **dict.fromkeys(("exact_match", "f1", "strict_match"), grade),
            }
            for name, grade in zip("abcdef", grades, strict=True)
        }

    both = items(0, 0, 0.5, 1, 0.5, 0), items(1, 0.25, 0.75, 0.5, 0.5, 0)
    whole = choose_examples(SUITE, *both, None)
    assert [item["kind"] for item in whole] == ["gained"] * 3 + ["failing"] * 3
    solved = choose_examples(SUITE, items(1, 0, 1, 0, 1, 0), items(1, 0, 1, 0, 1, 0), None)
    assert [item["kind"] for item in solved] == ["failing"] * 3 + ["solved"] * 3
    examples = choose_examples(SUITE, *both)
    assert [(item["kind"], item["id"]) for item in examples] == [
        *(("gained", name) for name in "abc"),
        *(("failing", name) for name in "fde"),
    ]
    assert examples[0]["prompt"].endswith("x … (1,000 characters more)")
    both[1]["a"]["written"] = ["the the the the the the"]
    assert [item["id"] for item in choose_examples(SUITE, *both) if item["kind"] == "gained"] == ["b", "c"]
    side = side_of(SUITE, "sft", both[1]["a"])
    assert side["outcome"] == "repeats itself"


@pytest.mark.parametrize(
    ("text", "degenerate"),
    [
        ("def f():\n" + "    return x\n" * 5, True),
        ("x the the the the the ", True),
        ("def " * 5, True),
        ("It is so. " * 4, True),
        ("x" + "哈" * 16, True),
        ("        self.assertEqual(value, other)\n" * 3, True),
        ("a = [1, 1, 1]\nb = [1, 1, 1]", False),
        ("    end\n  end\nend\n", False),
        ("return one(two)", False),
        ("return one(two, three, four)\n" * 2, False),
        ("a = [0, 0, 0, 0]\nreturn a", False),
        ("=" * 16, False),  # a rule of a comment
        ("self.a = a\nself.b = b\nself.c = c\n", False),
    ],
)
def test_a_text_that_ends_in_the_same_words_over_and_over_is_found(text, degenerate):
    assert repeats(text) is degenerate


def test_what_was_planned_stands_beside_what_was_measured_and_a_resumed_rest_is_not_compared(make_results):
    results = make_results()
    evaluation = read_json(results / "evaluation/gate/eval.json")
    assert "Planned and measured" not in render(results), "these stages started without a plan"
    plan = {"steps": 40, "tokens_per_second": 1000.0, "seconds": 10.0, "gpu_gib": 20.0}
    measured = {"tokens_per_second": 1100.0, "memory_gib": 21.0}
    first, second = list(evaluation["stages"])[:2]
    evaluation["stages"][first]["summary"] |= {"plan": plan, **measured}
    evaluation["stages"][second]["summary"] |= {"plan": {"steps": 40}, "resumed_at_step": 8}
    write_json(results / "evaluation/gate/eval.json", evaluation)
    page = render(results)
    cells = [re.sub("<[^>]*>", " ", row).split() for row in re.findall(r"<tr><td>.*?</tr>", page)]
    assert [first, "tokens", "per", "second", "1,000", "1,100", "+10.0%"] in cells
    assert [first, "hours", "0.0028", "0.0035", "+25.0%"] in cells
    assert [first, "GiB", "per", "GPU", "20.00", "21.00", "+5.0%"] in cells
    assert [second, "hours", "0.0035", "since", "step", "8"] in cells
    assert "so no hours were planned" in page


def test_missing_gates_and_few_documents_are_pointed_out(make_results):
    text = [part.strip() for part in Page(render(make_results([], documents=2))).text]
    assert any("No gates, no verdict" in part for part in text)
    assert {"too few documents", "too few documents differ"} <= set(text)


def test_summary_is_the_table_and_nothing_else(results_root):
    command = [sys.executable, "-m", "scripts.report.page", "--results", str(results_root), "--summary"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines.pop(0).startswith("On your code (code, 600 lines of 30 files): bits per byte fine-tuning -")
    assert re.split(r"\s{2,}", lines[0]) == ["gate", "value", "95% interval", "bound", "outcome"]
    assert re.split(r"\s{2,}", lines[3])[::4] == ["close", "met, not secured"]
    assert lines[-3:-1] == ["verdict: not met", f"report:  {results_root / 'report.html'}"]
    assert lines[-1].startswith("use it:  stagecraft try ")
    assert len(lines) == 7
    assert not (results_root / "report.html").exists()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")
def test_browser_shows_title_and_verdict_at_the_width_of_a_phone(html, tmp_path):
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    quiet = ["background-networking", "component-update", "sync", "gpu", "quic"]
    command = [CHROMIUM, "--headless", "--no-sandbox", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}"]
    command += [f"--disable-{name}" for name in quiet] + ["--window-size=500,2000", "--hide-scrollbars"]
    url = f"file://{tmp_path / 'report.html'}"
    shown = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "<title>synthetic: Not met</title>" in shown
    assert ">A gain, but too small to be seen</h1>" in shown and "Gates: Not met." in shown
    picture = tmp_path / "page.png"
    subprocess.run([*command, f"--screenshot={picture}", url], capture_output=True, timeout=60, check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000  # an empty page of that size has 5 kB


def test_a_gate_on_a_stage_itself_is_shown_without_an_interval(make_results):
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


def test_without_repositories_there_is_no_funnel(make_results):
    results = make_results()
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    evaluation["inputs"]["sources"] = {}
    dump(path, evaluation)
    text = "".join(Page(render(results)).text)
    assert not [phrase for phrase in ("files seen", "Sources and their pins") if phrase in text]
