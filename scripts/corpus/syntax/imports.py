"""Order the files of a repository so that a file comes after those that it imports.

    by_imports([{"path": "a.py", "text": "import b", "language": "python"}, {"path": "b.py", ...}])    # b.py, a.py

Imports are found line by line, by the regular expressions of scripts/languages/. A name is resolved to the file of the
repository whose path has the longest common suffix with it. In an import cycle, the file that is first in the given
order comes last.
"""

from collections import defaultdict
from functools import cache
from pathlib import PurePosixPath

from scripts.languages import Imports, imports


@cache
def folder_files() -> set[str]:
    """Names, without ending, of the files that an import of their folder means, in any language."""
    names = set()
    for rules in imports().values():
        names.update(rules.folder_files)
    return names


def parts_of(path: str) -> tuple[str, ...]:
    """The folders of a path and its name without suffix; for `a/__init__.py` and `a/mod.rs` only `a`."""
    pure = PurePosixPath(path)
    parts = (*pure.parent.parts, pure.stem)
    if pure.stem in folder_files() and len(parts) > 1:
        return parts[:-1]
    return parts


def imported_names(document: dict) -> list[tuple[str, ...]]:
    """The names that a document imports, each as a tuple of parts, in the order of its text, each once."""
    rules, path, names = imports().get(document["language"]), PurePosixPath(document["path"]), []
    if rules is None:
        return names
    for match in rules.pattern.finditer(document["text"]):
        names += rules.names(match, path)
    return list(dict.fromkeys(filter(None, names)))


def common_length(one: tuple, other: tuple) -> int:
    """How many parts at the beginning of both are equal."""
    count = 0
    for part, other_part in zip(one, other, strict=False):
        if part != other_part:
            break
        count += 1
    return count


def common_suffix(path: tuple, name: tuple) -> int:
    """How many parts at the end of both are equal."""
    return common_length(path[::-1], name[::-1])


class FileIndex:
    """The files of a repository, indexed by the last part of their paths."""

    def __init__(self, documents: list[dict]):
        self.paths = [parts_of(document["path"]) for document in documents]
        self.names = [PurePosixPath(document["path"]).name for document in documents]
        self.by_last, self.by_folder = defaultdict(list), defaultdict(list)
        for number, document in enumerate(documents):
            for last in {self.paths[number][-1], self.names[number]}:
                self.by_last[last].append(number)
            rules = imports().get(document["language"])
            if rules and rules.unit == "folder":
                self.by_folder[PurePosixPath(document["path"]).parent.name].append(number)

    def resolve(self, name: tuple[str, ...], number: int, language: str) -> list[int]:
        """The files that file `number` imports as `name`, the nearest first; some languages import whole folders."""
        rules = imports()[language]
        if rules.unit == "folder":
            files = [file for file in self.by_folder.get(name[-1], ()) if file != number]
            return self.nearest(files, name, [self.paths[file][:-1] for file in files], number)[:20]
        for end in range(len(name), max(0, len(name) - 2), -1):  # the last part may be a name defined in the file
            files = [file for file in self.by_last.get(name[end - 1], ()) if file != number]
            paths = [(*self.paths[file][:-1], name[end - 1]) for file in files]
            nearest = self.nearest(files, name[:end], paths, number)
            if nearest and self.is_certain(paths[files.index(nearest[0])], name[:end], rules):
                return nearest[:1]
        return []

    def is_certain(self, path: tuple, name: tuple, rules: Imports) -> bool:
        """Whether `name` means the file at `path`, and not a library whose name has the same last part."""
        if len(name) == 1:
            return rules.short_name_depth is None or len(path) <= rules.short_name_depth
        return common_suffix(path, name) > 1 or rules.unit == "file"

    def nearest(self, candidates: list[int], name: tuple, paths: list[tuple], number: int) -> list[int]:
        """Those of `candidates` whose `paths` have the longest common suffix with `name`, the nearest first."""
        lengths = [common_suffix(path, name) for path in paths]
        most = max(lengths, default=0)
        longest = [file for file, length in zip(candidates, lengths, strict=True) if length == most]
        return sorted(longest, key=lambda file: (-self.common_folders(file, number), self.paths[file]))

    def common_folders(self, file: int, other_file: int) -> int:
        """How many folders two files have in common."""
        return common_length(self.paths[file][:-1], self.paths[other_file][:-1])


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
                needed = []
                for name in imported_names(documents[number]):
                    needed += files.resolve(name, number, language)
                stack += [file for file in reversed(list(dict.fromkeys(needed))) if file not in state]
            else:
                stack.pop()
                if not state[number]:
                    state[number] = True
                    order.append(documents[number])
    return order
