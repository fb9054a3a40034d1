"""The provenance of a finished job: how its outputs were made, in a small JSON file beside them.

    results/training/train/sft/manifest.json              # the job's first output
    results/training/train/sft/manifest.provenance.json   # this file

It holds the rule, its command, its params (settings and code fingerprint), the sha256 of each input and of each file
that the job made, versions of the tools, and a sha256 over all of this. It is the only record of how a result was made:
a result without it, with a damaged one, or whose files are not those it lists is not done, whatever `.snakemake` says;
a result with it needs nothing else, so a copy of the results folder is complete as it is.
scripts/hosts/provenance_records.py writes it and tells Snakemake what it says.
"""

import ast
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from scripts.common import manifest
from scripts.common.errors import UserError
from scripts.common.files import read_json_or_empty, seal, write_json
from scripts.common.known_hashes import KnownHashes
from scripts.experiment.machine_files import read_yaml

SUFFIX = ".provenance.json"
# top folders of what jobs make; `work` and `logs` of a results root hold no results
FOLDERS = ("results", "data/raw")
WITHOUT_RESULTS = {"work", "logs"}
TOOLS = ("snakemake", "torch", "transformers", "tokenizers", "numpy")

Hashes = dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]


@dataclass(frozen=True)
class Provenance:
    """How a job made its outputs. Paths are relative to the repository, hashes are hex sha256.

    Attributes:
        rule: the rule's name.
        command: the rule's shell command, before its values are filled in.
        params: the job's params by name, each as `repr` of its value; those that follow from paths are left out.
        log: the job's log files.
        software: Snakemake's hash of the rule's environment file.
        inputs: the input files.
        outputs: the declared output files, the first one first.
        beside: files that no rule declares, in the folder of a manifest that is an output, or listed in one.
        tools: the versions of Python and of the packages that decide results.
        started: when the job started, in seconds since 1970.
        ended: when it ended.
        accepted: the changes of the code that `stagecraft accept` took as making no difference, oldest first: `reason`,
            `date`, and the fingerprints `old` and `new`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    rule: str
    command: str | None
    params: dict[str, str]
    log: list[str]
    software: str
    inputs: Hashes
    outputs: Annotated[Hashes, Field(min_length=1)]
    beside: Hashes
    tools: dict[str, str]
    started: float
    ended: float
    accepted: list[dict[str, str]] = field(default_factory=list)

    @property
    def files(self) -> dict[str, str]:
        """All files that the job made."""
        return self.outputs | self.beside

    @property
    def code(self) -> str | None:
        """The fingerprint of the code that made it; None for a rule without one."""
        text = self.params.get("code")
        return ast.literal_eval(text) if text else None

    @property
    def settings(self) -> dict | None:
        """The settings that it was made with; None for a rule without settings."""
        text = self.params.get("settings")
        if text:
            return json.loads(ast.literal_eval(text))
        return None


CHECKED = TypeAdapter(Provenance)


def results_pointer(root: str) -> Path:
    """The DVC pointer of the published results in `root`; no root has a `+` in its name, so no two share a file."""
    return Path("data", f"{root.replace('/', '+')}.dvc")


def provenance_file(first_output: str | Path) -> Path:
    """The provenance file of the job that has this first output."""
    return Path(first_output).with_suffix(SUFFIX)


def write_provenance(made: Provenance) -> Path:
    """Write a job's provenance file, atomically, and return its path."""
    path, content = provenance_file(next(iter(made.outputs))), asdict(made)
    write_json(path, {"outputs": list(made.outputs), "provenance": content, "sha256": seal(content)})
    return path


def read_provenance(path: Path) -> Provenance:
    """The provenance in a file."""
    try:
        record = orjson.loads(path.read_bytes())
        content, order = record["provenance"], record["outputs"]
        if record["sha256"] != seal(content):
            raise UserError(f"{path}: its content is not what was written")
        content["outputs"] = {name: content["outputs"][name] for name in order}  # JSON is written with sorted keys
        return CHECKED.validate_python(content)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValidationError) as error:
        raise UserError(f"{path}: no provenance of a result") from error


@cache
def tool_versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide results."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in TOOLS}


def provenance_files(folders: tuple[str, ...] = FOLDERS) -> Iterator[Path]:
    """All provenance files below these folders, sorted by folder."""
    for top in folders:
        for folder, names, files in os.walk(top, followlinks=True):
            names[:] = sorted(set(names) - WITHOUT_RESULTS)
            yield from (Path(folder, file) for file in sorted(files) if file.endswith(SUFFIX))


def files_beside(outputs: list[str]) -> list[str]:
    """The undeclared files that belong to a job: in the folder of a manifest that is its output, or listed in one."""
    found: set[Path] = set()
    for output in map(Path, outputs):
        if output.name != manifest.NAME or not output.is_file():
            continue
        found.update(path for path in output.parent.rglob("*") if path.is_file())
        for name in read_json_or_empty(output).get("files", {}):  # of a shard in the folders of its sources
            folder = Path(os.path.normpath(output.parent / name)).parent
            found.update(path for path in folder.glob("*") if path.is_file())
    names = {str(path) for path in found if not path.name.startswith(".") and not path.name.endswith(SUFFIX)}
    return sorted(names - set(outputs))


