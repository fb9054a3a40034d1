"""scripts/report/templates/rendering.py: what a Markdown reader makes of the report, by an independent parser."""

import json

import pytest
from markdown_it import MarkdownIt

from scripts.report.content.formatting import number
from scripts.report.templates.rendering import escape, fill
from tests.report.conftest import HOSTILE


def cells(markdown):
    """The tables of a Markdown text: [table][row][cell], as their text."""
    tables = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and token.level > 3:
            tables[-1][-1].append("".join(part.content for part in token.children if part.type.startswith("text")))
    return tables


@pytest.fixture(scope="module")
def evaluation(results_root):
    return json.loads((results_root / "evaluation/gate/eval.json").read_text())


def test_tables_hold_the_gates_scores_and_comparisons(evaluation):
    gates, perplexity, qa, contamination, baselines, comparisons, sources = cells(fill("report.md.j2", evaluation))
    assert [row[1:3] for row in gates[1:]] == [
        [gate["outcome"], number(gate["value"], gate["against"] is not None)] for gate in evaluation["gates"]
    ]
    assert len(perplexity) == 1 + 3 * 2 * 4  # models, datasets, languages with all
    score = evaluation["scores"]["sft"]["qa"]["instruct"]["all"]["exact_match"]["value"]
    assert ["instruct", "all", "sft", "30", number(score)] in [row[:5] for row in qa]
    assert len(baselines) == 1 + 2 * 3 * 2  # datasets, models, the compressor alone and trained
    assert len(comparisons) == 1 + sum(row["language"] == "all" for row in evaluation["comparisons"])
    assert [row[0] for row in sources] == ["source", "alpha", "beta"]
    assert contamination[1] == ["qa", "instruct", "30", "5", "1"]
    for table in (gates, perplexity, qa, contamination, baselines, comparisons, sources):
        assert {len(row) for row in table} == {len(table[0])}


def test_hostile_names_are_shown_as_text(evaluation):
    text = fill("report.md.j2", evaluation)
    assert "<script" not in text
    assert HOSTILE in cells(text)[0][2][0]


@pytest.mark.parametrize(
    "name", ["a|b", "a\nb\r\nc", "`x` *y* [z](http://e) ![i](j) <b> &amp; ~~s~~ # $x$", "\\|", "_a_"]
)
def test_any_name_fills_exactly_one_cell_unchanged(name):
    (table,) = cells(f"| {escape(name)} | next |\n|---|---|\n| {escape(name)} | next |\n")
    shown = " ".join(name.split()) if "\n" in name else name
    assert [[" ".join(cell.split()) for cell in row] for row in table] == [[shown, "next"]] * 2


def test_an_experiment_without_gates_is_reported_as_such(evaluation):
    text = fill("report.md.j2", evaluation | {"gates": [], "verdict": "no gates"})
    assert "The experiment names no gates." in text
    assert text.startswith("# synthetic: No gates, no verdict\n")
