"""The sources table: what is read, what is refused and with which line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.sources.tables.source import COLUMNS
from scripts.sources.tables.sources_table import read_sources

pytestmark = pytest.mark.fault("a table of sources", "hostile input")

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
    assert [list(source.model_dump().values()) for source in read_sources(path)] == ROWS


BAD = {
    "empty": ("", "t.tsv: empty"),
    "no rows": (text([]), "at least one source"),
    "missing column": (text([r[:-1] for r in ROWS], COLUMNS[:-1]), "line 1: column 'licence' is missing"),
    "unknown column": (text([[*r, "x"] for r in ROWS], [*COLUMNS, "stars"]), "line 1: column 'stars' is unknown"),
    "column twice": (text([[*r, "x"] for r in ROWS], [*COLUMNS, "pin"]), "line 1: column 'pin' occurs twice"),
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
    "language": (
        changed("language", "klingon"),
        "line 2: language: 'klingon' is not a language, such as kotlin, c, cpp",
    ),
    "priority": (changed("priority", "low"), "line 2: priority: 'low' is not one of high, medium"),
    "licence": (changed("licence", ""), "line 2: licence: '' is not an SPDX"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_table_is_refused_in_one_line_that_names_line_and_column(case, tmp_path):
    content, match = BAD[case]
    path = tmp_path / "t.tsv"
    path.write_text(content)
    with pytest.raises(UserError, match=match) as caught:
        read_sources(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "part"),
    [
        ("https://me:hidden@example.org/r", "a user name or token"),
        ("https://hidden@example.org/r.git", "a user name or token"),
        ("ssh://git:hidden@example.org/r", "a password"),
        ("me:hidden@example.org:r", "a password"),
        ("https://example.org/r?access_token=hidden", "a query or fragment"),
        ("https://example.org/r#hidden", "a query or fragment"),
    ],
)
def test_credentials_in_a_url_are_refused_and_not_shown(location, part, tmp_path):
    path = tmp_path / "t.tsv"
    for kind_row in (0, 1, 2):
        path.write_text(changed("location", location, kind_row))
        with pytest.raises(
            UserError, match=f"line {kind_row + 2}: location: the URL has {part}.*credential helper"
        ) as refused:
            read_sources(path)
        assert "hidden" not in str(refused.value)
    path.write_text(changed("name", location))  # a row whose cells are shifted
    with pytest.raises(UserError, match="line 2: name: ") as refused:
        read_sources(path)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("data", [text().encode("utf-16"), b"\xff\xfe\x00", bytes(range(256)) * 9, b"x" * 200_000])
def test_binary_or_wrongly_encoded_table_is_refused(data, tmp_path):
    (tmp_path / "t.tsv").write_bytes(data)
    with pytest.raises(UserError, match=r"t.tsv: not UTF-8 text with tabs"):
        read_sources(tmp_path / "t.tsv")


def test_missing_table_is_refused(tmp_path):
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(UserError, match="no such file"):
            read_sources(path)


def table_at_head(folder, location, kind="git"):
    """A table with one source that is pinned by what is checked out."""
    cells = ["mine", kind, str(location), "HEAD", "python", "high", "MIT"]
    (folder / "t.tsv").write_text("\t".join(COLUMNS) + "\n" + "\t".join(cells) + "\n")
    return folder / "t.tsv"


def test_head_of_what_is_no_repository_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"t.tsv: line 2: pin HEAD: .*nowhere: no git repository with a commit here"):
        read_sources(table_at_head(tmp_path, tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"t.tsv: line 2: pin: 'HEAD'"):
        read_sources(table_at_head(tmp_path, tmp_path, "path"))


def test_what_publishing_commits_moves_the_pin_of_the_checkout_itself_not(tmp_path, monkeypatch):
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]

    def commit(name: str) -> str:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(name)
        subprocess.run([*git, "add", "-f", "."], check=True)
        subprocess.run([*git, "commit", "-qm", name], check=True)
        return subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()

    def pin(location) -> str:
        for name in [name for name in os.environ if name.startswith("STAGECRAFT_HEAD_")]:
            monkeypatch.delenv(name)
        return read_sources(table_at_head(tmp_path, location))[0].pin

    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    monkeypatch.chdir(repository)
    code = commit("scripts/a.py")
    assert pin(".") == code
    for name in ("data/results.dvc", "data/raw/x.dvc", ".dvc/config", "docs/a.md"):
        newest = commit(name)
        assert pin(".") == code
        monkeypatch.chdir("/")
        assert pin(repository) == newest  # of another repository all commits count
        monkeypatch.chdir(repository)
    assert pin(".") != commit("scripts/data/b.py") and pin(".") != code
    # a shallow clone, of which the newest commit is known alone
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{repository}", str(tmp_path / "clone")], check=True)
    monkeypatch.chdir(tmp_path / "clone")
    assert len(pin(".")) == 40


def test_reading_the_table_loads_no_heavy_module():
    heavy = "[m for m in ('torch', 'unearth', 'transformers') if m in sys.modules]"
    code = f"import sys, scripts.sources.tables.sources_table; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_jobs_of_the_area_load_no_pandas():
    code = "import sys, scripts.sources.fetch, scripts.sources.pull; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