class Difference(NamedTuple):
    """A file that is not as its job left it, and what is wrong with it."""

    file: str
    text: str

    def __str__(self) -> str:
        return f"{self.file} {self.text}"


def first_difference(made: Provenance, hashes: KnownHashes) -> Difference | None:
    """The first file of a job that is not as the job left it; None where all that are there agree.

    A missing output is not wrong: Snakemake makes it again where a job needs it. A missing file that no rule declares
    would never be made again, so it is.
    """
    for name, expected in made.files.items():
        try:
            if hashes.sha256(Path(name)) != expected:
                return Difference(name, "has another content")
        except FileNotFoundError:
            if name in made.beside:
                return Difference(name, "is missing")
    return None


def changed_inputs(made: Provenance, hashes: KnownHashes) -> list[str]:
    """The inputs whose content is not what the job read, and those that are gone: who deletes the folder of a result
    wants it made again, with all that stands on it."""
    changed = []
    for name, expected in made.inputs.items():
        if not Path(name).is_file() or hashes.sha256(Path(name)) != expected:
            changed.append(name)
    return changed


class Index:
    """The provenance of every file that a job made, found by the file's path."""

    def __init__(self, folders: tuple[str, ...] = FOLDERS):
        self.folders = folders
        self.jobs: dict[Path, Provenance] = {}
        self.owners: dict[str, Path] = {}  # declared output → provenance file
        self.damaged: dict[Path, str] = {}  # provenance file → what is wrong with it
        # one that lies elsewhere, as in `sft.bak` → where it belongs; it counts for nothing
        self.copies: dict[Path, Path] = {}
        for path in provenance_files(folders):
            self.read(path)

    def read(self, path: Path) -> None:
        """Read a provenance file."""
        try:
            made = read_provenance(path)
        except UserError as error:
            self.damaged[path] = str(error)
            return
        place = provenance_file(next(iter(made.outputs)))
        if Path(*path.parts[-len(place.parts) :]) == place:
            self.add(path, made)
        else:
            self.copies[path] = place

    def add(self, path: Path, made: Provenance) -> None:
        """Note a provenance file that was read or written."""
        self.jobs[path] = made
        self.damaged.pop(path, None)
        for name in made.outputs:
            self.owners[name] = path

    def drop(self, output: str) -> None:
        """Delete the provenance file of the job that made `output`; it is about to run again, or failed."""
        path = self.owners.pop(output, None)
        if path:
            self.jobs.pop(path, None)
            path.unlink(missing_ok=True)

    def look_again(self, output: str) -> Provenance | None:
        """The provenance of an output that was made since, as by a job on another host; None where there is none."""
        for path in sorted(Path(output).parent.glob(f"*{SUFFIX}")):
            if path not in self.jobs and path not in self.damaged and path not in self.copies:
                self.read(path)
        return self.of(output)

    def of(self, output: str) -> Provenance | None:
        """The provenance of the job that made a declared output; None where there is none that can be read."""
        return self.jobs.get(self.owners.get(output, Path()))


def run_dvc(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "dvc", *arguments], capture_output=True, text=True, errors="replace")


@cache
def cache_folder(checkout: Path) -> Path:
    """The folder of DVC's cache of a checkout, which is the current folder; DVC, slow to start, is asked once. Raises
    UserError: this is no DVC repository, or its configuration is broken."""
    result = run_dvc("cache", "dir")
    if result.returncode:
        raise UserError(f"dvc cache dir: {' '.join(result.stderr.split())}")
    return Path(result.stdout.strip())


def cache_object(cache: Path, md5: str) -> Path:
    """Where DVC 3 keeps the file with this md5."""
    return cache / "files" / "md5" / md5[:2] / md5[2:]


@cache
def published_files(checkout: Path) -> dict[str, str]:
    """File → md5 of the files that a checkout's pointers publish."""
    md5s = {}
    for pointer in sorted((checkout / "data").glob("*.dvc")):
        md5s |= {out["path"]: out["md5"] for out in read_yaml(pointer)["outs"]}
    return md5s


def repair_command(files: list[str]) -> str | None:
    """The command that downloads published files again, past a corrupt cache; None if none of them was published.

    `dvc pull` alone trusts its cache: it would deliver a corrupt file from there again.
    """
    md5s = published_files(Path.cwd())
    files = [file for file in files if file in md5s]
    if not files:
        return None
    cache = cache_folder(Path.cwd())
    objects = [str(cache_object(cache, md5s[file])) for file in files]
    return f"rm -f {shlex.join([*files, *objects])} && dvc pull {shlex.join(files)}"
