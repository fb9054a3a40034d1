"""Write a data card for each dataset: `NAME.md` for people, and all of them in `cards.json`.

    python -m scripts.report.cards --results results \\
        --settings '{"experiment": "x", "compose": {"code": {"kind": "code"}}, "packed": ["code-512"], "mixed": []}' \\
        --sources '{"click": {"name": "click", "kind": "git", ...}}' --out results/report/cards

A card names the sources, commits and licences of a dataset, counts what was left out at each step and why, the examples
of each language and the tokens, and shows samples. The report shows the same.
"""

import heapq
import json
from collections import Counter
from pathlib import Path

from scripts.common.cli import run
from scripts.common.files import atomic, read_json, read_jsonl, write_json
from scripts.common.options import command
from scripts.common.text import code_block, text_digest
from scripts.experiment.layout import MANIFEST, Layout, split_file
from scripts.report.content.funnel import FunnelCounts, read_funnel
from scripts.report.content.rendering import escape

SAMPLES = 3
OWN = ("chat", "text")  # kinds of dataset made from the user's own files
UNKNOWN = "not stated"  # the licence of files that are the user's own


def text_of(example: dict) -> str:
    """The text of an example; of a chat its messages, one below the other."""
    if "messages" in example:
        return "\n\n".join(f"{message['role']}: {message['content']}" for message in example["messages"])
    return example["text"]


def content_of(folder: Path, sources: dict[str, dict]) -> dict:
    """Counts and samples of a dataset's training split.

    Args:
        sources: the columns of each row of the sources table, by name.

    Returns:
        `sources`, `languages` and `licences`, each name → {`examples`, `characters`}, most examples first; and
        `samples`, chosen by a hash of the id.
    """
    counted = {kind: (Counter(), Counter()) for kind in ("sources", "languages", "licences")}
    samples: list[tuple] = []  # heap of (minus the hash of the id, id, example): the largest hash is removed first
    for example in read_jsonl(split_file(folder, "train")):
        size, source = len(text_of(example)), example["source"]
        licence = example.get("licence") or sources.get(source, {}).get("licence", UNKNOWN)
        for kind, name in (("sources", source), ("languages", example["language"]), ("licences", licence)):
            counted[kind][0][name] += 1
            counted[kind][1][name] += size
        rank = -int.from_bytes(text_digest(str(example["id"]))[:8])
        if len(samples) < SAMPLES:
            heapq.heappush(samples, (rank, str(example["id"]), example))
        elif rank > samples[0][0]:
            heapq.heapreplace(samples, (rank, str(example["id"]), example))
    tables = {}
    for kind, (examples, characters) in counted.items():
        most_first = sorted(examples.items(), key=lambda item: (-item[1], item[0]))
        tables[kind] = {name: {"examples": count, "characters": characters[name]} for name, count in most_first}
    keys = ("id", "source", "language")
    shown = []
    for *_, chosen in sorted(samples, reverse=True):
        shown.append({key: chosen[key] for key in keys} | {"text": text_of(chosen)})
    return tables | {"samples": shown}


def tokens_of(dataset: str, settings: dict, layout: Layout) -> list[dict]:
    """Folder, split and counts of each set of packed rows that holds the dataset, mixtures included."""
    token_rows = []
    for folder in (layout.shards("", "").with_name(name) for name in settings["packed"]):
        if folder.name.rpartition("-")[0] == dataset:
            for split, counts in read_json(folder / MANIFEST)["splits"].items():
                numbers = {key: counts[key] for key in ("rows", "tokens", "targets", "too_long")}
                token_rows.append({"folder": folder.name, "split": split, "epochs": 1, **numbers})
    for folder in (layout.mixture("", "").with_name(name) for name in settings["mixed"]):
        counts = read_json(folder / MANIFEST)["splits"]["train"]
        part = counts["parts"].get(dataset)
        if part is not None:
            numbers = {key: part[key] for key in ("epochs", "rows", "tokens", "targets")}
            token_rows.append({"folder": folder.name, "split": "train", "too_long": 0, **numbers})
    return token_rows


def funnel_of(funnel: FunnelCounts, manifest: dict) -> dict[str, int]:
    """Step → files or documents that are left after it, or were dropped in it, from the repositories to the splits."""
    dropped = {f"dropped: {reason}": int(count) for reason, count in funnel.dropped.items()}
    splits = {f"documents for {split}": count for split, count in funnel.splits.items()}
    left_out = sum((Counter(reasons) for reasons in manifest["dropped"].values()), Counter())
    composed = {f"left out of the dataset: {reason}": count for reason, count in left_out.most_common()}
    return {"files seen": funnel.seen, **dropped, "documents kept": funnel.kept, **splits, **composed}


def data_cards(settings: dict, sources: dict[str, dict], results: Path) -> dict[str, dict]:
    """The card of each dataset. `settings`: `compose`, the settings of each dataset, and `packed` and `mixed`, the
    names of the folders of rows; `sources`: the columns of each row of the sources table, by name."""
    layout, cards = Layout(results), {}
    for name, dataset in settings["compose"].items():
        manifest, is_own = read_json(layout.dataset(name) / MANIFEST), dataset["kind"] in OWN
        content = content_of(layout.dataset(name), {} if is_own else sources)
        if is_own:
            dropped = sum((Counter(reasons) for reasons in manifest["dropped"].values()), Counter())
            funnel = {f"left out: {reason}": count for reason, count in dropped.most_common()}
            dropped_bytes = {}
        else:
            counted = read_funnel(results, list(sources))
            funnel, dropped_bytes = funnel_of(counted, manifest), counted.dropped_bytes
            for source, counts in content["sources"].items():
                counts |= {key: sources[source][key] for key in ("kind", "location", "pin", "licence")}
        cards[name] = {
            "kind": dataset["kind"],
            "settings": {key: value for key, value in dataset.items() if key != "kind"},
            "examples": manifest["examples"],
            "funnel": funnel,
            "dropped_bytes": dropped_bytes,
            "tokens": tokens_of(name, settings, layout),
            **content,
        }
    return cards


SHOWN = 1200  # characters of a sample


def shortened(text: str) -> str:
    """A text cut at `SHOWN` characters."""
    return f"{text[:SHOWN]}\n… ({len(text) - SHOWN:,} characters more)" if len(text) > SHOWN else text


def table(head: tuple[str, ...], rows: list[tuple]) -> list[str]:
    """A Markdown table; numbers are right-aligned."""
    line = ["---:" if rows and isinstance(cell, int | float) else "---" for cell in (rows[0] if rows else head)]
    cells = []
    for row in rows:
        cells.append([f"{cell:,}" if isinstance(cell, int | float) else escape(cell) for cell in row])
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
    rows = []
    for row_name in card["tokens"]:
        rows.append(tuple(row_name[key] for key in ("folder", "split", "rows", "tokens", "targets", "epochs")))
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
            *(n.get("kind", ""), n.get("location", ""), n.get("pin", ""), n.get("licence", "")),
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


def cards(settings: dict, sources: dict, results: Path, out: Path) -> None:
    """Write the cards to the folder `out`; see `data_cards`. `settings` has the name of the `experiment`, too."""
    write_cards(data_cards(settings, sources, results), settings["experiment"], out)


if __name__ == "__main__":
    run(command(cards))
