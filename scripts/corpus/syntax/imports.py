"""Order the files of a repository so that a file comes after those that it imports.

    by_imports([{"path": "a.py", "text": "import b", "language": "python"}, {"path": "b.py", ...}])    # b.py, a.py

Imports are found line by line with regular expressions. A name is resolved to the file of the repository whose path has
the longest common suffix with it. In an import cycle, the file that is first in the given order comes last.
"""

import re
from collections import defaultdict
from pathlib import PurePosixPath

C = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
IMPORTS = {
    "python": re.compile(
        r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+\(?([\w, \t]*)|import[ \t]+([\w.]+))", re.MULTILINE
    ),
    "java": re.compile(r"^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.]+)", re.MULTILINE),
    "go": re.compile(r"^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?\"([^\"\s]+)\"[ \t]*$", re.MULTILINE),
    "rust": re.compile(r"^[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:use|mod)[ \t]+([\w:]+)", re.MULTILINE),
    "c": C,
    "cpp": C,
}
OWN = {"crate", "self", "super"}  # Rust's names of the repository itself
FOLDER_FILES = {"__init__", "mod", "lib"}  # an import of a folder means one of these files in it


def parts_of(path: str) -> tuple[str, ...]:
    """The folders of a path and its name without suffix; for `a/__init__.py` and `a/mod.rs` only `a`."""
    pure = PurePosixPath(path)
    parts = (*pure.parent.parts, pure.stem)
    return parts[:-1] if pure.stem in FOLDER_FILES and len(parts) > 1 else parts


def imported_names(document: dict) -> list[tuple[str, ...]]:
    """The names that a document imports, each as a tuple of parts, in the order of its text."""
    language, path = document["language"], PurePosixPath(document["path"])
    names = []
    for match in IMPORTS[language].finditer(document["text"]) if language in IMPORTS else ():
        name = match[1] or (match[3] if language == "python" else None) or ""
        if language in ("c", "cpp"):
            names.append(tuple(part for part in PurePosixPath(name).parts if part not in (".", "..")))
        elif language == "go":
            names.append(tuple(name.split("/")))
        elif language == "python":
            dots = len(name) - len(name.lstrip("."))
            above = path.parent.parts[: max(0, len(path.parent.parts) - dots + 1)] if dots else ()
            module = (*above, *filter(None, name.lstrip(".").split(".")))
            names += [
                (*module, attribute.strip()) for attribute in (match[2] or "").split(",") if attribute.strip()
            ] or [module]
        else:
            names.append(tuple(part for part in re.split(r"\.|::", name) if part and part not in OWN))
    return list(dict.fromkeys(filter(None, names)))


class FileIndex:
    """The files of a repository, indexed by the last part of their paths."""

    def __init__(self, documents: list[dict]):
        self.paths = [parts_of(document["path"]) for document in documents]
        self.names = [PurePosixPath(document["path"]).name for document in documents]
        self.by_last, self.by_folder = defaultdict(list), defaultdict(list)
        for number, document in enumerate(documents):
            for last in {self.paths[number][-1], self.names[number]}:
                self.by_last[last].append(number)
            if document["language"] == "go":  # a package is a folder
                self.by_folder[PurePosixPath(document["path"]).parent.name].append(number)

    def resolve(self, name: tuple[str, ...], number: int, language: str) -> list[int]:
        """The files that file `number` imports as `name`, the nearest first; Go imports whole folders."""
        if language == "go":
            files = [file for file in self.by_folder.get(name[-1], ()) if file != number]
            return self.nearest(files, name, [self.paths[file][:-1] for file in files], number)[:20]
        for end in range(len(name), max(0, len(name) - 2), -1):  # the last part may be a name defined in the file
            if files := [file for file in self.by_last.get(name[end - 1], ()) if file != number]:
                paths = [(*self.paths[file][:-1], name[end - 1]) for file in files]
                nearest = self.nearest(files, name[:end], paths, number)
                if nearest and self.is_certain(paths[files.index(nearest[0])], name[:end], language):
                    return nearest[:1]
        return []

    def is_certain(self, path: tuple, name: tuple, language: str) -> bool:
        """Whether `name` means the file at `path`, and not a library whose name has the same last part."""
        if len(name) == 1:  # a Python module at the top, or in the one folder of the sources
            return language != "python" or len(path) <= 2
        return self.common_suffix(path, name) > 1 or language in ("c", "cpp")

    def nearest(self, candidates: list[int], name: tuple, paths: list[tuple], number: int) -> list[int]:
        """Those of `candidates` whose `paths` have the longest common suffix with `name`, the nearest first."""
        lengths = [self.common_suffix(path, name) for path in paths]
        longest = [file for file, length in zip(candidates, lengths, strict=True) if length == max(lengths)]
        return sorted(longest, key=lambda file: (-self.common_folders(file, number), self.paths[file]))

    @staticmethod
    def common_suffix(path: tuple, name: tuple) -> int:
        """How many parts at the end of both are equal."""
        pairs = zip(reversed(path), reversed(name), strict=False)
        return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(path), len(name)))

    def common_folders(self, file: int, other_file: int) -> int:
        """How many folders two files have in common."""
        pairs = zip(self.paths[file][:-1], self.paths[other_file][:-1], strict=False)
        return next(
            (count for count, (a, b) in enumerate(pairs) if a != b),
            min(len(self.paths[file]), len(self.paths[other_file])),
        )


def sort_by_imports(documents: list[dict]) -> list[dict]:
    """The documents of a repository, each after those that it imports; otherwise in the given order."""
    files, state, order = FileIndex(documents), {}, []
    for first in range(len(documents)):
        stack = [first]
        while stack:
            number = stack[-1]
            if number not in state:
                state[number] = False  # its imports are on the stack
                language = documents[number]["language"]
                names = imported_names(documents[number])
                needed = [file for name in names for file in files.resolve(name, number, language)]
                stack += [file for file in reversed(list(dict.fromkeys(needed))) if file not in state]
            else:
                stack.pop()
                if not state[number]:
                    state[number] = True
                    order.append(documents[number])
    return order
