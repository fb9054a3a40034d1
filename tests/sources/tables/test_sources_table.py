"""The table of sources: what is read, what is refused and how, and the table made from a tree of repositories."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.cli import UserError
from scripts.sources.archives.archive_members import Limits
from scripts.sources.archives.writer import pack_folder
from scripts.sources.tables.sources_table import COLUMNS, licence_of, read_table, sources_of, write_table

ROOT = Path(__file__).parents[3]
COMMIT, SHA = "0123456789" * 4, "0123456789abcdef" * 4
ROWS = [
    ["ripgrep", "git", "https://example.org/ripgrep", COMMIT, "rust", "high", "MIT OR Unlicense"],
    ["zstandard", "sdist", "zstandard==0.25.0", SHA, "c", "medium", "BSD-3-Clause"],
    ["mine", "path", "repositories/mine", SHA, "java", "high", "NOASSERTION"],
]


def text(rows=ROWS, header=COLUMNS):
    return "".join("\t".join(cells) + "\n" for cells in [header, *rows])


def changed(column, value, row=0):
    rows = [list(cells) for cells in ROWS]
    rows[row][COLUMNS.index(column)] = value
    return text(rows)


@pytest.mark.parametrize("content", [text(), text().replace("\n", "\r\n"), "\ufeff" + text(), text() + "\n\n"])
def test_good_table_is_read_in_order_whatever_the_line_ends(content, tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes(content.encode())
    assert [list(source.values()) for source in read_table(path)] == ROWS


def test_columns_may_stand_in_another_order(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text(text([row[::-1] for row in ROWS], COLUMNS[::-1]))
    assert [source["name"] for source in read_table(path)] == ["ripgrep", "zstandard", "mine"]


def test_quotes_are_plain_characters(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text(changed("location", 'a "b'))
    assert read_table(path)[0]["location"] == 'a "b'


BAD = {
    "empty": ("", "t.tsv: empty"),
    "no rows": (text([]), "at least one source"),
    "missing column": (text([r[:-1] for r in ROWS], COLUMNS[:-1]), "line 1: column 'licence' is missing"),
    "unknown column": (text([[*r, "x"] for r in ROWS], [*COLUMNS, "stars"]), "line 1: column 'stars' is unknown"),
    "column twice": (text([[*r, "x"] for r in ROWS], [*COLUMNS, "pin"]), "line 1: column 'pin' is there twice"),
    "commas": (text().replace("\t", ","), "line 1: column 'name,kind"),
    "ragged row": (text([*ROWS, ["x", "git"]]), "line 5: 2 cells, but line 1 has 7"),
    "kind": (changed("kind", "svn"), "line 2: kind: 'svn' is not one of git, sdist, path"),
    "short commit": (changed("pin", "abc123"), "line 2: pin: 'abc123' is not a commit of 40 hex digits"),
    "sha256 as commit": (changed("pin", SHA), "line 2: pin: .* is not a commit of 40"),
    "commit as sha256": (changed("pin", COMMIT, 1), "line 3: pin: .* is not a sha256 of 64"),
    "upper case": (changed("pin", SHA.upper(), 2), "line 4: pin: .* is not a sha256 of 64"),
    "branch": (changed("pin", "main"), "line 2: pin: 'main'"),
    "name": (changed("name", "Rip Grep"), "line 2: name: 'Rip Grep' is not lower-case"),
    "name that climbs": (changed("name", "../x"), r"line 2: name: '\.\./x'"),
    "name twice": (changed("name", "ripgrep", 1), "line 3: name: 'ripgrep' is on line 2 already"),
    "no version": (changed("location", "zstandard", 1), "line 3: location: 'zstandard' is not project==version"),
    "range": (changed("location", "zstandard>=0.2", 1), "line 3: location: .* project==version"),
    "wildcard": (changed("location", "zstandard==0.*", 1), "line 3: location: .* project==version"),
    "option as location": (changed("location", "--upload-pack=x"), "line 2: location: '--upload-pack=x'"),
    "no location": (changed("location", ""), "line 2: location: ''"),
    "language": (changed("language", "cobol"), "line 2: language: 'cobol' is not one of python"),
    "priority": (changed("priority", "low"), "line 2: priority: 'low' is not one of high, medium"),
    "licence": (changed("licence", ""), "line 2: licence: '' is not an SPDX"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_table_is_refused_in_one_line_that_names_line_and_column(case, tmp_path):
    content, match = BAD[case]
    path = tmp_path / "t.tsv"
    path.write_text(content)
    with pytest.raises(UserError, match=match) as caught:
        read_table(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [text().encode("utf-16"), b"\xff\xfe\x00", bytes(range(256)) * 9, b"x" * 200_000])
def test_binary_or_wrongly_encoded_table_is_refused(data, tmp_path):
    (tmp_path / "t.tsv").write_bytes(data)
    with pytest.raises(UserError, match=r"t.tsv: not UTF-8 text with tabs"):
        read_table(tmp_path / "t.tsv")


def test_missing_table_is_refused(tmp_path):
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(UserError, match="no such file"):
            read_table(path)


def test_default_table_is_pinned_and_spans_the_languages():
    sources = read_table(ROOT / "config" / "sources.tsv")
    assert len(sources) >= 6
    assert {"python", "rust", "c", "cpp", "java", "go"} <= {source["language"] for source in sources}


def test_reading_the_table_loads_no_heavy_module():
    heavy = "[m for m in ('pandas', 'torch', 'unearth') if m in sys.modules]"
    code = f"import sys, scripts.sources.tables.sources_table; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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
    tools.write_tree(tmp_path / "tree/medium/Perl/old", {"a.pl": b"4"})
    versioned = tmp_path / "tree/high/C++/lib"
    git(versioned, "init", "-q")
    git(versioned, "add", ".")
    git(versioned, "commit", "-q", "-m", "one")
    return tmp_path / "tree"


def test_table_from_a_tree_pins_commits_and_content(tree, tmp_path, caplog):
    sources = sources_of(tree)
    write_table(sources, tmp_path / "t.tsv")
    assert read_table(tmp_path / "t.tsv") == sources
    content = pack_folder(tree / "high/Python/Some Repo", None, Limits())["sha256"]
    rows = [(s["name"], s["kind"], s["pin"], s["language"], s["priority"], s["licence"]) for s in sources]
    assert rows == [
        ("lib-cpp-high", "git", git(tree / "high/C++/lib", "rev-parse", "HEAD"), "cpp", "high", "NOASSERTION"),
        ("some-repo", "path", content, "python", "high", "Apache-2.0"),
        ("lib-go-medium", "path", sources[2]["pin"], "go", "medium", "MIT"),
    ]
    assert "Perl: left out" in caplog.text


def test_uncommitted_work_in_a_tree_is_told(tree, caplog):
    (tree / "high/C++/lib/new.cpp").write_text("5")
    sources_of(tree)
    assert "what is not committed there is not in the pin" in caplog.text


def test_table_from_a_tree_never_overwrites(tree, tmp_path):
    out = tmp_path / "t.tsv"
    out.write_text("mine")
    line = [sys.executable, "-m", "scripts.sources.tables.sources_table", "--from", tree, "--out", out]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"error: {out}: already there; remove it first, or choose another name\n"
    assert out.read_text() == "mine"


def test_table_from_an_empty_tree_or_a_repository_without_commit_is_refused(tmp_path):
    with pytest.raises(UserError, match="no repositories at high/LANGUAGE/REPOSITORY"):
        sources_of(tmp_path)
    (tmp_path / "high/java/new").mkdir(parents=True)
    with pytest.raises(UserError, match="new: no files in it"):
        sources_of(tmp_path)
    git(tmp_path / "high/java/new", "init", "-q")
    with pytest.raises(UserError, match="new: no commit to pin"):
        sources_of(tmp_path)


def test_licences_are_told_apart_by_their_own_texts(tmp_path):
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


def test_written_table_is_plain_tsv(tmp_path):
    write_table([dict(zip(COLUMNS, row, strict=True)) for row in ROWS], tmp_path / "t.tsv")
    with (tmp_path / "t.tsv").open(newline="") as file:
        assert list(csv.reader(file, delimiter="\t")) == [COLUMNS, *ROWS]
