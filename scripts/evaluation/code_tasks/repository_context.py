"""Other files of the same repository that a file imports, as text to put before a prompt.

    paths = RepositoryPaths(["src/app/main.py", "src/app/util.py"])
    paths.imported_by("src/app/main.py", "from app import util\\n", "python")     # ["src/app/util.py"]

An import is resolved by its name alone: `app.util` is a file whose path ends in `app/util.py` or
`app/util/__init__.py`, a Go package is all files of a folder with its name. Where names repeat, a wrong file may be
shown.
"""

import posixpath
from collections import defaultdict

from scripts.corpus.syntax.grammars import parse
from scripts.corpus.syntax.imports import folder_files
from scripts.languages import Imports, imports, languages


def module_of(path: str, rules: Imports) -> str:
    """The path that imports name a file by: without its ending, a Go file's folder, a C header as it is."""
    if rules.unit == "file":
        return path
    stem = posixpath.splitext(path)[0]
    if rules.unit == "folder" or posixpath.basename(stem) in folder_files():
        return posixpath.dirname(path)
    return stem


class RepositoryPaths:
    """The files of one repository, by the names that imports give them."""

    def __init__(self, paths: list[str]):
        self.paths = sorted(paths)
        self.by_suffix = {}  # language → every ending of a module's path → paths

    def index(self, language: str) -> dict[str, list[str]]:
        if language not in self.by_suffix:
            suffixes = defaultdict(list)
            for path in self.paths:
                parts = module_of(path, imports()[language]).split("/")
                for start in range(len(parts)):
                    suffixes["/".join(parts[start:])].append(path)
            self.by_suffix[language] = suffixes
        return self.by_suffix[language]

    def imported_by(self, path: str, text: str, language: str) -> list[str]:
        """The files that a file imports, in the order of its imports, without itself."""
        captures, index, files = parse(text, path, language) or {}, self.index(language), {}
        for node in captures.get("import", []):
            for module in imports()[language].paths(node.text.decode(errors="replace"), path):
                if index.get(module):
                    files |= dict.fromkeys(index[module])
                    break
        files.pop(path, None)
        return list(files)


def repository_context(files: list[tuple[str, str]], path: str, language: str, characters: int) -> str:
    """The beginnings of files under their paths, then the path of the file that follows; empty without files.

    Args:
        files: (path, text), the most important first.
        path: of the file that the context is for.
        characters: most of all texts together; each text ends at a line end.
    """
    mark, shown = languages()[language].comment, []
    for other, text in files:
        part = text if len(text) <= characters else text[: text.rfind("\n", 0, characters) + 1]
        if not part:
            break
        shown.append(f"{mark} {other}\n{part.rstrip()}\n\n")
        characters -= len(part)
    return "".join(shown) + f"{mark} {path}\n" if shown else ""
