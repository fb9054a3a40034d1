import random

import pytest

from scripts.common.cli import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.formats.funnel import DOCUMENTS, funnel
from scripts.corpus.split import document_split, split
from scripts.experiment.layout import SPLITS
from scripts.experiment.settings.corpus import Split
from scripts.experiment.settings.record import to_json
from tests.corpus.archives import call

SETTINGS = Split(validation=0.1, test=0.2)


def write_documents(folder, names):
    with funnel(folder) as result:
        for source, path in names:
            text = f"{source} {path}"
            result.keep({"text": text, "path": path, "source": source, "language": "c", "sha256": "0"}, len(text))


def splits(folder, out, settings=SETTINGS):
    split(folder, settings, out)
    return {name: list(read_jsonl(out / f"{name}.jsonl.zst")) for name in SPLITS}


def test_every_document_lands_unchanged_in_exactly_one_split_in_order(tmp_path):
    names = [(source, f"d/{i:03}.c") for source in ("b", "a") for i in range(300)]
    write_documents(tmp_path / "in", names)
    found = splits(tmp_path / "in", tmp_path / "out")
    every = list(read_jsonl(tmp_path / "in" / DOCUMENTS))
    for name in SPLITS:
        assert found[name] == [d for d in every if document_split(d["source"], d["path"], SETTINGS) == name]
    assert sum(map(len, found.values())) == len(every)
    assert read_manifest(tmp_path / "out")["documents"] == {name: len(found[name]) for name in SPLITS}


def test_a_document_keeps_its_split_when_a_source_is_added_and_order_changes(tmp_path):
    old = [("a", f"{i}.c") for i in range(500)]
    new = [("b", f"{i}.c") for i in range(500)]
    write_documents(tmp_path / "old", old)
    write_documents(tmp_path / "both", random.Random(0).sample(old + new, 1000))
    before, after = splits(tmp_path / "old", tmp_path / "one"), splits(tmp_path / "both", tmp_path / "two")
    for name in SPLITS:
        assert {d["path"] for d in before[name]} == {d["path"] for d in after[name] if d["source"] == "a"}
        assert {d["path"] for d in before[name]} != {d["path"] for d in after[name] if d["source"] == "b"}


def test_another_share_for_validation_moves_no_test_document():
    for i in range(2000):
        larger = SETTINGS.model_copy(update={"validation": 0.3})
        assert (document_split("a", str(i), SETTINGS) == "test") == (document_split("a", str(i), larger) == "test")
        assert (
            document_split("a", str(i), SETTINGS) != "validation" or document_split("a", str(i), larger) == "validation"
        )


@pytest.mark.parametrize("settings", [SETTINGS, Split(validation=0.02, test=0.02), Split(validation=0, test=0.5)])
def test_shares_are_as_configured_within_binomial_bounds(settings):
    n = 20_000
    found = [document_split(f"source{i % 7}", f"some/path/{i}.py", settings) for i in range(n)]
    for name in ("validation", "test"):
        share = getattr(settings, name)
        deviation = (n * share * (1 - share)) ** 0.5
        assert abs(found.count(name) - n * share) <= 4 * deviation


def test_nothing_left_to_train_on_is_an_error_and_leaves_nothing(tmp_path):
    write_documents(tmp_path / "in", [])
    with pytest.raises(UserError, match="none left to train on"):
        split(tmp_path / "in", SETTINGS, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_line_that_is_not_json_is_named_and_leaves_nothing(tmp_path):
    write_documents(tmp_path / "in", [("a", "x.c")])
    (tmp_path / "in" / DOCUMENTS).write_bytes(b"not zstd")
    given = ["--documents", tmp_path / "in", "--settings", to_json(SETTINGS), "--out", tmp_path / "out"]
    broken = call("split", *given)
    assert broken.returncode == 1 and broken.stderr.startswith(f"error: {tmp_path / 'in' / DOCUMENTS}: ")
    assert broken.stderr.count("\n") == 1 and not (tmp_path / "out" / "manifest.json").exists()
