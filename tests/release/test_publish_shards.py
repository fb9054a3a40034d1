"""What is published of very many sources, whose archives and documents no rule declares one by one."""

import pytest

from scripts.common.manifest import write_manifest
from scripts.experiment.layout import Layout, raw_archive, raw_manifest
from scripts.experiment.reruns.provenance import Provenance, files_beside
from scripts.release import publish


@pytest.fixture
def layout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Layout(tmp_path.relative_to(tmp_path) / "results")


def job(rule, output):
    return Provenance(rule, "", {}, [], "", {}, {str(output): ""}, {}, {}, 0.0, 1.0)


def test_the_documents_of_a_shards_sources_are_published_with_it(layout):
    for name in ("click", "other"):
        layout.filtered(name).mkdir(parents=True)
        for file in ("documents.jsonl.zst", "made_from.json", ".documents.7.tmp"):
            (layout.filtered(name) / file).write_text(name)
    shard = layout.filtered("_0")
    shard.mkdir(parents=True)
    write_manifest(shard, ["../click/documents.jsonl.zst"])
    assert files_beside([str(shard / "manifest.json")]) == [
        "results/corpus/filter/click/documents.jsonl.zst",
        "results/corpus/filter/click/made_from.json",
    ]


def test_archives_that_were_fetched_in_shards_get_pointers_once(layout, monkeypatch):
    names = ["click-0123456789ab", "jinja-0123456789ab"]
    for name in names:
        for path in (raw_archive(name), raw_manifest(name)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    (shard := layout.fetched("_0")).mkdir(parents=True)
    write_manifest(shard, [], archives={name: {"sha256": "0"} for name in names})
    old = [raw_archive(names[0]), raw_manifest(names[0])]
    for path in old:
        path.with_name(f"{path.name}.dvc").write_text("")
    calls = []
    monkeypatch.setattr(publish, "dvc", lambda *words: calls.append(words))
    new = [str(raw_archive(names[1])), str(raw_manifest(names[1]))]
    made = [job("fetch", shard / "manifest.json"), job("train", "results/x")]
    assert publish.add_shard_archives(made) == [f"{path}.dvc" for path in [*map(str, old), *new]]
    assert calls == [("add", *new)]
