"""Which functions a rule's jobs execute, against which functions its fingerprint covers.

    python -m tests.experiment.proof                 # the figures, from tests/experiment/executed.txt
    python -m tests.experiment.proof --run           # run the experiments under a trace first, and write that file
    python -m tests.experiment.proof --run tiny pull # some of them alone: tiny, pull, default, cpt-muon, ...

A pair is a function and a rule. It is missed where the rule's job executes the function and a change of the function
leaves the rule's fingerprint as it is: a rerun too few. It is an over-trigger where the fingerprint changes and no
trace executes the function: perhaps a rerun too many, or an error path.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import yaml

from scripts.experiment import code_units, fingerprint
from scripts.experiment.settings.evaluation import Evaluation
from tests.workflow.conftest import EXPERIMENT, row

ROOT = Path(__file__).parents[2]
EXECUTED = Path(__file__).with_name("executed.txt")
Function = tuple[str, str]  # file, qualified name
Pairs = set[tuple[Function, str]]


def rules() -> list[str]:
    """The modules whose fingerprint is a param of a rule."""
    named = {
        name for path in (ROOT / "rules").glob("*.smk") for name in re.findall(r'rint\("([\w.]+)"', path.read_text())
    }
    suites = {f"scripts.evaluation.{name}" for name in Evaluation.model_fields}
    return sorted(named | {name for name in suites if code_units.path_of(name)})


def functions_in(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.AST]]:
    """(qualified name, node) of each function in a tree, as Python names it; nested ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield above + node.name, node
            yield from functions_in(node, f"{above}{node.name}.<locals>.")
        else:
            yield from functions_in(node, f"{above}{node.name}." if isinstance(node, ast.ClassDef) else above)


def all_functions(root: Path = ROOT) -> dict[Function, ast.AST]:
    """Every function of scripts/ with its place in the source."""
    return {
        (str(path.relative_to(root)), name): node
        for path in sorted((root / "scripts").rglob("*.py"))
        for name, node in functions_in(ast.parse(path.read_bytes()))
    }


