"""Make a virtual environment with the packages that a Python source and its tests import, for `repository_tests`.

    python -m scripts.evaluation.commands.environment --archive data/raw/boltons-1234567890ab.tar.zst \\
        --out /opt/environments/boltons

The requirements are those of `pyproject.toml`, `PKG-INFO` and the first requirements file for tests, with the extras
and groups that are named after tests; versions are those of the source's `uv.lock`, if it has one. The source itself is
not installed. Only wheels are, so no code of any package runs. Needs uv and a package index.
"""

import email
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.judge.repositories.repository import extract

FOR_TESTS = re.compile(r"(unit)?tests?(ing)?", re.IGNORECASE)
FILES = ("test-requirements.txt", "requirements-test*.txt", "requirements/test*.txt", "tests/requirements.txt")
NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def plain_name(text: str) -> str:
    """The normalized package name of a requirement; empty for an option or a comment."""
    match = NAME.match(text)
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""


def of_pyproject(content: dict) -> list[str]:
    """What a pyproject.toml requires for itself and its tests."""
    project, groups = content.get("project", {}), content.get("dependency-groups", {})
    requirements = list(project.get("dependencies", []))
    for name, listed in project.get("optional-dependencies", {}).items():
        requirements += listed if FOR_TESTS.fullmatch(name) else []
    for name, listed in groups.items():
        requirements += (
            [requirement for requirement in listed if isinstance(requirement, str)] if FOR_TESTS.fullmatch(name) else []
        )
    return requirements


def of_metadata(text: str) -> list[str]:
    """What a PKG-INFO requires for itself and its tests."""
    requirements = []
    for requirement in email.message_from_string(text).get_all("Requires-Dist", []):
        extra = EXTRA.search(requirement)
        if extra is None:
            requirements.append(requirement)
        elif FOR_TESTS.fullmatch(extra[1]):
            requirements.append(re.sub(r"\s*(and)?\s*" + EXTRA.pattern, "", requirement).rstrip("; "))
    return requirements


def requirements(folder: Path) -> list[str]:
    """What a source requires for itself and its tests, without itself.

    Raises:
        UserError: its pyproject.toml cannot be read.
    """
    project_name, requirements, pyproject, metadata = "", [], folder / "pyproject.toml", folder / "PKG-INFO"
    if pyproject.is_file():
        try:
            content = tomllib.loads(pyproject.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"pyproject.toml of the source: {error}") from error
        project_name, requirements = content.get("project", {}).get("name", ""), of_pyproject(content)
    if metadata.is_file():
        text = metadata.read_text(encoding="utf-8", errors="replace")
        project_name = project_name or str(email.message_from_string(text)["Name"])
        requirements += of_metadata(text)
    for pattern in FILES:
        if path := next(iter(sorted(folder.glob(pattern))), None):
            requirements += [line.partition(" #")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
            break
    needed = [
        requirement
        for requirement in requirements
        if plain_name(requirement) not in ("", plain_name(project_name)) and "://" not in requirement
    ]
    return sorted(dict.fromkeys(needed))


def test_options(folder: Path) -> list[str]:
    """uv's options for the groups and extras of a locked source that are named after tests."""
    content = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    groups = content.get("dependency-groups", {})
    extras = content.get("project", {}).get("optional-dependencies", {})
    return [
        *(f"--group={name}" for name in groups if FOR_TESTS.fullmatch(name)),
        *(f"--extra={name}" for name in extras if FOR_TESTS.fullmatch(name)),
    ]


def uv(*words: str) -> str:
    """Run uv; returns its output.

    Raises:
        UserError: uv is missing or fails.
    """
    if not (command := shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))):
        raise UserError("uv is not installed; `pip install uv`, or make the environment by hand")
    result = subprocess.run([command, *words], capture_output=True, text=True)
    if result.returncode:
        raise UserError(f"uv {' '.join(words[:2])}: {' '.join(result.stderr.split())[-400:]}")
    return result.stdout


def environment(archive: Path, out: Path) -> list[str]:
    """Make the environment of the source in `archive` at `out`; returns the requirements.

    Raises:
        UserError: `out` exists, or a requirement cannot be installed.
    """
    if out.exists():
        raise UserError(f"{out}: already exists; remove it first")
    if not archive.is_file():
        raise UserError(f"{archive}: no such file")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        source, environment, listed = Path(work) / "source", Path(work) / "made", Path(work) / "requirements.txt"
        extract(archive, source)
        if (source / "uv.lock").is_file():
            options = [
                "--frozen",
                "--no-hashes",
                "--no-emit-project",
                "--no-default-groups",
                "--no-header",
                "--no-annotate",
            ]
            needed = uv("export", "--project", str(source), *options, *test_options(source)).splitlines()
        else:
            needed = requirements(source)
        listed.write_text("".join(f"{line}\n" for line in needed), encoding="utf-8")
        uv("venv", "--python", sys.executable, str(environment))
        if needed:
            python = str(environment / "bin/python")
            uv("pip", "install", "--python", python, "--only-binary", ":all:", "--requirement", str(listed))
        environment.chmod(0o755)
        environment.rename(out)
    return needed


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--archive", type=Path, required=True, help="the source's archive, data/raw/{source}-{pin}.tar.zst")
    p.add_argument("--out", type=Path, required=True, help="folder of the environment; must not exist")
    args = p.parse_args()
    needed = environment(args.archive, args.out)
    print(f"{args.out}: {len(needed)} requirements: {', '.join(needed) or 'none'}")


if __name__ == "__main__":
    run(main)
