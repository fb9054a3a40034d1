"""scripts/corpus/split.py: training, validation and test documents, by file, by repository and by time."""

import random
from datetime import UTC, datetime

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.corpus.formats.filter_writer import DOCUMENTS, funnel
from scripts.corpus.split import named_split, split
from scripts.experiment.layout import FIRST_COMMITS, SPLITS
from scripts.experiment.settings.corpus import Split

SETTINGS = Split(validation=0.1, test=0.2)


def write_documents(folder, names, copies=()):
    """copies: (source, path) → name of the document kept for it."""
    with funnel(folder) as result:
        for source, path in names:
            text = f"{source} {path}"
            document = {"text": text, "path": path, "source": source, "language": "c", "sha256": "0"}
            result.keep(document, len(text))
        for (source, path), kept in dict(copies).items():
            result.drop(path, source, "c", "near_duplicate", kept)


def splits(folder, out, settings=SETTINGS, history=None):
    split(folder, settings, out, history)
    return {name: list(read_jsonl(out / f"{name}.jsonl.zst")) for name in SPLITS}


def test_every_document_lands_unchanged_in_exactly_one_split_in_order(tmp_path):
    names = [(source, f"d/{i:03}.c") for source in ("b", "a") for i in range(300)]
    write_documents(tmp_path / "in", names)
    by_split = splits(tmp_path / "in", tmp_path / "out")
    originals = list(read_jsonl(tmp_path / "in" / DOCUMENTS))
    for name in SPLITS:
        assert by_split[name] == [d for d in originals if named_split(f"{d['source']}/{d['path']}", SETTINGS) == name]
    assert sum(map(len, by_split.values())) == len(originals)
    assert read_manifest(tmp_path / "out")["documents"] == {name: len(by_split[name]) for name in SPLITS}


def test_a_module_and_its_test_are_in_one_split_and_a_test_alone_is_a_file_like_others(tmp_path):
    names = []
    for number in range(200):
        names += [("a", f"src/m{number}.py"), ("a", f"tests/test_m{number}.py"), ("b", f"x/Lone{number}Test.java")]
    write_documents(tmp_path / "in", names)
    by_split = splits(tmp_path / "in", tmp_path / "out", Split(validation=0.2, test=0.3))
    found = split_of_files(by_split)
    for number in range(200):
        assert found[f"a/src/m{number}.py"] == found[f"a/tests/test_m{number}.py"]
        path = f"b/x/Lone{number}Test.java"
        assert found[path] == named_split(path, Split(validation=0.2, test=0.3))
    assert len({found[f"a/src/m{number}.py"] for number in range(200)}) == 3


def test_a_document_keeps_its_split_when_a_source_is_added_and_order_changes(tmp_path):
    old = [("a", f"{i}.c") for i in range(500)]
    new = [("b", f"{i}.c") for i in range(500)]
    write_documents(tmp_path / "old", old)
    write_documents(tmp_path / "both", random.Random(0).sample(old + new, 1000))
    before, after = splits(tmp_path / "old", tmp_path / "one"), splits(tmp_path / "both", tmp_path / "two")
    for name in SPLITS:
        assert {d["path"] for d in before[name]} == {d["path"] for d in after[name] if d["source"] == "a"}
        assert {d["path"] for d in before[name]} != {d["path"] for d in after[name] if d["source"] == "b"}


@pytest.mark.parametrize("settings", [SETTINGS, Split(validation=0.02, test=0.02), Split(validation=0, test=0.5)])
def test_shares_are_as_configured_within_binomial_bounds(settings):
    n = 20_000
    assigned = [named_split(f"source{i % 7}/some/path/{i}.py", settings) for i in range(n)]
    for name in ("validation", "test"):
        share = getattr(settings, name)
        deviation = (n * share * (1 - share)) ** 0.5
        assert abs(assigned.count(name) - n * share) <= 4 * deviation


def test_paths_that_are_held_out_are_the_test_split_with_their_tests_and_nothing_else_is(tmp_path):
    paths = ["src/new/a.py", "src/old/b.py", "src/old/c.py", "tests/test_a.py", "tests/test_b.py", "docs/new/d.py"]
    write_documents(tmp_path / "documents", [(source, path) for source in ("one", "two") for path in paths])
    settings = Split(hold_out=["one/src/new/*", "docs/*"], test=0.9, validation=0)
    rows = splits(tmp_path / "documents", tmp_path / "out", settings)["test"]
    test = {f"{row['source']}/{row['path']}" for row in rows}
    assert test == {"one/src/new/a.py", "one/tests/test_a.py", "one/docs/new/d.py", "two/docs/new/d.py"}
    with pytest.raises(UserError, match=r"^corpus\.split\.hold_out: 'none/\*' matches none of the 12 documents"):
        split(tmp_path / "documents", Split(hold_out=["docs/*", "none/*"]), tmp_path / "other")
    with pytest.raises(UserError, match="`hold_out` goes with `by: file`"):
        Split.parse({"hold_out": ["a"], "by": "repository"}, "corpus.split")


