"""Read the data of one side of `stagecraft data-diff` from a results folder or a git revision.

    with data_state("main~1", Path("config/config.yaml")) as state:
        state.documents["click", "src/click/core.py"]

For a revision, the experiment and the sources table are read from git, and the results through the pointer that
`stagecraft publish` wrote: from DVC's cache, or from its remote if they are not there.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.corpus.formats.filter_writer import REJECTS
from scripts.experiment.dvc_cache import cache_folder, cache_object
from scripts.experiment.layout import MANIFEST, SPLITS, Layout, split_file
from scripts.experiment.load import merged
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.provenance import results_pointer
from scripts.report.content.funnel import FunnelCounts, read_funnel
from scripts.sources.tables.sources_table import read_sources

READ = ("manifest.json", "rejects.jsonl.zst", "eval.json", *(f"{split}.jsonl.zst" for split in SPLITS))


class Document(NamedTuple):
    """What is known of a document of the split corpus."""

    sha256: str
    split: str
    language: str


@dataclass
class DataState:
    """The data of one side; what could not be read is None or empty, and `notes` say why.

    Attributes:
        sources: the columns of each row of the sources table, by name.
        documents: (source, path) → a document after filters, deduplication and split.
        datasets: dataset → split → examples.
        tokens: folder of shards → split → tokens.
    """

    label: str
    layout: Layout
    sources: dict[str, dict] | None = None
    funnel: FunnelCounts | None = None
    documents: dict[tuple[str, str], Document] | None = None
    datasets: dict[str, dict[str, int]] = field(default_factory=dict)
    tokens: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def reasons(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """(source, path) → why this side dropped the file, for those of `keys` that are in its rejects."""
        folders = [self.layout.filtered(source) for source in sorted({source for source, _ in keys})]
        reasons = {}
        for path in [folder / REJECTS for folder in [*folders, self.layout.deduplicated]]:
            for reject in read_jsonl(path) if path.is_file() else ():
                if (key := (reject["source"], reject["path"])) in keys:
                    reasons[key] = ", ".join(filter(None, [reject["reason"], reject["detail"]]))
        return reasons


def git(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", *words], capture_output=True, check=False)


def commit_of(revision: str) -> str:
    """The commit that a git revision names.

    Raises:
        UserError: it is neither a revision nor a folder.
    """
    done = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if done.returncode:
        raise UserError(f"{revision}: neither a folder of results nor a git revision")
    return done.stdout.decode().strip()


def exported(commit: str, path: str, folder: Path) -> Path | None:
    """A file of a commit, written below `folder`; None if the commit has no such file."""
    done = git("show", f"{commit}:./{path}")
    if done.returncode:
        return None
    (target := folder / path).parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(done.stdout)
    return target


def experiment_at(commit: str, label: str, path: str, folder: Path) -> dict:
    """The experiment file of a commit with what it extends; not checked, as settings may have changed since.

    Raises:
        UserError: the commit has no such file, or it extends itself.
    """
    config, seen = {"extends": path}, []
    while isinstance(origin := config.get("extends"), str):
        if origin in seen:
            raise UserError(f"{label}: {origin} extends itself")
        seen.append(origin)
        if (file := exported(commit, origin, folder)) is None:
            raise UserError(f"{label}: no file {origin} in git at this revision; name another one by --experiment")
        config = merged(read_yaml(file), {key: value for key, value in config.items() if key != "extends"})
    return config


def published_files(commit: str, root: str, folder: Path) -> str:
    """Copy those of a commit's published results that are compared to `folder`.

    Returns:
        Why there are none; empty if there are.
    """
    pointer = exported(commit, str(results_pointer(root)), folder)
    if pointer is None:
        return "no published results at this revision, so only the sources are compared"
    outs = {out["path"]: out["md5"] for out in read_yaml(pointer)["outs"] if Path(out["path"]).name in READ}
    cache, missing = cache_folder(), []
    for path, md5 in outs.items():
        (target := folder / path).parent.mkdir(parents=True, exist_ok=True)
        if (cached := cache_object(cache, md5)).is_file():
            target.symlink_to(cached.absolute())
        else:
            missing.append(path)
    if missing:
        from dvc.api import DVCFileSystem
        from dvc.exceptions import DvcException

        try:
            remote = DVCFileSystem(str(Path.cwd()), rev=commit)
            for path in missing:
                remote.get_file(path, str(folder / path))
        except (DvcException, OSError) as error:
            reason = " ".join(str(error).split())
            notice = f"{path}: neither in DVC's cache nor to be had from its remote ({reason})"
            return f"{notice}, so only the sources are compared"
    return ""


def read_results(state: DataState) -> None:
    """Fill in whatever exists of the results of a side."""
    layout = state.layout
    if (layout.split / MANIFEST).is_file():
        shards = [read_json(path)["sources"] for path in sorted(layout.signatures("").glob(f"*/{MANIFEST}"))]
        names = set(state.sources or {record["name"] for shard in shards for record in shard})
        state.funnel = read_funnel(layout.results, sorted(name for name in names if layout.filtered(name).is_dir()))
        state.documents = {
            (record["source"], record["path"]): Document(record["sha256"], split, record["language"])
            for split in SPLITS
            for record in read_jsonl(split_file(layout.split, split))
        }
    for path in sorted(layout.dataset("").glob(f"*/{MANIFEST}")):
        state.datasets[path.parent.name] = read_json(path)["examples"]
    places = (layout.shards("", "").parent, layout.mixture("", "").parent)
    for path in sorted(path for place in places for path in place.glob(f"*/{MANIFEST}")):
        state.tokens[path.parent.name] = {name: record["tokens"] for name, record in read_json(path)["splits"].items()}


def read_revision(revision: str, configfile: Path, folder: Path) -> DataState:
    """The data of a git revision, its files put below `folder`."""
    commit = commit_of(revision)
    label = revision if commit.startswith(revision) else f"{revision} ({commit[:12]})"
    try:
        config = experiment_at(commit, revision, configfile.as_posix(), folder)
        table = (config.get("sources") or {}).get("table")
        state = DataState(label, Layout(folder / config.get("results", "results")), sources={})
        if table is not None:
            if (file := exported(commit, table, folder)) is None:
                raise UserError(f"{revision}: sources.table: no file {table} in git at this revision")
            state.sources = {source.name: source.model_dump() for source in read_sources(file)}
        if note := published_files(commit, config.get("results", "results"), folder):
            state.notes.append(note)
        else:
            read_results(state)
    except UserError as error:
        raise UserError(str(error).replace(f"{folder}/", f"{revision}:")) from None
    return state


def read_folder(folder: Path) -> DataState:
    """The data of a results folder.

    Raises:
        UserError: it holds no data.
    """
    state = DataState(str(folder), Layout(folder))
    if (folder / "eval.json").is_file():
        rows = read_json(folder / "eval.json").get("sources", {})
        state.sources = {name: {key: row[key] for key in row if key != "archive"} for name, row in rows.items()}
    read_results(state)
    if state.documents is None and not state.datasets:
        raise UserError(f"{folder}: no data in it; give a results folder in which `snakemake data` ran")
    if state.sources is None:
        state.notes.append("no eval.json, so the pins and licences of its sources are not known")
    return state


@contextmanager
def data_state(side: str, configfile: Path) -> Iterator[DataState]:
    """The data of `side`, a results folder or a git revision.

    Args:
        configfile: the experiment file, read from git at the revision.
    """
    if Path(side).is_dir():
        yield read_folder(Path(side))
        return
    with tempfile.TemporaryDirectory() as folder:
        yield read_revision(side, configfile, Path(folder))
