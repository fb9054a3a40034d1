"""Read BigCodeBench, full and hard, as JSON lines of `bigcode/bigcodebench`; the tests are a unittest class.

    problem = bigcodebench(record)

The tests run in a process of their own, so that a program cannot touch them. Tests that replace functions inside the
program (mock), exchange files with it, seed its random numbers or look at its current figure need one process for both;
such problems are `unjudged`.
"""

import ast
from pathlib import Path

from scripts.judge.problem import Problem

RUNNER = Path(__file__).with_name("bigcodebench_tests.py").read_text(encoding="utf-8")
# those of bigcodebench/provider/utility.py
STOPS = ("\nif __name__", "\ndef main(", "\nprint(", "\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ", "\n```")
# names in tests that reach into the program's process, and that read and write files
MOCKS = {"patch", "mock", "Mock", "MagicMock", "mock_open"}
FILES = {"open", "tempfile", "shutil", "makedirs", "mkdir", "remove", "unlink", "listdir", "rmdir", "chdir", "Path"}
FILES |= {"subprocess", "sqlite3", "savefig", "to_csv", "to_excel", "zipfile", "TemporaryDirectory"}
FIGURES = {"gca", "gcf", "get_fignums"}


def names_in(tree: ast.Module) -> set[str]:
    """All names and attributes in a program, imported ones too."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return names | {part for node in imports for alias in node.names for part in alias.name.split(".")}


def bigcodebench(record: dict) -> Problem:
    prompt, tests = record["complete_prompt"], record["test"]
    try:
        tree = ast.parse(tests)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"test: {error}") from error
    if "TestCases" not in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}:
        raise ValueError("test: no class TestCases")
    used, unjudged = names_in(tree), ""
    if used & FILES:
        unjudged = "the tests exchange files with the program"
    if used & FIGURES:
        unjudged = "the tests look at pyplot's current figure, which the program draws"
    if "seed" in used and "random" in prompt + record["canonical_solution"]:
        unjudged = "the tests seed the random numbers that the program draws"
    if used & MOCKS:
        unjudged = "the tests replace functions inside the program (mock)"
    return Problem(
        id=record["task_id"],
        language="python",
        prompt=prompt,
        head=prompt,
        tests=f"{tests}\n{RUNNER}",
        entry=record["entry_point"],
        stops=STOPS,
        imports="".join(
            f"{ast.unparse(node)}\n" for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
        ),
        canonical=record["canonical_solution"],
        request=record["instruct_prompt"],
        unjudged=unjudged,
    )