def test_nothing_left_to_train_on_is_an_error_and_leaves_nothing(tmp_path):
    write_documents(tmp_path / "in", [])
    with pytest.raises(UserError, match="none left to train on"):
        split(tmp_path / "in", SETTINGS, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def split_of_files(by_split):
    """{name: its split}"""
    return {f"{document['source']}/{document['path']}": name for name in SPLITS for document in by_split[name]}


def test_by_repository_all_files_of_a_source_are_together_and_stay_when_sources_come(tmp_path):
    names = [(f"source{s}", f"{i}.c") for s in range(60) for i in range(3)]
    settings = Split(by="repository", validation=0.2, test=0.3)
    write_documents(tmp_path / "in", names)
    split_of = split_of_files(splits(tmp_path / "in", tmp_path / "out", settings))
    split_of_source = {name: split_of[f"{name}/0.c"] for name, _ in names}
    assert all(split_of[f"{source}/{path}"] == split_of_source[source] for source, path in names)
    counts = {split: [*split_of_source.values()].count(split) for split in SPLITS}
    assert read_manifest(tmp_path / "out")["sources"] == counts
    assert 8 <= counts["test"] <= 28 and 4 <= counts["validation"] <= 20
    write_documents(tmp_path / "more", [*names, *((f"later{s}", "x.c") for s in range(60))])
    more = split_of_files(splits(tmp_path / "more", tmp_path / "out2", settings))
    assert {name: more[name] for name in split_of} == split_of


def test_by_repository_few_sources_are_still_held_out_and_too_few_are_refused(tmp_path):
    write_documents(tmp_path / "in", [(name, f"{i}.c") for name in "abc" for i in range(9)])
    by_split = splits(tmp_path / "in", tmp_path / "out", Split(by="repository", validation=0.001, test=0.001))
    assert {name: len(documents) for name, documents in by_split.items()} == dict.fromkeys(SPLITS, 9)
    write_documents(tmp_path / "two", [("a", "1.c"), ("b", "1.c")])
    with pytest.raises(UserError, match=r"needs documents of at least 3 sources.*there are 2: a, b; use `by: file`"):
        splits(tmp_path / "two", tmp_path / "no", Split(by="repository"))


def write_history(folder, days):
    """days: {source: {path: ISO day or moment}}"""
    for source, files in days.items():
        rows = [{"path": path, "first_commit": int(moment(day).timestamp())} for path, day in files.items()]
        write_jsonl(folder / source / FIRST_COMMITS, rows)
        write_manifest(folder / source, [FIRST_COMMITS], pin="0", paths=len(rows))


def moment(day):
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def test_by_time_new_files_are_held_out_and_a_copy_of_an_old_file_is_not_new(tmp_path):
    old, new = "2024-12-31T23:59:59", "2025-01-01"
    names = [("a", "old.c"), ("a", "new.c"), ("b", "like-old.c"), ("b", "late.c")]
    names += [("a", f"{i}.c") for i in range(300)]
    copies = {("a", "dropped.c"): "b/like-old.c", ("b", "younger.c"): "a/old.c"}
    write_documents(tmp_path / "in", names, copies)
    days = {
        "a": {"old.c": old, "new.c": new, "dropped.c": old, "not-kept.py": new, **{f"{i}.c": old for i in range(300)}},
        "b": {"like-old.c": new, "late.c": "2026-05-05", "younger.c": new},
    }
    write_history(tmp_path / "history", days)
    settings = Split(by="time", after="2025-01-01", validation=0.1)
    split_of = split_of_files(splits(tmp_path / "in", tmp_path / "out", settings, tmp_path / "history"))
    assert {name for name, split in split_of.items() if split == "test"} == {"a/new.c", "b/late.c"}
    assert 10 < [*split_of.values()].count("validation") < 60 and len(split_of) == len(names)
    assert read_manifest(tmp_path / "out")["after"] == "2025-01-01"


def test_by_time_nothing_new_nothing_old_and_missing_histories_are_refused(tmp_path):
    write_documents(tmp_path / "in", [("a", "1.c"), ("a", "2.c")])
    write_history(tmp_path / "history", {"a": {"1.c": "2024-05-05", "2.c": "2024-06-07"}})

    def refused(after, match, history=tmp_path / "history"):
        with pytest.raises(UserError, match=match):
            split(tmp_path / "in", Split(by="time", after=after), tmp_path / "out", history)
        assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())

    refused("2025-01-01", "no document was first committed on 2025-01-01 or later, the newest on 2024-06-07")
    refused("2024-01-01", "all documents were first committed on 2024-01-01 or later, the oldest on 2024-05-05")
    refused("2024-06-01", "manifest.json: no such file", tmp_path / "none")
    refused("2024-06-01", "--history: required", None)
    write_history(tmp_path / "history", {"a": {"1.c": "2024-05-05"}})
    refused("2024-06-01", "no first commit of 2.c")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"by": "time"}, "corpus.split: `by: time` requires `after` (a day, such as 2025-01-01)"),
        (
            {"after": "2025-01-01"},
            "corpus.split: `by: time` requires `after` (a day, such as 2025-01-01), and `after` requires",
        ),
        ({"by": "time", "after": "1.1.2025"}, "corpus.split.after: must be a day, such as 2025-01-01, not '1.1.2025'"),
        ({"by": "time", "after": "2025-02-30"}, "corpus.split.after: 2025-02-30: day "),
        ({"by": "time", "after": 2025}, "corpus.split.after: must be text, not 2025"),
        ({"by": "date"}, "corpus.split.by: must be one of file, repository, time, not 'date'"),
    ],
)
def test_wrong_settings_are_named_in_one_line(settings, line):
    with pytest.raises(UserError) as caught:
        Split.parse(settings, "x.yaml", "corpus", "split")
    assert str(caught.value).startswith(f"x.yaml: {line}") and "\n" not in str(caught.value)
