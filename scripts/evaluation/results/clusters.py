"""What varies together: the clusters of documents that intervals resample, and for how many equal ones they count.

    clusters(["a/src/cache.go", "a/src/cache_test.go", "a/src/walk.go:75-91", "a/src/walk.go:175-175"], "file")
    # array([0, 0, 1, 1])

A module and its test are much alike (correlated by 0.5 in held-out files of real repositories), and so are tasks from
one file: an interval over single documents is too narrow. Documents of a file and of the file's own test are therefore
one cluster. Where repositories were held out as a whole (`corpus.split.by: repository`), all documents of a repository
are one. An id without a file's extension, such as a problem of a benchmark, is a cluster of its own.
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


def clusters(ids: list[str], unit: str) -> np.ndarray:
    """int [documents]: the number of each document's cluster, counted from 0 in order of appearance.

    Args:
        ids: `SOURCE/PATH`, with `:LINE-LINE` behind it for a part of the file; or any other names.
        unit: `file` or `repository`.
    """
    paths = [PurePosixPath(LINES.sub("", identity)) for identity in ids]
    modules: dict[tuple[str, str], list[PurePosixPath]] = {}
    for path in dict.fromkeys(paths):
        if tested(path.stem) is None:
            modules.setdefault((path.parts[0], path.stem), []).append(path)
    numbers: dict[object, int] = {}
    found = []
    for path in paths:
        name, key = tested(path.stem), path
        if unit == "repository" and path.suffix and len(path.parts) > 1:
            key = path.parts[0]
        if unit == "file" and name is not None:
            key = module_of(path, modules.get((path.parts[0], name), [])) or path
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found)


def module_of(test: PurePosixPath, modules: list[PurePosixPath]) -> PurePosixPath | None:
    """The module that a test tests: of those with its name, the one whose folders have most names in common."""
    here = set(test.parts[:-1])
    return max(modules, key=lambda module: (len(here & set(module.parts[:-1])), module.as_posix()), default=None)


def sums_by_cluster(columns: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """float64 [clusters, width]: the sums of the documents' columns. `columns`: float64 [documents, width]; `numbers`:
    int [documents], as `clusters` returns them."""
    sums = np.zeros((numbers.max() + 1, columns.shape[1]))
    np.add.at(sums, numbers, columns)
    return sums


def effective_number(sizes: np.ndarray) -> float:
    """For how many clusters of equal size these count (Kish 1965): the square of their sum over the sum of squares.

    One file with most of the bytes says little about other files, however many small ones lie beside it.
    """
    total = float(sizes.sum())
    if total:
        return total**2 / float((sizes.astype(np.float64) ** 2).sum())
    return 0.0