def module_name(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def covered() -> Pairs:
    """The pairs whose function lies within a statement that the rule's fingerprint covers."""
    pairs, functions = set(), all_functions(code_units.ROOT)
    for rule in rules():
        found = fingerprint.reach(rule)
        statements = [(rule, one) for one in code_units.read_units(rule).main]
        statements += [(module, one) for module in found.modules for one in code_units.read_units(module).effects]
        for module, name in found.definitions:
            statements += [(module, one) for one in code_units.read_units(module).definitions[name]]
        within = {}  # module → lines at which a function begins that its statements hold
        for module, one in statements:
            found_here = (
                node.lineno for node in ast.walk(one) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            within.setdefault(module, set()).update(found_here)
        whole = {str(path.relative_to(code_units.ROOT)) for path in found.files}
        for function, node in functions.items():
            if function[0] in whole or node.lineno in within.get(module_name(function[0]), ()):
                pairs.add((function, rule))
    return pairs


def traced(folder: Path, environment: dict | None = None) -> dict[str, str]:
    """The environment for a command whose rules' jobs are traced into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return {**(environment or os.environ), "TRACE": str(folder), "PYTHONPATH": str(ROOT / "tests/trace")}


def executed(folder: Path) -> Pairs:
    """The pairs that a trace in `folder` holds, of the rules alone."""
    known, functions, pairs = set(rules()), all_functions(), set()
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            rule, file, function = line.split("\t")
            if rule in known and (file, function) in functions:  # the body of a class is no function
                pairs.add(((file, function), rule))
    return pairs


def smoke_sizes() -> list[str]:
    return sorted(path.stem for path in (ROOT / "config/smoke").glob("*.yaml"))


def run_experiment(name: str, clone: Path, folder: Path) -> None:
    """Run an experiment by its own command in a clone, traced; a failed run is an error.

    `tiny` is the tests' experiment with every suite, without compiling, so that numba's functions are seen as well.
    """
    environment = traced(folder) | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if name == "tiny":
        environment["NUMBA_DISABLE_JIT"] = "1"
        write_tiny(clone)
        words = [
            "snakemake",
            "--profile",
            "local",
            "results/tiny/eval.json",
            "results/tiny/training/plan/sft.json",
            "--configfile",
            "config/tiny.yaml",
        ]
    elif name == "default":
        words = ["snakemake", "--profile", "local", "results/eval.json"]
    elif name == "pull":
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/workflow/dvc/test_raw_archives.py",
        ]
        words += ["tests/sources/test_pull.py"]
    else:
        words = ["make", "--no-print-directory", "--old-file", "env", "smoke", f"EXPERIMENT={name}"]
    subprocess.run(words, cwd=clone, env=environment, check=True)


def changed_rules(function: Function, node: ast.AST, root: Path, before: dict[str, str], forget) -> set[str]:
    """The rules whose fingerprint is not that of `before` when a function changes in the tree at `root`.

    Fingerprints are taken of that tree; `forget(module)` makes them read a module again.
    """
    path = root / function[0]
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    last = node.body[-1]
    at = node.end_lineno
    same_line = last.lineno == node.lineno
    lines[at - 1] = lines[at - 1].rstrip("\n") + ("; 12345\n" if same_line else f"\n{' ' * last.col_offset}12345\n")
    path.write_text("".join(lines))
    try:
        forget(module_name(function[0]))
        return {rule for rule in before if fingerprint.fingerprint(rule) != before[rule]}
    finally:
        path.write_text(text)
        forget(module_name(function[0]))


def write_tiny(clone: Path) -> None:
    """The tests' tiny experiment with every suite that needs no GPU."""
    config = deepcopy(EXPERIMENT) | {"results": "results/tiny"}
    config["training"]["train"]["sft"] |= {"eval_steps": 1, "early_stopping": {"patience": 1}}
    config["evaluation"] |= {
        "qa": {"max_new_tokens": 4},
        "bleu": {"documents": 1, "max_new_tokens": 4},
        "human": {"of": "keywords"},
        "completion": {"sizes": ["line"], "tasks": 1, "prompt_characters": 200, "max_new_tokens": 4},
        "code": {"benchmarks": [{"path": "config/problems.jsonl"}], "max_new_tokens": 4},
        "latency": {"device": "cpu", "prompt_tokens": 4, "new_tokens": 4, "warmup": 1, "runs": 3, "batches": [1]},
    }
    (clone / "config/tiny.yaml").write_text(yaml.safe_dump(config))
    problem = {
        "task_id": "HumanEval/0",
        "prompt": 'def add(a, b):\n    """Return the sum."""\n',
        "canonical_solution": "    return a + b\n",
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "entry_point": "add",
    }
    (clone / "config/problems.jsonl").write_text(json.dumps(problem) + "\n")
    folder = clone / "sources"
    small = {"alpha": "json", "beta": "importlib"}
    table = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
    for source, package in small.items():
        library = Path(sysconfig.get_paths()["stdlib"], package)
        shutil.copytree(library, folder / source / package, ignore=shutil.ignore_patterns("__pycache__"))
        table += row(source, folder / source)
    (clone / "config/tiny.tsv").write_text(table)


def run_all(names: list[str], keep: Path | None = None) -> Pairs:
    """Run these experiments in a clone of the commit that is checked out; the pairs that were executed."""
    with tempfile.TemporaryDirectory(dir=keep) as folder:
        clone, pairs = Path(folder, "stagecraft"), set()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for name in names:
            run_experiment(name, clone, Path(folder, "trace", name))
            pairs |= executed(Path(folder, "trace", name))
        return pairs


def write_executed(pairs: Pairs) -> None:
    """Write the pairs to EXECUTED: the functions of each file, grouped by the rules that execute them."""
    groups = {}
    for function in {function for function, _ in pairs}:
        rules = " ".join(sorted(rule.removeprefix("scripts.") for one, rule in pairs if one == function))
        groups.setdefault(rules, {}).setdefault(function[0], []).append(function[1])
    lines = ["# Functions that rules execute; made by `python -m tests.experiment.proof --run`."]
    for rules in sorted(groups):
        lines += ["", f"{rules}:"] + [
            f"{file} {' '.join(sorted(groups[rules][file]))}" for file in sorted(groups[rules])
        ]
    EXECUTED.write_text("\n".join(lines) + "\n")


def read_executed() -> Pairs:
    """The pairs in EXECUTED whose function is still there."""
    pairs, rules, known = set(), [], set(all_functions())
    for line in EXECUTED.read_text().splitlines()[1:]:
        if line.endswith(":"):
            rules = [f"scripts.{rule}" for rule in line[:-1].split()]
        elif line:
            file, *functions = line.split()
            pairs |= {((file, function), rule) for function in functions for rule in rules}
    return {pair for pair in pairs if pair[0] in known}


def figures(pairs: Pairs) -> str:
    """The two numbers, over the rules of which there is a trace."""
    traced_rules = {rule for _, rule in pairs}
    flagged = {pair for pair in covered() if pair[1] in traced_rules}
    over = flagged - pairs
    lines = [
        f"{len(traced_rules)} of {len(rules())} rules traced, {len(all_functions())} functions",
        f"{len(pairs)} pairs executed, {len(pairs - flagged)} of them missed",
        f"{len(flagged)} pairs flagged, {len(over)} of them executed by no trace ({len(over) / len(flagged):.0%})",
    ]
    for (file, name), rule in sorted(pairs - flagged):
        lines.append(f"missed: {file}: {name} by {rule}")
    lines.append(
        "over-triggers by file: " + ", ".join(f"{f} {n}" for f, n in Counter(o[0][0] for o in over).most_common(12))
    )
    return "\n".join(lines)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--run", nargs="*", metavar="NAME", help="experiments: tiny, default, pull, a smoke size; all"
    )
    given = arguments.parse_args()
    if given.run is not None:
        write_executed(run_all(given.run or ["tiny", "pull", *smoke_sizes(), "default"]))
    print(figures(read_executed()))
