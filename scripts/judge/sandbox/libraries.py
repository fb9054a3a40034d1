"""Libraries for programs and tests in Java and Go, besides the standard libraries and Debian's packages.

libraries = Libraries.from_settings(["javatuples-1.2.jar"], "vendor")
libraries.missing(problem, go_packages)   # {"org.javatuples.Pair"}: what its tests or its prompt need and nobody has
"""

import re
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scripts.common.errors import UserError
from scripts.judge.problem import Problem

OF_THE_PLATFORM = ("java.", "javax.", "jdk.")


@dataclass(frozen=True)
class Libraries:
    """Jars of Java, and the vendor folder of a Go module."""

    jars: tuple[Path, ...] = ()
    go_vendor: Path | None = None

    @classmethod
    def from_settings(cls, jars: Collection[str] = (), go_vendor: str | None = None) -> "Libraries":
        """The libraries of these files.

        Raises:
            UserError: a file is not a jar, or the folder holds no Go package.
        """
        for jar in jars:
            if not zipfile.is_zipfile(jar):
                raise UserError(f"evaluation.code.jars: {jar}: not a jar")
        libraries = cls(tuple(Path(jar).resolve() for jar in jars), Path(go_vendor).resolve() if go_vendor else None)
        if go_vendor and not libraries.go_packages:
            raise UserError(f"evaluation.code.go_vendor: {go_vendor}: no Go package in it; `go mod vendor` makes one")
        return libraries

    @cached_property
    def classes(self) -> frozenset[str]:
        """The classes in the jars, as `org.javatuples.Pair`."""
        names = []
        for jar in self.jars:
            for name in zipfile.ZipFile(jar).namelist():
                if name.endswith(".class"):
                    names.append(name)
        return frozenset(name.removesuffix(".class").replace("/", ".") for name in names)

    @cached_property
    def go_packages(self) -> list[str]:
        """The import paths of the packages in the vendor folder."""
        folders = {path.parent for path in self.go_vendor.rglob("*.go")} if self.go_vendor else set()
        return sorted(str(folder.relative_to(self.go_vendor)) for folder in folders - {self.go_vendor})

    def holds(self, imported: str) -> bool:
        """Whether the jars hold what Java imports, a class or, as `org.javatuples.*`, any of a package."""
        package = imported.removesuffix("*")
        return imported in self.classes or (
            imported != package and any(name.startswith(package) for name in self.classes)
        )

    def missing(self, problem: Problem, go_packages: Collection[str]) -> set[str]:
        """What the tests or the prompt of a problem import and is not installed.

        Args:
            go_packages: the import paths that Go programs can import here.
        """
        source = f"{problem.head}\n{problem.imports}\n{problem.tests}"
        if problem.language == "java":
            imported = re.findall(r"^\s*import (?:static )?([\w.]+(?:\.\*)?);", source, re.M)
            foreign = {name for name in imported if not name.startswith(OF_THE_PLATFORM) and not self.holds(name)}
            found = set()
            for part in foreign:
                found.update(named_in(part, source))
            return found
        if problem.language == "go":
            blocks = re.findall(r'^import\s*(?:\([^)]*\)|(?:\w+\s+)?"[^"]*")', source, re.M)
            imported = set(re.findall(r'"([\w./-]+)"', "".join(blocks))) - {"testing"}
            foreign_packages = [path for path in imported if path not in go_packages]
            return {
                path for path in foreign_packages if re.search(rf"\b{re.escape(path.split('/')[-1])}\.", problem.tests)
            }
        return set()


TUPLES = ("Unit", "Pair", "Triplet", "Quartet", "Quintet", "Sextet", "Septet", "Octet", "Ennead", "Decade")


def named_in(imported: str, source: str) -> set[str]:
    """What of an import is used: MultiPL-E imports javatuples in every problem.

    Args:
        imported: a class, or a package with `.*`; of packages whose classes are not known here all counts as used.
    """
    code = re.sub(r"^\s*import .*$|//.*", "", source, flags=re.M)
    package, _, name = imported.rpartition(".")
    if name == "*" and package != "org.javatuples":
        return {imported}
    names = TUPLES if name == "*" else [name]
    return {f"{package}.{class_name}" for class_name in names if re.search(rf"\b{class_name}\b", code)}


NONE = Libraries()
