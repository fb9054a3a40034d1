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

# names of the files that stand for their folder
FOLDER_FILES = {"__init__", "mod", "lib"}
COMMENT = {"python": "#"}  # of all others: //


def module_of(path: str, language: str) -> str:
    """The path that imports name a file by: without its ending, a Go file's folder, a C header as it is."""
    if language in ("c", "cpp"):
        return path
    stem = posixpath.splitext(path)[0]
    if language == "go" or posixpath.basename(stem) in FOLDER_FILES:
        return posixpath.dirname(path)
    return stem


def import_paths(name: str, path: str, language: str) -> list[str]:
    """The module paths that an import may mean, the likeliest first.

    Args:
        name: as it stands in the file, e.g. `..core.util` or `"fmt"`.
        path: of the importing file.
    """
    if language == "python":
        dots = len(name) - len(name.lstrip("."))
        parts = [part for part in name.lstrip(".").split(".") if part]
        if dots:
            folder = path
            for _ in range(dots):
                folder = posixpath.dirname(folder)
            parts = [*filter(None, folder.split("/")), *parts]
        return ["/".join(parts)]
    if language == "java":
        return [name.replace(".", "/")]
    if language == "rust":
        parts = [part.strip() for part in name.split("{")[0].split("::")]
        parts = [part for part in parts if part and part not in ("crate", "self", "super", "*")]
        return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    parts = name.strip('"<>`').split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))] if language == "go" else ["/".join(parts)]


class RepositoryPaths:
    """The files of one repository, by the names that imports give them."""

    def __init__(self, paths: list[str]):
        self.paths = sorted(paths)
        self.by_suffix = {}  # language → every ending of a module's path → paths

    def index(self, language: str) -> dict[str, list[str]]:
        if language not in self.by_suffix:
            suffixes = defaultdict(list)
            for path in self.paths:
                parts = module_of(path, language).split("/")
                for start in range(len(parts)):
                    suffixes["/".join(parts[start:])].append(path)
            self.by_suffix[language] = suffixes
        return self.by_suffix[language]

    def imported_by(self, path: str, text: str, language: str) -> list[str]:
        """The files that a file imports, in the order of its imports, without itself."""
        captures, index, files = parse(text, path, language) or {}, self.index(language), {}
        for node in captures.get("import", []):
            for module in import_paths(node.text.decode(errors="replace"), path, language):
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
    mark, shown = COMMENT.get(language, "//"), []
    for other, text in files:
        part = text if len(text) <= characters else text[: text.rfind("\n", 0, characters) + 1]
        if not part:
            break
        shown.append(f"{mark} {other}\n{part.rstrip()}\n\n")
        characters -= len(part)
    return "".join(shown) + f"{mark} {path}\n" if shown else ""
