"""Rule compose: datasets of code and chats, their filters, shares and counts, and its command line."""

import json

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.corpus.compose import compose
from scripts.experiment.layout import SPLITS
from scripts.experiment.settings.corpus import CodeDataset, Dataset
from scripts.experiment.settings.record import parse_json, to_json
from tests.corpus.archives import call
from tests.corpus.documents import CHAT, PYTHON, SEED, document, texts

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


# --- code ------------------------------------------------------------------------------------------------------


def test_a_code_dataset_has_one_example_per_document_in_order(tmp_path):
    documents = {name: [document(f"{name}{t}", f"{i}.py") for i, t in enumerate(texts(50))] for name in SPLITS}
    write_splits(tmp_path / "in", documents)
    manifest, made = composed(tmp_path / "in", CODE, tmp_path / "out")
    assert manifest["fim"] == {"rate": 0.5, "spm_rate": 0.5, "seed": SEED}
    assert manifest["kind"] == "code" and manifest["examples"] == dict.fromkeys(SPLITS, 50)
    assert manifest["dropped"] == {name: {} for name in SPLITS}
    for name in SPLITS:
        for example, origin in zip(made[name], documents[name], strict=True):
            assert (example["id"], example["language"]) == (f"demo/{origin['path']}", "python")
            assert example["text"] == origin["text"]
    composed(tmp_path / "in", CODE, tmp_path / "again")
    assert (tmp_path / "out/train.jsonl.zst").read_bytes() == (tmp_path / "again/train.jsonl.zst").read_bytes()


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


# --- at most a share of a source -------------------------------------------------------------------------------


# --- the command line ------------------------------------------------------------------------------------------


def test_the_command_line_composes_and_refuses_documents_that_are_not_their_manifests(tmp_path):
    write_splits(tmp_path / "in", {name: [document(PYTHON)] for name in SPLITS})
    arguments = ["--splits", tmp_path / "in", "--settings", to_json(CHAT), "--seed", SEED, "--out", tmp_path / "out"]
    assert call("compose", *arguments).returncode == 0
    damaged = tmp_path / "in/test.jsonl.zst"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    refused = call("compose", *arguments[:-1], tmp_path / "other")
    assert refused.returncode == 1 and refused.stderr.startswith(
        f"error: {damaged}: {damaged.stat().st_size} bytes, its manifest says "
    )
    assert refused.stderr.count("\n") == 1 and not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ('{"kind": "cod"}', "kind: must be one of code, instruct, chat, text, not 'cod'"),
        ('{"fim_rate": 1}', "kind: required"),
        ('{"kind": "code", "fim_rat": 1}', "fim_rat: unknown key; did you mean `fim_rate`?"),
        ('{"kind": "code", "fim_rate": 2}', "fim_rate: must be at most 1, not 2"),
    ],
)
def test_settings_of_a_dataset_are_those_of_its_kind(settings, line):
    with pytest.raises(UserError) as error:
        parse_json(Dataset, settings)
    assert str(error.value) == f"--settings: {line}"


def test_a_broken_line_leaves_no_manifest(tmp_path):
    write_splits(tmp_path / "in", {name: [document(PYTHON)] for name in SPLITS})
    (tmp_path / "in/test.jsonl.zst").write_bytes(b"not zstd")
    write_manifest(tmp_path / "in", [f"{name}.jsonl.zst" for name in SPLITS], documents=dict.fromkeys(SPLITS, 1))
    with pytest.raises(UserError, match=r"test\.jsonl\.zst"):
        compose(tmp_path / "in", CODE, SEED, tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists() and not (tmp_path / "out/test.jsonl.zst").exists()
