"""Rule filter on a shard of several sources: a folder each; what is made from the same is kept as it is."""

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.manifest import MADE_FROM, read_manifest
from scripts.corpus.filter import Member, filter_shard
from scripts.corpus.formats import filter_writer
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS
from scripts.experiment.settings.corpus import Filter
from tests.corpus.archives import GOOD, write_archive

NAMES, CODE = ("a", "b", "c"), "0123456789abcdef"


@pytest.fixture
def members(tmp_path):
    return [Member(name, write_archive(tmp_path / "raw", name, files(name)), "") for name in NAMES]


def files(name):
    return {f"{name}.py": GOOD + name.encode(), "short.py": b"x = 1\n", "readme.txt": b"text"}


def run(members, tmp_path, settings=None, code=CODE, benchmarks=()):
    filtered = tmp_path / "results/corpus/filter"
    filter_shard(members, settings or Filter(), code, filtered, filtered / "_0", list(benchmarks))
    return read_manifest(filtered / "_0")  # it checks each file that it lists


def made_again(tmp_path, rerun):
    """The sources whose documents `rerun` writes."""
    paths = {name: tmp_path / "results/corpus/filter" / name / DOCUMENTS for name in NAMES}
    before = {name: (path.stat().st_ino if path.exists() else None) for name, path in paths.items()}
    rerun()
    return {name for name in NAMES if paths[name].stat().st_ino != before[name]}


def test_another_location_of_the_same_archive_makes_nothing_again(members, tmp_path):
    run(members, tmp_path)
    manifest = tmp_path / "raw/b.json"
    facts = manifest.read_text()
    manifest.write_text(facts.replace("{", '{"location": "https://example.org/b", ', 1))
    assert made_again(tmp_path, lambda: run(members, tmp_path)) == set()


def test_other_settings_code_licence_or_benchmarks_make_it_again(members, tmp_path):
    benchmark = tmp_path / "problems.jsonl"
    benchmark.write_text("{}\n")
    run(members, tmp_path)
    assert made_again(tmp_path, lambda: run(members, tmp_path, Filter(min_lines=3))) == set(NAMES)
    assert made_again(tmp_path, lambda: run(members, tmp_path, code="f" * 16)) == set(NAMES)
    assert made_again(tmp_path, lambda: run(members, tmp_path, benchmarks=[benchmark])) == set(NAMES)
    benchmark.write_text('{"another": 1}\n')
    assert made_again(tmp_path, lambda: run(members, tmp_path, benchmarks=[benchmark])) == set(NAMES)
    licensed = [members[0], members[1]._replace(licence="MIT"), members[2]]
    assert made_again(tmp_path, lambda: run(licensed, tmp_path, benchmarks=[benchmark])) == {"b"}


@pytest.mark.parametrize("damage", ["flip", "delete", "no record", "broken record", "no manifest"])
def test_a_folder_with_a_changed_or_missing_file_is_made_again(members, tmp_path, damage):
    made, folder = run(members, tmp_path), tmp_path / "results/corpus/filter/b"
    if damage == "flip":
        content = bytearray((folder / REJECTS).read_bytes())
        content[-1] ^= 1
        (folder / REJECTS).write_bytes(content)
    elif damage == "broken record":
        (folder / MADE_FROM).write_text("{")
    else:
        (folder / {"delete": REJECTS, "no record": MADE_FROM, "no manifest": "manifest.json"}[damage]).unlink()
    assert made_again(tmp_path, lambda: run(members, tmp_path)) == {"b"}
    assert read_manifest(tmp_path / "results/corpus/filter/_0") == made


def test_after_a_kill_finished_folders_are_kept_and_a_half_made_one_is_made_again(members, tmp_path, monkeypatch):
    """Killed after the new documents of `b` and before its manifest, which still is the old one's."""
    run(members, tmp_path)
    members = [Member(name, write_archive(tmp_path / "raw", name, {f"{name}.py": GOOD + b"new"}), "") for name in NAMES]

    def killed(folder, *names, **facts):
        if folder.name == "b":
            raise KeyboardInterrupt
        return write_manifest(folder, *names, **facts)

    write_manifest = filter_writer.write_manifest
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(filter_writer, "write_manifest", killed)
        run(members, tmp_path)
    assert not (tmp_path / "results/corpus/filter/b" / MADE_FROM).exists()
    assert made_again(tmp_path, lambda: run(members, tmp_path)) == {"b", "c"}
    made = read_manifest(tmp_path / "results/corpus/filter/_0")
    assert made == run(members, tmp_path / "fresh")


def test_an_archive_that_is_missing_or_damaged_is_named_with_what_fetches_it_again(members, tmp_path):
    members[1].archive.write_bytes(b"not an archive")
    with pytest.raises(UserError, match=r"source b: .*/raw/b\.tar\.zst: .*fetch/_0/manifest\.json too") as caught:
        run(members, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "results/corpus/filter/_0").exists()
    members[1].archive.unlink()
    with pytest.raises(UserError, match=r"source b: .*/raw/b\.tar\.zst: no such file"):
        run(members, tmp_path)
    write_archive(tmp_path / "raw", "b", files("b"))
    assert made_again(tmp_path, lambda: run(members, tmp_path)) == {"b", "c"}  # `a` was done
    assert read_json(tmp_path / "results/corpus/filter/b" / MADE_FROM)["code"] == CODE


def test_the_source_of_a_shard_is_read_from_json():
    text = '{"name": "b", "archive": "data/raw/b.tar.zst", "licence": "MIT"}'
    assert Member.from_json(text).archive.name == "b.tar.zst" and Member.from_json(text).licence == "MIT"


def test_a_shard_of_one_source_has_no_other_manifest_and_its_errors_are_those_of_its_archive(members, tmp_path):
    filtered = tmp_path / "results/corpus/filter"
    filter_shard(members[:1], Filter(), CODE, filtered)
    assert [folder.name for folder in filtered.iterdir()] == ["a"]
    members[1].archive.unlink()
    with pytest.raises(UserError) as caught:
        filter_shard(members[1:2], Filter(), CODE, filtered)
    assert str(caught.value) == f"{members[1].archive}: no such file"
