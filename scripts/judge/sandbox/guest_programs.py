"""Bundle modules of this project into one program that runs alone inside a sandbox."""

import marshal
import re
from collections.abc import Sequence
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import ModuleType


def bundle(modules: Sequence[ModuleType], name: str, last_line: str = "") -> bytes:
    """Modules as one compiled program, in the format of .pyc files (PEP 552), so that no process has to compile it.

    Imports of this project, and what follows `if __name__`, are left out.

    Args:
        modules: each after those that it imports.
        name: file name in tracebacks.
        last_line: code at the end, such as a call of `main`.
    """
    texts = (Path(module.__file__).read_text(encoding="utf-8").split("\nif __name__")[0] for module in modules)
    without_imports = re.sub(r"^from scripts\.[^\n(]*(?:\([^)]*\))?\n", "", "\n".join(texts), flags=re.M)
    return MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(f"{without_imports}\n{last_line}\n", name, "exec"))
