"""Unpack a Python repository into two folders: the whole of it for the tests, only its packages for the candidate.

    repository = unpack("toolz", Path("data/raw/toolz-....tar.zst"), Path("/tmp/x"))
    repository.tests                # ["toolz/tests/test_core.py", ...]
    repository.modules              # {"toolz/core.py": "toolz.core", ...}

Modules are looked for in `src`, `lib` and the repository's own folder.
"""

import email
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import zstandard

from scripts.common.errors import UserError

ROOTS = ("src", "lib", "")
TEST_FOLDERS = {"test", "tests"}
TEST_FILE = re.compile(r"(test_.*|.*_test)\.py")
TEST_MODULES = ("test.py", "tests.py")
TEST = re.compile(rb"^\s*(import|from) (unittest|pytest)\b", re.MULTILINE)
# folders and modules beside the packages that are no part of them
BESIDE = {"bench", "benchmark", "benchmarks", "build", "ci", "conftest", "dist", "doc", "docs", "example", "examples"}
BESIDE |= {"extras", "fabfile", "noxfile", "scripts", "setup", "tasks", "tools", "versioneer", *TEST_FOLDERS}


@dataclass(frozen=True)
class Repository:
    """An unpacked repository.

    Attributes:
        name: of the source.
        checkout, packages: folders with all files, and with the packages without their tests.
        empty: a folder without files.
        roots: folders from which modules are imported, as in the repository.
        modules: path → name of each module of the packages.
        tests: the files with tests.
        hidden: beginnings of paths that are only in `checkout`.
    """

    name: str
    checkout: Path
    packages: Path
    empty: Path
    roots: list[str]
    modules: dict[str, str]
    tests: list[str]
    hidden: list[str]

    @property
    def tops(self) -> list[str]:
        """The names that its modules are imported by, without what follows a dot."""
        return sorted({name.partition(".")[0] for name in self.modules.values()})

    def text(self, path: str) -> str:
        return (self.checkout / path).read_text(encoding="utf-8")


def is_test(folder: Path, path: str) -> bool:
    """Whether a file of a repository belongs to its tests; a `tests.py` may also be a module that is tested."""
    parts = PurePosixPath(path).parts
    if TEST_FOLDERS & {*parts[:-1]} or parts[-1] == "conftest.py" or TEST_FILE.fullmatch(parts[-1]):
        return True
    return parts[-1] in TEST_MODULES and bool(TEST.search((folder / path).read_bytes()))


def extract(archive: Path, folder: Path) -> None:
    """Unpack an archive of rule `fetch`.

    Raises:
        UserError: it is not there, or damaged.
    """
    if not archive.is_file():
        raise UserError(f"{archive}: no such file; rule `fetch` makes it")
    try:
        with (
            archive.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            tar.extractall(folder, filter="data")
    except (zstandard.ZstdError, tarfile.TarError) as error:
        raise UserError(f"{archive}: damaged: {error}; remove it and run again") from error


def module_name(root: str, path: str) -> str:
    parts = PurePosixPath(path).relative_to(root or ".").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_below(folder: Path, root: str) -> dict[str, str]:
    """Path → name of each module below a root: of packages, and files that stand alone."""
    modules = {}
    for path in sorted((folder / root).glob("*.py")):
        if path.stem not in BESIDE and not is_test(folder / root, path.name):
            modules[path.relative_to(folder).as_posix()] = path.stem
    for init in sorted((folder / root).glob("*/__init__.py")):
        top = init.parent
        if top.name in BESIDE or top.name.startswith("test"):
            continue
        for path in sorted(top.rglob("*.py")):
            relative = path.relative_to(folder).as_posix()
            if not is_test(folder, relative) and all(
                (parent / "__init__.py").is_file() for parent in parents(path, top)
            ):
                modules[relative] = module_name(root, relative)
    return modules


def parents(path: Path, top: Path) -> list[Path]:
    """The folders from a file's own up to `top`."""
    return [folder for folder in path.parents if folder.is_relative_to(top)]


def write_metadata(folder: Path, root: str) -> None:
    """Name and version of a source distribution, as an installed package has them."""
    file = folder / "PKG-INFO"
    if file.is_file():
        facts = email.message_from_string(file.read_text(encoding="utf-8", errors="replace"))
        if re.fullmatch(r"[\w.-]+", str(facts["Name"])) and re.fullmatch(r"[\w.+!-]+", str(facts["Version"])):
            place = folder / root / f"{str(facts['Name']).replace('-', '_')}-{facts['Version']}.dist-info"
            place.mkdir(exist_ok=True)
            shutil.copyfile(file, place / "METADATA")


def copy_packages(checkout: Path, packages: Path, roots: list[str], modules: dict[str, str]) -> None:
    """Copy packages with their data files, and metadata, without tests."""
    for root in roots:
        tops = {PurePosixPath(path).relative_to(root or ".").parts[0] for path in modules if path.startswith(root)}
        for top in [*map((checkout / root).joinpath, sorted(tops)), *sorted((checkout / root).glob("*.dist-info"))]:
            for path in [top, *sorted(top.rglob("*"))]:
                relative = path.relative_to(checkout).as_posix()
                if path.is_file() and not is_test(checkout, relative):
                    (packages / relative).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, packages / relative)


def unpack(name: str, archive: Path, folder: Path) -> Repository:
    """Unpack an archive below a folder.

    Args:
        name: of the source.
    """
    checkout, packages, empty = folder / "checkout", folder / "packages", folder / "empty"
    extract(archive, checkout)
    for new_folder in (packages, empty):
        new_folder.mkdir(parents=True)
    for compiled in [*checkout.rglob("__pycache__")]:
        shutil.rmtree(compiled)
    roots = [root for root in ROOTS if (checkout / root).is_dir() and modules_below(checkout, root)]
    modules = {}
    for root in reversed(roots):
        for path, module in modules_below(checkout, root).items():
            modules[path] = module
    write_metadata(checkout, roots[0] if roots else "")
    copy_packages(checkout, packages, roots, modules)
    python = [path.relative_to(checkout).as_posix() for path in sorted(checkout.rglob("*.py"))]
    hidden = [path for path in python if is_test(checkout, path)]
    names = [(path, PurePosixPath(path).name) for path in hidden]
    tests = [path for path, name in names if TEST_FILE.fullmatch(name) or name in TEST_MODULES]
    for place in [folder, *folder.rglob("*")]:  # another user reads them
        place.chmod(0o755 if place.is_dir() else 0o644)
    return Repository(name, checkout, packages, empty, roots, modules, tests, hidden)
