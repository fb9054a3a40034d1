"""scripts/report/content/rendering.py: what a Markdown reader makes of the report, by an independent parser."""

import pytest
from markdown_it import MarkdownIt

from scripts.report.content.rendering import escape


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


@pytest.mark.parametrize(
    "name", ["a|b", "a\nb\r\nc", "`x` *y* [z](http://e) ![i](j) <b> &amp; ~~s~~ # $x$", "\\|", "_a_"]
)
def test_any_name_fills_exactly_one_cell_unchanged(name):
    (table,) = cells(f"| {escape(name)} | next |\n|---|---|\n| {escape(name)} | next |\n")
    shown = " ".join(name.split()) if "\n" in name else name
    assert [[" ".join(cell.split()) for cell in row] for row in table] == [[shown, "next"]] * 2
