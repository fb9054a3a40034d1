"""A view of this machine that holds the Python interpreter and its standard library, and no other Python source.

    arguments = interpreter_only(prefix, "/opt/python", packages)   # of bubblewrap

The rest of /usr may hold what a program is asked to write: wheels and vendored copies of packages.
"""

import re
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

HIDDEN = ("site-packages", "dist-packages", "ensurepip", "test")  # in the standard library; the last two hold wheels
# what starts a program in the sandbox, and the shell that `subprocess` needs
PROGRAMS = ("/usr/bin/env", "/usr/bin/prlimit", "/usr/bin/setpriv", "/bin/sh")
DATA = ("/usr/share/zoneinfo", "/usr/lib/locale")


def system_path(path: Path) -> Path:
    """A path without the links from / into /usr."""
    top = Path("/", path.parts[1])
    return top.resolve() / path.relative_to(top)


def shared_libraries(files: list[Path]) -> set[Path]:
    """The shared libraries that programs and libraries are linked to, and the loader."""
    if not files:
        return set()
    output = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return {Path(name) for name in re.findall(r"(?:=> |^\s+)(/\S+)", output, re.M)}


@cache
def empty_folder() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="stagecraft-empty-")
    Path(folder.name).chmod(0o755)
    return folder


@cache
def interpreter_only(prefix: Path, place: Path, packages: Path | None) -> tuple[str, ...]:
    """Arguments of bubblewrap that show the interpreter, its standard library and the shared libraries it needs.

    Args:
        prefix: of the interpreter.
        place: where the sandbox has the prefix.
        packages: folder of packages whose shared libraries are shown, too.
    """
    standard = {Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")}
    standard = {folder for folder in standard if folder.is_relative_to(prefix)}
    executable = prefix / f"bin/python{sysconfig.get_python_version()}"
    programs = [Path(name) for name in PROGRAMS]
    linked = [executable, *programs]
    for folder in standard:
        linked += sorted((folder / "lib-dynload").glob("*.so"))
    if packages:
        linked += sorted(packages.rglob("*.so"))
    sources = {}  # by the path in the sandbox
    for path in sorted({*standard, executable, *shared_libraries(linked), *programs, *map(Path, DATA)}):
        if not (packages and path.is_relative_to(packages)):  # which are shown with them
            inside = path.is_relative_to(prefix)
            sources[place / path.relative_to(prefix) if inside else system_path(path)] = path
    arguments = []
    for folder in sorted({folder for shown in sources for folder in shown.parents} - {Path("/")}):
        arguments += ["--perms", "0755", "--dir", str(folder)]  # those that bubblewrap makes itself are for root alone
    for link in (Path("/bin"), Path("/lib"), Path("/lib64")):
        if link.is_symlink():
            arguments += ["--symlink", str(link.readlink()), str(link)]
    for shown, path in sources.items():
        arguments += ["--ro-bind-try", str(path), str(shown)]
    for folder in sorted(standard):
        for name in HIDDEN:
            if (folder / name).is_dir():
                arguments += ["--ro-bind", empty_folder().name, str(place / (folder / name).relative_to(prefix))]
    return tuple(arguments)
