"""scripts/report/cards.py: a data card says what a dataset is made from, and no data can change its form."""

import json
from collections import Counter
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.common.options import given
from scripts.corpus.compose import compose
from scripts.corpus.formats.filter_writer import funnel
from scripts.corpus.split import split
from scripts.experiment.layout import Layout
from scripts.experiment.settings.corpus import CodeDataset, Split
from scripts.report import cards

HOSTILE = "# <script>alert(1)</script> | `x`\n````\n| a | b |\n```python\nprint()\n"
SOURCES = {
    name: {"kind": "git", "location": f"https://x.org/{name}", "pin": pin * 40, "licence": licence}
    for name, pin, licence in (("alpha", "1", "MIT"), ("beta", "2", "Apache-2.0"))
}
SETTINGS = {
    "experiment": "tiny",
    "compose": {"code": {"kind": "code", "fim_rate": 0.5}, "own": {"kind": "text", "path": "data/notes"}},
    "packed": ["code-512", "own-512"],
    "mixed": ["both-512"],
}


def document(source: str, number: int) -> dict:
    text = f"{number} of {source}\n" + HOSTILE
    return {
        "text": text,
        "path": f"d|{number}.py",
        "source": source,
        "language": "python",
        "sha256": f"{source}{number}",
    }


@pytest.fixture
def layout(tmp_path) -> Layout:
    layout = Layout(tmp_path / "results")
    numbers = {"alpha": 30, "beta": 10}
    for source, count in numbers.items():
        with funnel(layout.filtered(source)) as out:
            for number in range(count):
                out.keep(document(source, number), 1)
            out.drop("long.py", source, "python", "too_long", "", 1500)
    with funnel(layout.deduplicated) as out:
        for source, count in numbers.items():
            for number in range(count):
                out.keep(document(source, number), 1)
    split(layout.deduplicated, Split(validation=0.1, test=0.1), layout.split)
    compose(layout.split, CodeDataset(kind="code"), 42, layout.dataset("code"))
    own = layout.dataset("own")
    for name in ("train", "validation", "test"):
        write_jsonl(
            own / f"{name}.jsonl.zst", [{"id": "n.md: 1", "language": "text", "source": "n.md", "text": "note"}]
        )
    write_manifest(
        own, [], kind="text", examples={"train": 1, "validation": 1, "test": 1}, dropped={"train": {"empty": 3}}
    )
    counts = {"rows": 2, "tokens": 1000, "targets": 990, "too_long": 0}
    for name in ("code", "own"):
        write_json(layout.shards(name, 512) / "manifest.json", {"splits": {"train": counts, "validation": counts}})
    part = {"rows": 6, "tokens": 3000, "targets": 2970, "epochs": 3, "available_rows": 2}
    write_json(layout.mixture("both", 512) / "manifest.json", {"splits": {"train": {"parts": {"code": part}}}})
    return layout


def make(layout: Layout, monkeypatch) -> Path:
    words = ["--results", str(layout.results), "--out", str(layout.cards), "--sources", json.dumps(SOURCES)]
    monkeypatch.setattr("sys.argv", ["cards", *words, "--settings", json.dumps(SETTINGS)])
    cards.cards(**given(cards.cards))
    return layout.cards


def test_a_card_has_sources_licences_funnel_tokens_and_samples_that_agree_with_the_data(layout, monkeypatch):
    out = make(layout, monkeypatch)
    card = read_json(out / "cards.json")["code"]
    documents = read_json(layout.split / "manifest.json")["documents"]
    assert card["examples"] == documents and card["settings"] == {"fim_rate": 0.5}
    assert sum(source["examples"] for source in card["sources"].values()) == documents["train"]
    assert card["sources"]["alpha"]["pin"] == "1" * 40 and list(card["sources"]) == ["alpha", "beta"]
    assert {name: facts["examples"] for name, facts in card["licences"].items()} == {
        SOURCES[name]["licence"]: facts["examples"] for name, facts in card["sources"].items()
    }
    assert card["funnel"]["files seen"] == 42 and card["funnel"]["dropped: too_long"] == 2
    assert card["dropped_bytes"] == {"too_long": 3000}
    rows = {(row["folder"], row["split"]): (row["tokens"], row["epochs"]) for row in card["tokens"]}
    assert rows == {
        ("code-512", "train"): (1000, 1),
        ("code-512", "validation"): (1000, 1),
        ("both-512", "train"): (3000, 3),
    }
    assert len({sample["id"] for sample in card["samples"]}) == 3
    own = read_json(out / "cards.json")["own"]
    assert own["funnel"] == {"left out: empty": 3} and own["licences"] == {
        "not stated": {"examples": 1, "characters": 4}
    }


def test_cards_are_the_same_from_run_to_run_and_a_missing_file_is_a_one_line_error(layout, monkeypatch):
    first = {path.name: path.read_bytes() for path in make(layout, monkeypatch).iterdir()}
    assert first == {path.name: path.read_bytes() for path in make(layout, monkeypatch).iterdir()}
    assert Counter(path.rpartition(".")[2] for path in first) == {"md": 2, "json": 1}
    (layout.dataset("code") / "train.jsonl.zst").unlink()
    with pytest.raises(UserError, match=r"^\S*train.jsonl.zst: no such file$"):
        make(layout, monkeypatch)
