"""How often a training stage would have rerun over the last commits: by whole modules, and by the code that is reached.

    python -m tests.experiment.replay --commits 60 [scripts.training.train]

Counts the commits (merges left out) whose fingerprint of the rule differs from that of the commit before. By whole
modules, as it was at first: a hash over every module that the rule's script imports, directly or through others,
without comments and docstrings.
"""

import argparse
import ast
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

from scripts.experiment import code_units, fingerprint

ROOT = Path(__file__).parents[2]


def commits(count: int) -> list[str]:
    """The last `count` commits and the one before them, oldest first."""
    words = ["git", "rev-list", "--no-merges", "--first-parent", f"--max-count={count + 1}", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()[::-1]


def by_modules(module: str) -> str:
    """A hash over all modules that a module imports, however deep."""
    digests, queue = {}, [module]
    while queue:
        name = queue.pop()
        if name in digests or not (path := code_units.path_of(name)):
            continue
        tree = code_units.without_documentation(ast.parse(path.read_bytes()))
        digests[name] = fingerprint.digest(tuple(tree.body))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                queue += code_units.imports_of(node)[1]
        components = name.split(".")
        queue += [".".join(components[:size]) for size in range(1, len(components))]
    return str(sorted(digests.items()))


def changes(fingerprints: list) -> int:
    """How often one differs from the one before; None is a commit without the rule."""
    return sum(after != before for before, after in pairwise(fingerprints) if before and after)


def replay(module: str, count: int) -> tuple[int, int, int]:
    """(commits, reruns by modules, reruns by the code that is reached)."""
    here, names = code_units.ROOT, commits(count)
    whole_modules, reached = [], []
    try:
        for commit in names:
            with tempfile.TemporaryDirectory() as folder:
                archive = subprocess.run(
                    ["git", "archive", commit, "scripts"], cwd=ROOT, capture_output=True, check=True
                )
                subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
                code_units.ROOT = Path(folder)
                forget()
                exists = code_units.path_of(module)
                whole_modules.append(exists and by_modules(module))
                reached.append(exists and fingerprint.fingerprint(module))
    finally:
        code_units.ROOT = here
        forget()
    return len(names) - 1, changes(whole_modules), changes(reached)


def forget() -> None:
    """Empty the caches, which hold the statements of another tree."""
    for cached in (code_units.read_units, fingerprint.reach, fingerprint.fingerprint, fingerprint.files_by_name):
        cached.cache_clear()
    fingerprint.uses_of.cache_clear(), fingerprint.digest.cache_clear()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--commits", type=int, default=60)
    arguments.add_argument("module", nargs="?", default="scripts.training.train")
    options = arguments.parse_args()
    total, whole_modules, reached = replay(options.module, options.commits)
    print(f"{options.module}: {total} commits")
    print(f"reruns by whole modules {whole_modules}, by the code that is reached {reached}")
