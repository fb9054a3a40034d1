"""Which functions a rule's jobs execute, against which functions its fingerprint covers.

    python -m tests.experiment.proof                 # the figures, from results/executed.txt
    python -m tests.experiment.proof --run           # run the experiments under a trace first, and write that file
    python -m tests.experiment.proof --run tiny rest # some of them alone: tests/experiment/traced_experiments.py

A pair is a function and a rule. It is missed where the rule's job executes the function and a change of the function
leaves the rule's fingerprint as it is: a rerun too few. It is an over-trigger where the fingerprint changes and no
trace executes the function: perhaps a rerun too many, or an error path.
"""

import argparse
import ast
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.experiment import fingerprint
from scripts.experiment.settings.evaluation import Evaluation
from tests import forked
from tests.experiment.traced_experiments import TRACED, run_experiment, smoke_sizes

ROOT = Path(__file__).parents[2]
EXECUTED = ROOT / "results/executed.txt"
Function = tuple[str, str]  # file, qualified name
Pairs = set[tuple[Function, str]]


def rules() -> list[str]:
    """The modules whose fingerprint is a param of a rule."""
    named = {
        name for path in (ROOT / "rules").glob("*.smk") for name in re.findall(r'rint\("([\w.]+)"', path.read_text())
    }
    suites = {f"scripts.evaluation.suites.{name}" for name in Evaluation.model_fields}
    return sorted(named | {name for name in suites if fingerprint.path_of(name)})


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
    pairs, functions = set(), all_functions(fingerprint.ROOT)
    for rule in rules():
        reached = fingerprint.reach(rule)
        statements = [(rule, statement) for statement in fingerprint.read_parts(rule).main]
        statements += [
            (module, effect) for module in reached.modules for effect in fingerprint.read_parts(module).effects
        ]
        for module, name in reached.definitions:
            statements += [(module, definition) for definition in fingerprint.read_parts(module).definitions[name]]
        within = {}  # module → lines at which a function begins that its statements hold
        for module, statement in statements:
            found_here = (
                node.lineno for node in ast.walk(statement) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            within.setdefault(module, set()).update(found_here)
        whole_files = {str(path.relative_to(fingerprint.ROOT)) for path in reached.files}
        for function, node in functions.items():
            if function[0] in whole_files or node.lineno in within.get(module_name(function[0]), ()):
                pairs.add((function, rule))
    return pairs


def executed(folder: Path) -> Pairs:
    """The pairs that a trace in `folder` holds, of the rules alone."""
    known, functions, pairs = set(rules()), all_functions(), set()
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            rule, file, function = line.split("\t")
            if rule in known and (file, function) in functions:  # the body of a class is no function
                pairs.add(((file, function), rule))
    return pairs


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


def run_all(names: list[str]) -> Pairs:
    """Run these experiments, each in a clone of the commit that is checked out; the pairs that were executed."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = set()
        for name in names:
            clone = Path(folder, name, "stagecraft")
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
            run_experiment(name, clone, Path(folder, "trace", name))
            pairs |= executed(Path(folder, "trace", name))
        return pairs


def write_executed(pairs: Pairs) -> None:
    """Write the pairs to EXECUTED: the functions of each file, grouped by the rules that execute them."""
    groups = {}
    for function in {function for function, _ in pairs}:
        rules = " ".join(sorted(rule.removeprefix("scripts.") for name, rule in pairs if name == function))
        groups.setdefault(rules, {}).setdefault(function[0], []).append(function[1])
    lines = ["# Functions that rules execute; made by `python -m tests.experiment.proof --run`."]
    for rules in sorted(groups):
        lines += ["", f"{rules}:"] + [
            f"{file} {' '.join(sorted(groups[rules][file]))}" for file in sorted(groups[rules])
        ]
    EXECUTED.parent.mkdir(exist_ok=True)
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
        "--run", nargs="*", metavar="NAME", help="experiments: tiny, rest, shards, pull, default, a smoke size; all"
    )
    options = arguments.parse_args()
    if options.run is not None:
        forked.ENVIRONMENT.update(TRACED)
        write_executed(run_all(options.run or ["tiny", "rest", "shards", "pull", *smoke_sizes(), "default"]))
    print(figures(read_executed()))
