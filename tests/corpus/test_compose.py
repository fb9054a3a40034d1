"""Rule compose: datasets of code and chats, their filters, shares and counts, and its command line."""

import json
from collections import Counter

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.corpus.compose import balance_tasks, compose
from scripts.experiment.layout import SPLITS
from scripts.experiment.settings.corpus import CodeDataset, Dataset
from scripts.experiment.settings.record import parse_json
from tests.corpus.documents import CHAT, PYTHON, SEED, document

CODE = CodeDataset(kind="code", fim_rate=0.5)


def write_splits(folder, documents):
    for name in SPLITS:
        write_jsonl(folder / f"{name}.jsonl.zst", documents[name])
    counts = {name: len(documents[name]) for name in SPLITS}
    write_manifest(folder, [f"{name}.jsonl.zst" for name in SPLITS], documents=counts)


def composed(folder, settings, out):
    manifest = compose(folder, settings, SEED, out)
    assert manifest == read_manifest(out)
    return manifest, {name: list(read_jsonl(out / f"{name}.jsonl.zst")) for name in SPLITS}


# --- chats -----------------------------------------------------------------------------------------------------


def test_a_dataset_holds_the_documents_of_its_sources_and_counts_the_others(tmp_path):
    documents = {name: [document(name, f"{source}.py", source=source) for source in ("a", "b", "c")] for name in SPLITS}
    write_splits(tmp_path / "in", documents)
    settings = CODE.model_copy(update={"sources": ["a", "c"]})
    manifest, made = composed(tmp_path / "in", settings, tmp_path / "out")
    assert [example["source"] for example in made["test"]] == ["a", "c"]
    assert manifest["examples"] == dict.fromkeys(SPLITS, 2)
    assert manifest["dropped"]["train"] == {"other_source": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "code"},
        {"kind": "instruct", "tasks": {"analysis": 1, "signature_to_body": 1}},
    ],
    ids=lambda settings: settings["kind"],
)
def test_progress_counts_the_documents_however_many_examples_they_give(tmp_path, monkeypatch, settings):
    made = []
    monkeypatch.setattr(
        "scripts.corpus.compose.Progress", lambda *arguments: made.append(Progress(*arguments)) or made[-1]
    )
    function = 'def f{}(a):\n    """Returns the larger one of both."""\n    b = a\n    return b\n\n\n'
    texts = ["".join(map(function.format, range(count))) for count in (0, 1, 5)]
    documents = [document(text, f"{n}.py", source=source) for source in "abc" for n, text in enumerate(texts)]
    write_splits(tmp_path / "in", dict.fromkeys(SPLITS, documents))
    settings = parse_json(Dataset, json.dumps(settings | {"sources": ["a", "b"]}))
    manifest, _ = composed(tmp_path / "in", settings, tmp_path / "out")
    assert made[0].done == made[0].total == 27
    assert sum(manifest["examples"].values()) != 27


def test_examples_and_drops_of_a_chat_dataset_add_up(tmp_path):
    contents = [PYTHON, "x = 1\n" * 20, PYTHON * 50, "class A:\n    def f(self): pass\n"]
    documents = {name: [document(t, f"{i}.py") for i, t in enumerate(contents)] for name in SPLITS}
    documents["test"] = documents["test"][:1]
    write_splits(tmp_path / "in", documents)
    manifest, made = composed(tmp_path / "in", CHAT.model_copy(update={"system": "Be brief."}), tmp_path / "out")
    assert manifest["examples"] == {"train": 1, "validation": 1, "test": 1}
    both = {"no_facts": 2, "too_long": 1}  # a class without documentation: a list of its names explains nothing
    assert manifest["dropped"] == {"train": both, "validation": both, "test": {}}
    assert [example["id"] for example in made["train"]] == ["demo/0.py"]
    assert {example["messages"][0]["content"] for example in made["train"]} == {"Be brief."}


# --- the command line ------------------------------------------------------------------------------------------


def test_a_broken_line_leaves_no_manifest(tmp_path):
    write_splits(tmp_path / "in", {name: [document(PYTHON)] for name in SPLITS})
    (tmp_path / "in/test.jsonl.zst").write_bytes(b"not zstd")
    write_manifest(tmp_path / "in", [f"{name}.jsonl.zst" for name in SPLITS], documents=dict.fromkeys(SPLITS, 1))
    with pytest.raises(UserError, match=r"test\.jsonl\.zst"):
        compose(tmp_path / "in", CODE, SEED, tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists() and not (tmp_path / "out/test.jsonl.zst").exists()


def test_of_each_task_as_many_chats_stay_as_the_weights_say_and_the_scarcest_keeps_all(tmp_path):
    numbers, dropped = {"a": 30, "b": 12, "c": 50}, Counter()
    chats = [{"id": f"{task} {n}", "task": task} for task, count in numbers.items() for n in range(count)]
    kept = list(balance_tasks(iter(chats), {"a": 2, "b": 1, "c": 3.5}, True, SEED, tmp_path / "out", dropped))
    assert Counter(chat["task"] for chat in kept) == {"a": 24, "b": 12, "c": 42}
    assert dropped == {"task_share": 14} and kept == [chat for chat in chats if chat in kept]
    backwards = list(
        balance_tasks(iter(chats[::-1]), {"a": 2, "b": 1, "c": 3.5}, True, SEED, tmp_path / "out", dropped)
    )
    assert sorted(chat["id"] for chat in backwards) == sorted(chat["id"] for chat in kept)
    with pytest.raises(UserError, match=r"^corpus\.compose\.out\.tasks\.d: no document gives an example"):
        list(balance_tasks(iter(chats), {"a": 1, "d": 1}, True, SEED, tmp_path / "out", dropped))
