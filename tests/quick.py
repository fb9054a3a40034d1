"""Which tests are quick: those that need neither torch nor a real DAG. `pytest --quick` runs them alone.

A file of tests is quick unless it lies in tests/workflow, or it or a module that it imports at its top imports torch
(or a library that does). A test of a quick file is marked `slow` if it starts such a program, a compiler or DVC, or
works for seconds. While quick tests run, torch cannot be imported, neither here nor in the Python programs that they
start: a wrong guess is an error. `make test` runs them so too, then the others with `pytest --rest`.
"""

import ast
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

ROOT = Path(__file__).parents[1]
TORCH = {"torch", "accelerate", "peft", "deepspeed", "safetensors.torch"}
TOKENIZERS = {"AutoTokenizer", "Qwen2Tokenizer"}  # what transformers offers without torch
BLOCKED = Path(__file__).with_name("without_torch")


def path_of(module: str) -> Path | None:
    """The file of a module of this repository; None for another one."""
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name or "") of each import at the top of a file."""
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


@cache
def needs_torch(path: Path) -> bool:
    """Whether to import this file is to import torch."""
    for module, name in imported(path):
        if module in TORCH or module.split(".")[0] in TORCH:
            return True
        if module.split(".")[0] == "transformers" and name not in TOKENIZERS:
            return True
        files = (
            [path_of(module), path_of(f"{module}.{name}")]
            if module.startswith(("scripts", "tests", "benchmarks"))
            else []
        )
        if any(needs_torch(file) for file in files if file and file != path):
            return True
    return False


def is_quick(path: Path) -> bool:
    """Whether a file of tests is quick."""
    return ROOT / "tests/workflow" not in path.parents and not needs_torch(path)


class WithoutTorch(PathFinder):
    """Finds all that is installed but torch."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "torch" else super().find_spec(name, path, target)


def block_torch() -> None:
    """Make `import torch` an error, in this process and in the Python programs that it starts."""
    # not by None in sys.modules, where scipy looks for torch's classes
    sys.meta_path[:] = [WithoutTorch if finder is PathFinder else finder for finder in sys.meta_path]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BLOCKED), os.environ.get("PYTHONPATH")]))
