"""What belongs together: a file and its own test, tasks cut out of a file, files of a repository.

    units(["net/a/cache.py", "net/tests/test_cache.py"])      # both of net/a/cache.py

They are one unit for the split, so that a module is not held out beside its test in the training data, and for the
intervals, which are for other units.
"""

import re
from pathlib import PurePosixPath

import numpy as np

LINES = re.compile(r":\d+-\d+$")  # behind the path, in the id of a completion task
# names of tests, as pytest, unittest, Go, JUnit, Google Test, Jest and RSpec have them
TEST = re.compile(r"^(?:test_|Test(?=[A-Z]))(?P<name>.+)$|^(?P<other>.+?)(?:[_.](?:unit)?tests?|[_.]spec|Tests?|IT)$")


def tested(stem: str) -> str | None:
    """The name of the module that a test tests by its own name; None for another file."""
    found = TEST.match(stem)
    if found:
        return found["name"] or found["other"]
    return None


def units(names: list[str]) -> list[str]:
    """The unit of each file: of a test the module that it tests, where that is there; of others the file itself.
    `names`: `SOURCE/PATH`, with `:LINE-LINE` behind it for a part of the file; or any other names."""
    paths = [PurePosixPath(LINES.sub("", name)) for name in names]
    modules: dict[tuple[str, str], list[PurePosixPath]] = {}
    for path in dict.fromkeys(paths):
        if tested(path.stem) is None:
            modules.setdefault((path.parts[0], path.stem), []).append(path)
    found = []
    for path in paths:
        name = tested(path.stem)
        module = None
        if name is not None:
            module = module_of(path, modules.get((path.parts[0], name), []))
        found.append(str(module or path))
    return found


def module_of(test: PurePosixPath, modules: list[PurePosixPath]) -> PurePosixPath | None:
    """The module that a test tests: of those with its name, the one whose folders have most names in common."""
    here = set(test.parts[:-1])
    return max(modules, key=lambda module: (len(here & set(module.parts[:-1])), module.as_posix()), default=None)


def clusters(ids: list[str], unit: str) -> np.ndarray:
    """int [documents]: the number of each document's cluster, counted from 0 in order of appearance.

    Args:
        ids: as `names` of `units`.
        unit: `file` or `repository`.
    """
    names = units(ids)
    if unit == "repository":
        for place, name in enumerate(ids):
            path = PurePosixPath(LINES.sub("", name))
            names[place] = path.parts[0] if path.suffix and len(path.parts) > 1 else str(path)
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names])
