"""The content of a data card: sources and their pins, licences, languages, funnel, tokens, samples of a dataset.

    cards = data_cards(settings, sources, Path("results"))     # {"code": {"kind": "code", ...}, ...}

Tables of sources, licences and languages count the training split, which is read once.
"""

import heapq
from collections import Counter
from pathlib import Path

from scripts.common.files import read_json, read_jsonl
from scripts.common.hashing import text_digest
from scripts.experiment.layout import MANIFEST, Layout, split_file
from scripts.report.content.funnel import FunnelCounts, read_funnel

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
    tables = {
        kind: {
            name: {"examples": count, "characters": characters[name]}
            for name, count in sorted(examples.items(), key=lambda item: (-item[1], item[0]))
        }
        for kind, (examples, characters) in counted.items()
    }
    keys = ("id", "source", "language")
    shown = [
        {key: example[key] for key in keys} | {"text": text_of(example)}
        for *_, example in sorted(samples, reverse=True)
    ]
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
        if (part := counts["parts"].get(dataset)) is not None:
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
    """The card of each dataset.

    Args:
        settings: `compose`, the settings of each dataset, and `packed` and `mixed`, the names of the folders of rows.
        sources: the columns of each row of the sources table, by name.

    Raises:
        UserError: a manifest or a file is missing or malformed.
    """
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
