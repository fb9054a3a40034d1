"""An area's folder shows exactly its rules, no module is long, rules quote values."""

import ast
import re
from pathlib import Path

import pytest

from scripts.evaluation.suites import abouts

# modules that are no rule of their area, and why
NOT_RULES = {
    "training": {"launch"},  # starts `train` on one or several hosts
}
# modules in a folder of their own; all but one are rules that a loop defines
SUITES = {"evaluation": set(abouts())}
IN_A_LOOP = {"evaluation": {suite for suite, about in abouts().items() if about.needs_gpu}}
MAX_LINES = 400
MAX_COMMON_LINES = 60  # of what all rules share; what one area needs stands in its own file
# what a rule's command may hold without `:q`: a number, and an option that is quoted where it is made
UNQUOTED = {"threads", "resources.engine"}


@pytest.mark.parametrize("area", ["sources", "corpus", "tokens", "training", "evaluation", "report"])
def test_an_areas_folder_shows_exactly_its_rules(area):
    rules = set(re.findall(r"^\s*(?:use )?rule (?:\w+ as )?(\w+)", Path(f"rules/{area}.smk").read_text(), re.M))
    modules = {path.stem for path in Path(f"scripts/{area}").glob("*.py")} - {"__init__"} | SUITES.get(area, set())
    assert modules - NOT_RULES.get(area, set()) == rules | IN_A_LOOP.get(area, set())


def test_no_module_exceeds_the_limit_of_lines():
    lengths = {str(path): len(path.read_text().splitlines()) for path in Path("scripts").rglob("*.py")}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}
    assert len(Path("rules/common.smk").read_text().splitlines()) <= MAX_COMMON_LINES


@pytest.mark.parametrize("path", sorted(Path("rules").glob("*.smk")), ids=lambda path: path.name)
def test_rules_quote_every_value_in_their_commands(path):
    commands = re.findall(r"shell:\n((?:\s+[\"'].*[\"']\n)+)", path.read_text())
    assert path.name == "common.smk" or len(commands) == path.read_text().count("shell:\n") > 0
    values = {value for command in commands for value in re.findall(r"\{([^{}]*)\}", command)}
    assert {value for value in values if not value.endswith(":q")} <= UNQUOTED


# calls that reach code or files by a name that is made while they run, which the fingerprint does not follow
HIDING = {
    "import_module",
    "__import__",
    "eval",
    "exec",
    "run_path",
    "run_module",
    "spec_from_file_location",
    "get_data",
}
LISTING_FILES = {"glob", "rglob", "iterdir", "scandir", "listdir", "walk"}
# where they stand all the same, and why nothing is missed
KNOWN = {
    ("scripts/common/discovery.py", "import_module"),  # the fingerprint follows each call of `constants_in`
    ("scripts/judge/sandbox/values.py", "__import__"),  # of the standard library, for an exception that is sent
    ("scripts/judge/sandbox/guest.py", "exec"),  # runs the program that is judged, whose text is an input
}


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


@pytest.mark.parametrize("path", sorted(Path("scripts").rglob("*.py")), ids=str)
def test_no_code_hides_what_it_uses_from_the_fingerprint(path):
    """A name in an f-string, files of scripts/ by a pattern: an edit of what they mean would rerun nothing."""
    tree = ast.parse(path.read_text())
    for call in [node for node in ast.walk(tree) if isinstance(node, ast.Call)]:
        constant = not call.args or isinstance(call.args[0], ast.Constant)  # `model.eval()` has none
        if name_of(call) in HIDING and not constant:
            assert (str(path), name_of(call)) in KNOWN, f"line {call.lineno}: {ast.unparse(call)}"
        place = ast.unparse(call.func)
        own = "__file__" in place or re.search(r"\bROOT\b", place)
        if name_of(call) in LISTING_FILES and own:
            by_workflow = path.parts[1] in ("experiment", "report", "hosts") or path == Path("scripts/cli_options.py")
            assert by_workflow, f"line {call.lineno}: {ast.unparse(call)}"


@pytest.mark.parametrize("path", sorted(Path("scripts").rglob("*.j2")), ids=str)
def test_a_template_is_one_file(path):
    """What it would include is named nowhere in the code that fills it."""
    assert not re.search(r"\{%-?\s*(include|extends|import|from)\b", path.read_text())
