"""Write a data card for each dataset: `NAME.md` for people, and all of them in `cards.json`.

    python -m scripts.report.cards --results results \\
        --settings '{"experiment": "x", "compose": {"code": {"kind": "code"}}, "packed": ["code-512"], "mixed": []}' \\
        --sources '{"click": {"name": "click", "kind": "git", ...}}' --out results/report/cards

A card names the sources, commits and licences of a dataset, counts what was left out at each step and why, the examples
of each language and the tokens, and shows samples. The report shows the same.
"""

import json
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.files import atomic, write_json
from scripts.common.text import code_block
from scripts.report.content.data_card import data_cards
from scripts.report.templates.rendering import escape

SHOWN = 1200  # characters of a sample


def shortened(text: str) -> str:
    """A text cut at `SHOWN` characters."""
    return f"{text[:SHOWN]}\n… ({len(text) - SHOWN:,} characters more)" if len(text) > SHOWN else text


def table(head: tuple[str, ...], rows: list[tuple]) -> list[str]:
    """A Markdown table; numbers are right-aligned."""
    line = ["---:" if rows and isinstance(cell, int | float) else "---" for cell in (rows[0] if rows else head)]
    cells = [[f"{cell:,}" if isinstance(cell, int | float) else escape(cell) for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in ([*head], line, *cells)]


def share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else "-"


def markdown(name: str, card: dict, experiment: str) -> str:
    """A card as a Markdown page."""
    examples, train = card["examples"], card["examples"]["train"]
    splits = ", ".join(f"{count:,} for {split}" for split, count in examples.items())
    lines = [
        f"# Data card: {escape(name)}",
        "",
        f"Dataset of kind `{card['kind']}` of experiment {escape(experiment)}.",
    ]
    lines += [f"Examples: {splits}. Tables of sources, licences and languages count the training split.", ""]
    lines += [f"- {key}: `{json.dumps(value, ensure_ascii=False)}`" for key, value in card["settings"].items()]
    lines += ["", "## Tokens", ""]
    rows = [
        tuple(row_name[key] for key in ("folder", "split", "rows", "tokens", "targets", "epochs"))
        for row_name in card["tokens"]
    ]
    lines += table(("packed rows", "split", "rows", "tokens", "of these targets", "epochs"), rows)
    lines += ["", "## Languages", ""]
    rows = [
        (row_name, n["examples"], share(n["examples"], train), n["characters"])
        for row_name, n in card["languages"].items()
    ]
    lines += table(("language", "examples", "share", "characters"), rows)
    lines += ["", "## Licences", ""]
    rows = [
        (row_name, n["examples"], share(n["examples"], train), n["characters"])
        for row_name, n in card["licences"].items()
    ]
    lines += table(("licence", "examples", "share", "characters"), rows)
    lines += ["", "## Sources", ""]
    rows = [
        (
            row_name,
            *(n.get(key, "") for key in ("kind", "location", "pin", "licence")),
            n["examples"],
            share(n["examples"], train),
        )
        for row_name, n in card["sources"].items()
    ]
    lines += table(("source", "kind", "location", "commit or sha256", "licence", "examples", "share"), rows)
    lines += ["", "## What was left out", "", *table(("files", "count"), list(card["funnel"].items()))]
    if card["dropped_bytes"]:
        total = sum(card["dropped_bytes"].values())
        rows = [(reason, size, share(size, total)) for reason, size in card["dropped_bytes"].items()]
        lines += ["", *table(("dropped because", "bytes", "share of what was dropped"), rows)]
    lines += ["", "## Samples"]
    for sample in card["samples"]:
        lines += [
            "",
            f"{escape(sample['id'])} ({escape(sample['language'])}):",
            "",
            code_block(shortened(sample["text"])),
        ]
    return "\n".join(lines) + "\n"


def write_cards(cards: dict[str, dict], experiment: str, out: Path) -> None:
    """Write a page per card, then `cards.json`, whose existence shows that all are complete."""
    for name, card in cards.items():
        with atomic(out / f"{name}.md") as temporary:
            temporary.write_text(markdown(name, card, experiment), encoding="utf-8")
    write_json(out / "cards.json", cards)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--results", type=Path, required=True, help="the results root")
    arguments.add_argument(
        "--settings", type=json.loads, required=True, help="experiment, compose, packed, mixed, as JSON"
    )
    arguments.add_argument(
        "--sources", type=json.loads, required=True, help="rows of the sources table by name, as JSON"
    )
    arguments.add_argument("--out", type=Path, required=True, help="folder for the cards")
    args = arguments.parse_args()
    write_cards(data_cards(args.settings, args.sources, args.results), args.settings["experiment"], args.out)


if __name__ == "__main__":
    run(main)
