"""scripts/sources/tables/from_folder.py: the sources table made from a folder of repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.sources.archives.canonical_archive import pack_folder
from scripts.sources.archives.members import LIMITS, Limits
from scripts.sources.fetch import fetch
from scripts.sources.tables.from_folder import licence_of, make_table, rows_of, write_sources
from scripts.sources.tables.sources_table import read_sources

ROOT = Path(__file__).parents[3]


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path, tools):
    tools.write_tree(
        tmp_path / "tree/high/Python/Some Repo", {"a.py": b"1", "LICENSE": b"Apache License\n  Version 2.0"}
    )
    tools.write_tree(tmp_path / "tree/high/C++/lib", {"a.cpp": b"2", "COPYING": b"no licence known"})
    tools.write_tree(tmp_path / "tree/medium/golang/lib", {"a.go": b"3", "LICENSE": b"Permission is hereby granted, "
                     b"free of charge,\nto any person obtaining a copy"})  # fmt: skip
    tools.write_tree(tmp_path / "tree/medium/Klingon/old", {"a.pl": b"4"})
    tools.write_tree(tmp_path / "tree/low/Python/later", {"a.py": b"5"})
    (tmp_path / "tree/.git").mkdir()
    versioned = tmp_path / "tree/high/C++/lib"
    git(versioned, "init", "-q")
    git(versioned, "add", ".")
    git(versioned, "commit", "-q", "-m", "one")
    return tmp_path / "tree"


def test_table_from_a_tree_pins_commits_and_content(tree, tmp_path, caplog):
    sources = rows_of(tree)
    write_sources(sources, tmp_path / "t.tsv")
    assert [source.model_dump() for source in read_sources(tmp_path / "t.tsv")] == sources
    content = pack_folder(tree / "high/Python/Some Repo", None, Limits())["sha256"]
    rows = [(s["name"], s["kind"], s["pin"], s["language"], s["priority"], s["licence"]) for s in sources]
    assert rows == [
        ("lib-cpp-high", "git", git(tree / "high/C++/lib", "rev-parse", "HEAD"), "cpp", "high", "NOASSERTION"),
        ("some-repo", "path", content, "python", "high", "Apache-2.0"),
        ("lib-go-medium", "path", sources[2]["pin"], "go", "medium", "MIT"),
    ]
    assert "Klingon: left out" in caplog.text
    assert "low: left out, the folder's name is none of high, high_priority, medium" in caplog.text
    assert ".git: left out" not in caplog.text


def test_uncommitted_work_in_a_tree_is_reported(tree, caplog):
    (tree / "high/C++/lib/new.cpp").write_text("5")
    rows_of(tree)
    assert "uncommitted changes are not part of the pinned commit" in caplog.text


ODD = "-x $(touch ran) 'a' \"b\" `touch ran`; touch ran"
NAMES = [
    "; touch ran;", "$(touch ran)", "`touch ran`", "'quotes' \"and\" more", "-rf", " leading space", "trailing space ",
    "仓库", "a b", "a-b", "A.B", "*", "{source}", "a\\b", "https:--x@y", "C#",
]  # fmt: skip


def test_folders_of_any_name_become_sources_that_can_be_read_and_fetched(tmp_path, tools, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(NAMES):
        tools.write_tree(tmp_path / "-tree/high/python" / name, {"a.py": str(number).encode()})
    write_sources(rows_of(Path("-tree")), tmp_path / "t.tsv")
    sources = read_sources(tmp_path / "t.tsv")
    assert {Path(source.location).name for source in sources} == set(NAMES)
    assert {"a-b", "a-b-python-high", "a-b-python-high-2"} & {source.name for source in sources}
    for source in sources:
        facts = fetch(source, LIMITS, tmp_path / f"raw/{source.name}.tar.zst")
        assert facts["sha256"] == source.pin
    assert sorted(path.name for path in tmp_path.iterdir()) == ["-tree", "raw", "t.tsv"]


@pytest.mark.parametrize("name", [b"line\nbreak", b"tab\there", b"caf\xe9", b"\x1b[2J"])
def test_folder_whose_name_no_table_can_hold_is_left_out_and_named(name, tmp_path, tools, caplog):
    tools.write_tree(tmp_path / "tree/high/python/good", {"a.py": b"1"})
    tools.write_tree(tmp_path / "tree/high/python" / os.fsdecode(name), {"a.py": b"1"})
    assert [row["name"] for row in rows_of(tmp_path / "tree")] == ["good"]
    assert "left out, its name cannot be used in the table" in caplog.text
    assert "\x1b" not in caplog.text and caplog.text.count("\n") == len(caplog.messages)


def test_table_from_a_tree_never_overwrites(tree, tmp_path):
    out = tmp_path / "t.tsv"
    out.write_text("mine")
    with pytest.raises(UserError, match=f"^{out}: already there; remove or rename it first$"):
        make_table(tree, out)
    assert out.read_text() == "mine"


def test_table_from_an_empty_tree_or_a_repository_without_commit_is_refused(tmp_path):
    with pytest.raises(UserError, match="no repositories at high/LANGUAGE/REPOSITORY"):
        rows_of(tmp_path)
    (tmp_path / "high/java/new").mkdir(parents=True)
    with pytest.raises(UserError, match="new: no files in it"):
        rows_of(tmp_path)
    git(tmp_path / "high/java/new", "init", "-q")
    with pytest.raises(UserError, match="new: no commit to pin"):
        rows_of(tmp_path)


def test_a_repository_that_cannot_be_pinned_is_left_out_with_its_reason_and_the_others_have_rows(tmp_path, caplog):
    (tmp_path / "high/java/new").mkdir(parents=True)
    git(tmp_path / "high/java/new", "init", "-q")
    (tmp_path / "high/java/whole").mkdir()
    (tmp_path / "high/java/whole/A.java").write_text("class A {}")
    assert [row["name"] for row in rows_of(tmp_path)] == ["whole"]
    assert "left out: " in caplog.text and "new: no commit to pin" in caplog.text


def test_each_licence_is_recognized_by_its_own_text(tmp_path):
    texts = {
        "MIT": "Permission is hereby granted, free of charge, to any person obtaining a copy of",
        "BSD-2-Clause": "Redistributions in binary form must reproduce the above copyright notice, this list",
        "BSD-3-Clause": "2. Redistributions in binary form must reproduce the above copyright notice\n3. Neither the"
        " name may be used to endorse or promote products derived from this",
        "GPL-3.0-only": "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007 ... GNU Lesser General Public License",
        "LGPL-3.0-only": "GNU LESSER GENERAL PUBLIC LICENSE\n Version 3 ... GNU General Public License version 3",
        "NOASSERTION": "All rights reserved",
    }
    for name, words in texts.items():
        (tmp_path / "LICENSE.txt").write_text(words)
        assert licence_of(tmp_path) == name
