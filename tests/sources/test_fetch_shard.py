"""Rule fetch on a shard of several sources: what is there is kept, a failing source stops no other."""

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import raw_archive, raw_manifest
from scripts.sources import fetch as module
from scripts.sources.archives.canonical_archive import pack_folder
from scripts.sources.archives.members import LIMITS, Limits
from scripts.sources.fetch import fetch_shard
from scripts.sources.tables.source import PinnedSource

NAMES = ("click", "jinja", "rich")


def pinned(folder):
    pin = pack_folder(folder, None, Limits())["sha256"]
    return PinnedSource(name=folder.name, kind="path", location=str(folder), pin=pin)


@pytest.fixture
def sources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        (tmp_path / "code" / name).mkdir(parents=True)
        (tmp_path / "code" / name / "a.py").write_text(f"# {name}\n")
    return [pinned(tmp_path / "code" / name) for name in NAMES]


def archives(tmp_path):
    return read_json(tmp_path / "out/0/manifest.json")["archives"]


def times(tmp_path):
    return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "data/raw").iterdir()}


def test_a_changed_pin_fetches_that_source_alone(sources, tmp_path):
    fetch_shard(sources, LIMITS, tmp_path / "out/0")
    before = times(tmp_path)
    (tmp_path / "code/jinja/a.py").write_text("# another\n")
    changed = pinned(tmp_path / "code/jinja")
    fetch_shard([sources[0], changed, sources[2]], LIMITS, tmp_path / "out/0")
    after = times(tmp_path)
    assert {name for name in after if after[name] != before.get(name)} == {
        raw_archive(changed.raw_name).name,
        raw_manifest(changed.raw_name).name,
    }
    assert before.keys() <= after.keys() and archives(tmp_path).keys() >= {changed.raw_name}


def test_a_source_that_fails_is_named_and_the_others_are_fetched_and_kept(sources, tmp_path):
    wrong = [source.model_copy(update={"pin": "0" * 64}) for source in sources[:2]]
    with pytest.raises(UserError, match=r"source click: .*0000.*; and 1 more sources of this shard failed") as caught:
        fetch_shard([*wrong, sources[2]], LIMITS, tmp_path / "out/0")
    assert "\n" not in str(caught.value) and not (tmp_path / "out/0").exists()
    kept = times(tmp_path)
    assert set(kept) == {raw_archive(sources[2].raw_name).name, raw_manifest(sources[2].raw_name).name}
    fetch_shard(sources, LIMITS, tmp_path / "out/0")
    assert kept.items() <= times(tmp_path).items()


def test_after_a_kill_between_archive_and_manifest_the_source_is_fetched_again(sources, tmp_path):
    fetch_shard(sources, LIMITS, tmp_path / "out/0")
    name = sources[1].raw_name
    content = raw_archive(name).read_bytes()
    raw_archive(name).write_bytes(b"of another try")
    raw_manifest(name).unlink()
    fetch_shard(sources, LIMITS, tmp_path / "out/0")
    assert raw_archive(name).read_bytes() == content and raw_manifest(name).is_file()


def test_an_archive_of_another_commit_under_this_name_is_refused(sources, tmp_path):
    """The name holds twelve digits of the pin; two pins that agree in them are told apart."""
    fetch_shard(sources, LIMITS, tmp_path / "out/0")
    twin = sources[0].model_copy(update={"pin": sources[0].pin[:12] + "0" * 52})
    with pytest.raises(UserError, match="but the sources table pins path"):
        fetch_shard([twin], LIMITS, tmp_path / "out/1")


def test_published_archives_are_pulled(sources, tmp_path, monkeypatch):
    published = sources[1].raw_name
    (tmp_path / "data/raw").mkdir(parents=True)
    (tmp_path / f"{raw_archive(published)}.dvc").write_text("")
    calls = []
    monkeypatch.setattr(module, "pull", lambda *arguments: calls.append(arguments) or {"sha256": "1" * 64})
    fetch_shard(sources, LIMITS, tmp_path / "out/0")
    assert calls == [(published, "path", sources[1].pin, [published])]
    assert archives(tmp_path)[published] == {"sha256": "1" * 64}
    assert not raw_archive(published).exists() and raw_archive(sources[0].raw_name).is_file()
