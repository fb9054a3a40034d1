"""README and docs name only what is there: links, make targets, verbs, modules, paths, profiles and settings."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from benchmarks import figures
from scripts.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted(path for path in ROOT.glob("*.md") if "README" in path.name)]
PAGES += [ROOT / f"{folder}/README.md" for folder in ("benchmarks", "profiles", "results", "scripts/judge")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
AREAS = "sources|corpus|tokens|training|evaluation"
VERBS = [name for name in app if not name.startswith("-")]
OWN = re.compile(r"(?:^|/)(?:mine\b|my[-_]|NAME\b)")  # what a reader calls a file of their own


def code(page: Path) -> str:
    """The code of a page: spans between backticks and indented blocks, one a line, without shell comments."""
    snippets = []
    for line in page.read_text().splitlines():
        if line.startswith("    "):
            snippets.append(re.sub(r"\s#\s.*", "", line))
        else:
            snippets += re.findall(r"`([^`]+)`", line)
    return "\n".join(snippets)


def anchors(page: Path) -> list[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings]


def missing_links(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def missing_targets(page: Path) -> Iterator[str]:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in re.findall(r"(?:^|&& )\s*make((?: [a-z]+(?:-[a-z]+)*)+)(?![\w=-])", code(page), re.MULTILINE):
        yield from (f"make {word}" for word in words.split() if word not in targets)


def missing_verbs(page: Path) -> Iterator[str]:
    for word in re.findall(r"(?:^|&& )\s*stagecraft ([a-z][a-z-]*)", code(page), re.MULTILINE):
        if word not in VERBS:
            yield f"stagecraft {word}"


def missing_modules(page: Path) -> Iterator[str]:
    text = code(page)
    for name in re.findall(r"(?:-m|fingerprint) ((?:scripts|tests)(?:\.\w+)+)", text):
        if (
            name not in ("scripts.AREA.NAME", "scripts.evaluation.suites.valid_json")
            and not (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()
        ):
            yield name
    for name, words in re.findall(r"from (scripts(?:\.\w+)+) import (\w+(?:, \w+)*)", text):
        folder = ROOT / name.replace(".", "/")
        definitions = {path.stem for path in folder.glob("*.py")}
        for path in (folder.with_suffix(".py"), folder / "__init__.py"):
            if path.is_file():
                definitions |= {getattr(node, "name", None) for node in ast.parse(path.read_text()).body}
        yield from (f"{name}.{word}" for word in words.split(", ") if word not in definitions)


def missing_paths(page: Path) -> Iterator[str]:
    for path in re.findall(
        r"(?<![\w/.~-])((?:scripts|config|rules|profiles|tests|docs|envs)/[\w./{}*-]*)", page.read_text()
    ):
        name = re.sub(r"\{\w+\}", "*", path.rstrip("."))
        if not OWN.search(name) and not any(ROOT.glob(name.rstrip("/"))):
            yield path


def missing_profiles(page: Path) -> Iterator[str]:
    for name in re.findall(r"--profile ([\w/-]+)|\bPROFILE=([\w/-]+)", code(page)):
        profile = "".join(name)
        if (
            not OWN.search(profile) and not (ROOT / "profiles" / profile).is_dir() and profile not in ("NAME", "here")
        ):  # `start` writes `here`
            yield profile


def missing_settings(page: Path) -> Iterator[str]:
    """Settings by their full name, as `corpus.filter`, that the reference does not list."""
    keys = re.findall(r"^\| `([^`]+)`", (ROOT / "config/README.md").read_text(), re.MULTILINE)
    known = {prefix for key in keys for prefix in accumulate(key.split("."), "{}.{}".format)}
    known = [re.compile(re.escape(key).replace(r"\{name\}", r"[\w{}]+")) for key in known]
    for line in code(page).splitlines():
        named = re.fullmatch(rf"(?:{AREAS})(?:\.[\w{{}}]+)+", line) and not line.endswith((".bin", ".NAME"))
        if named and not any(key.fullmatch(line) for key in known):
            yield line


@pytest.mark.parametrize(
    "missing",
    [missing_links, missing_targets, missing_verbs, missing_modules, missing_paths, missing_profiles, missing_settings],
)
def test_pages_name_only_what_is_there(missing: Callable[[Path], Iterator[str]]):
    assert {str(page.relative_to(ROOT)): names for page in PAGES if (names := sorted(set(missing(page))))} == {}


MEASURED = re.compile(
    r"\d ?(?:[MG]B/s|tokens/s|tokens (?:per|a) second|problems (?:per|a) second|times as fast|ms a problem)"
    r"|[+-]\d\.\d+ \[[+-]?\d"  # a difference with its interval
)


def test_the_figures_of_the_pages_are_those_of_their_files():
    """`make docs` writes them; a figure without a file raises."""
    pages = figures.pages()
    assert [page.name for page in pages if page.read_text() != figures.with_figures(page.read_text())] == []
    used = {mark[2] for page in pages for mark in figures.MARK.finditer(page.read_text())}
    assert used == {path.stem for path in figures.FOLDER.glob("*.json")}


def test_each_stored_figure_says_where_it_comes_from():
    for path in figures.FOLDER.glob("*.json"):
        record = json.loads(path.read_text())
        facts = {"command", "commit", "machine", "date", "recorded", "conditions", "values"}
        assert set(record) - {"tables"} == facts, path
        assert all(set(value) == {"value", "unit", "spread"} for value in record["values"].values()), path


def test_a_figure_is_written_anew_and_a_run_stores_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["benchmarks/bench_x.py", "--megabytes", "4"])
    speeds = [["of", "MB/s"], ["ours", 1234.5], ["peer", 7]]
    figures.store("x", {"speed": figures.Value(1234.5, " MB/s", "three runs")}, "one thread", {"all": speeds})
    text = "It reads <!-- figure x.speed -->9 MB/s<!-- end -->."
    assert figures.with_figures(text) == "It reads <!-- figure x.speed -->1,234.5 MB/s<!-- end -->."
    rows = "| of | MB/s |\n| --- | ---: |\n| ours | 1234.5 |\n| peer | 7 |"
    assert figures.with_figures("<!-- table x.all --><!-- end -->") == f"<!-- table x.all -->\n{rows}\n<!-- end -->"
    record = json.loads((tmp_path / "x.json").read_text())
    assert record["command"] == "python -m benchmarks.bench_x --megabytes 4" and record["recorded"] == "by the run"


def test_no_page_holds_a_measured_number_without_a_file():
    """DECISIONS.md keeps measurements with their date and conditions."""
    for page in figures.pages():
        if page.name != "DECISIONS.md":
            prose = figures.MARK.sub("", re.sub(r"^    .*", "", page.read_text(), flags=re.MULTILINE))
            assert [found[0] for found in MEASURED.finditer(prose)] == [], page.name


def test_architecture_shows_the_folders_of_scripts():
    tree = re.search(r"^    scripts/\n((?:      .*\n)+)", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)[1]
    shown, parents = set(), []
    for indent, name in re.findall(r"^( +)(\w+)/", tree, re.MULTILINE):
        parents[len(indent) // 2 - 3 :] = [name]
        shown.add("/".join(parents))
    files = [path.relative_to(ROOT / "scripts") for path in (ROOT / "scripts").rglob("*") if path.is_file()]
    assert shown == {path.parent.as_posix() for path in files if "__pycache__" not in path.parts} - {"."}


def test_decisions_have_the_same_form_and_are_in_the_table_of_contents():
    text = (ROOT / "docs/DECISIONS.md").read_text()
    assert [line for line in text.splitlines() if len(line) > 120] == []
    listed = re.findall(r"^- \[(.+?)\]\(#", text, re.MULTILINE)
    assert listed == re.findall(r"^## (.+)", text, re.MULTILINE)
    for entry in re.split(r"^###? ", text, flags=re.MULTILINE)[1:]:
        title, _, body = entry.partition("\n")
        if title not in listed:
            assert re.search(r" \(\d{4}-\d\d-\d\d\)$", title), title
            assert re.match(r"\n- \*\*(Decision|Tried|Measured)", body), title
