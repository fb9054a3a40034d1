"""`stagecraft start`: an experiment for a folder of clones, or for a file of chats, without editing a file.

    stagecraft start ~/repositories

It looks at the newest commit of each clone, and writes a table of sources and an experiment that lays over the default
one: retrieve from this code, fine-tune on it, both, or neither?
"""

import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.corpus.formats.own_datasets import check_first_chats, contents
from scripts.corpus.formats.record_readers import files_of
from scripts.experiment.settings.corpus import ChatDataset
from scripts.hosts.hardware import cpu_precision
from scripts.languages import BY_CONTENT, extensions_of
from scripts.licences.expressions import UNKNOWN
from scripts.sources.providers.git import is_repository, newest
from scripts.sources.providers.git_process import run_git
from scripts.sources.tables.from_folder import check_absent, location_of, name_of, number_equal_names, write_sources
from scripts.sources.tables.source import COLUMNS
from scripts.sources.tables.sources_table import read_sources
from scripts.training.planning.overview import print_plans

DEFAULT = Path("config/config.yaml")
EXPERIMENTS = Path("config")
DEPTH = 4  # folders below the given one in which clones are looked for
HELD_OUT = 24  # files that are held out, where there are enough
FEW = 12  # held-out files below which little can be told
LEAST = 30  # files of code without which nothing is left to train on
MEMORY = 5 << 30  # bytes that the default experiment needs
STEPS = {2: 22, 4: 44, 8: 88}  # cores → steps of 1,024 tokens, a few minutes each
SHOWN = 3  # languages that are listed of a clone: those with the most files
CHAT_SPLIT = {"validation": 0.05, "test": 0.1}
PROSE = {"markdown", "restructuredtext"}


class Clone(NamedTuple):
    """A clone at its newest commit.

    Attributes:
        day: of that commit, as 2026-11-25.
        languages: language → number of files.
    """

    path: Path
    commit: str
    day: str
    languages: Counter


def clones_below(folder: Path, depth: int = DEPTH) -> list[Path]:
    """The git repositories in a folder, bare ones too, or the folder itself if it is one; none within another."""
    if is_repository(folder):
        return [folder]
    found = []
    if depth:
        for path in sorted(folder.iterdir()):
            own = path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
            if own and os.access(path, os.R_OK | os.X_OK):
                found += clones_below(path, depth - 1)
    return found


def look(path: Path) -> Clone:
    """The newest commit of a clone, its day and its files by language. Raises UserError: it has no commit, or is a
    partial clone."""
    with tempfile.TemporaryDirectory() as work:
        commit = newest(path, Path(work))
        day = run_git(Path(work), "log", "-1", "--format=%cs", commit).stdout.strip()
        names = run_git(Path(work), "ls-tree", "-r", "-z", "--name-only", commit).stdout.split("\0")
    known, counted = extensions_of(), Counter()
    for name in names:
        language = known.get(Path(name).suffix.lower())
        if language and language not in PROSE:
            counted[language] += 1
    headers = counted.pop(BY_CONTENT, 0)
    if headers and counted["cpp"] > counted["c"]:
        counted["cpp"] += headers
    elif headers:
        counted["c"] += headers
    return Clone(path, commit, day, +counted)


def memory() -> int:
    """Bytes of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def steps() -> int:
    """Optimizer steps that take a few minutes on this machine's cores."""
    cores = len(os.sched_getaffinity(0))
    return max([count for needed, count in STEPS.items() if needed <= cores], default=min(STEPS.values()))


def stage() -> str:
    """What a further stage of an experiment has in common with the default's, in YAML."""
    return (
        "sequence_length: 256, global_batch_size: 4, method: lora, lora: {r: 16, alpha: 32, dropout: 0}, eval_rows: 8,"
        f" learning_rate: 1.0e-3, warmup_steps: 2, eval_steps: 0.5, steps: {steps()}, precision: {cpu_precision()}"
    )


def table_of(clones: list[Clone]) -> list[dict[str, str]]:
    """The rows of the default's other code, by which is measured what fine-tuning forgets, and of the clones."""
    rows = []
    for source in read_sources(Path("config/sources.tsv")):
        if source.kind == "sdist":
            rows.append({column: getattr(source, column) for column in COLUMNS})
    for clone in clones:
        name = name_of(clone.path.with_name(clone.path.name.removesuffix(".git")))
        language = clone.languages.most_common(1)[0][0]
        cells = (name, "git", location_of(clone.path.resolve()), clone.commit, language, "high", UNKNOWN)
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    number_equal_names(rows)
    return rows


def code_experiment(name: str, table: Path, rows: list[dict[str, str]], clones: list[Clone], test: float) -> str:
    """The experiment file for clones."""
    counted = clones_files(clones)
    files = sum(counted.values())
    languages = {"python", *counted}  # python for the other code, networkx
    own = [row["name"] for row in rows if row["kind"] == "git"]
    days = sorted(clone.day for clone in clones)
    return f"""\
# yaml-language-server: $schema=schema.json
# Made by `stagecraft start`. Clones: {len(clones)}; files of code: {files:,}; last changed {days[0]} to {days[-1]}.
# It lays over the default experiment: the same small base model, which is retrieved for, fine-tuned, and both.
extends: {DEFAULT}
experiment: {json.dumps(name)}
results: results/{name}
sources: {table}
corpus:
  filter:
    languages: [{", ".join(sorted(languages))}]  # of your clones, and python for the other code, networkx
  split:
    test: {test:g}  # about {round(files * test)} held-out files
  compose:
    own: {{sources: {json.dumps(own)}}}
training:
  train:  # steps of 1,024 tokens, as many as this machine's processor does in a few minutes
    own: {{steps: {steps()}, precision: {cpu_precision()}}}
    control: {{from: base, data: other, {stage()}}}
evaluation:
  gate:
    controls: {{own: control}}  # what your code gives rather than any code: the same steps on networkx
"""


def chat_experiment(name: str, path: Path) -> str:
    """The experiment file for a file or folder of chats."""
    return f"""\
# yaml-language-server: $schema=schema.json
# Made by `stagecraft start`: fine-tuning on the chats of {path}, scored on those that are held out.
extends: {DEFAULT}
experiment: {json.dumps(name)}
results: results/{name}
sources: null
corpus:
  compose:
    own: null
    other: null
    chats: {json.dumps({"kind": "chat", "path": str(path), **CHAT_SPLIT})}
training:
  train:
    own: null
    chat: {{from: base, data: chats, {stage()}}}
evaluation:
  perplexity: {{retrieval: null, places: null, documents: 24}}
  qa: {{datasets: [chats], documents: 12, max_new_tokens: 64}}
  gate:
    gates:
      - {{name: fine-tuning helps, dataset: chats, model: chat, against: base, metric: bits_per_byte, below: 0}}
"""


def clones_files(clones: list[Clone]) -> Counter:
    """Language → number of files in all clones."""
    total = Counter()
    for clone in clones:
        total += clone.languages
    return total


def start_with_clones(folder: Path, name: str, experiment: Path) -> None:
    """Write the table and the experiment for the clones in a folder, and say what was found."""
    found = clones_below(folder)
    if not found:
        raise UserError(f"{folder}: no git repository in it; give a clone, or a folder of clones, with their history")
    clones, unreadable = [], []
    for path in found:
        try:
            clone = look(path)
        except UserError as error:
            unreadable.append(str(error))
            continue
        if clone.languages:
            clones.append(clone)
    if unreadable and not clones:
        raise UserError("; ".join(unreadable))
    files = sum(clones_files(clones).values())
    if files < LEAST:
        raise UserError(f"{folder}: files of code: {files}; at least {LEAST} are needed to train and to hold some out")
    for line in unreadable:
        print(f"warning: left out: {line}")
    for clone in clones:
        counted = [f"{count:,} {language}" for language, count in clone.languages.most_common(SHOWN)]
        others = len(clone.languages) - SHOWN
        if others > 0:
            counted.append(f"and {others} other languages")
        print(f"{clone.path}: last commit {clone.day}, {', '.join(counted)}")
    test = min(0.3, max(0.02, round(HELD_OUT / files, 2)))
    held_out = round(files * test)
    print(f"{held_out} of {files:,} files are held out, fewer where files are alike")
    if held_out < FEW:
        print(f"warning: fewer than {FEW} held-out files tell little; add repositories")
    table = experiment.with_suffix(".tsv")
    rows = table_of(clones)
    write_sources(rows, table)
    write(experiment, code_experiment(name, table, rows, clones, test))


def holds_chats(folder: Path) -> bool:
    """Whether all files of a folder are of formats that chats are read from, and it holds no repository."""
    try:
        return not clones_below(folder) and bool(files_of(folder))
    except UserError:  # another file, or none
        return False


def start_with_chats(path: Path, name: str, experiment: Path) -> None:
    """Write the experiment for a file of chats, and say how many of its records can be read as such."""
    settings = ChatDataset.parse({"kind": "chat", "path": str(path), **CHAT_SPLIT}, "chats")
    check_first_chats(settings)
    left_out = Counter(reason for _, _, reason in contents(settings))
    chats = left_out.pop(None, 0)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.most_common()) or "none"
    if not chats:
        raise UserError(f"{path}: no chat to train on, left out: {reasons}; docs/own-chats.md says what is read")
    print(f"{path}: {chats:,} chats, left out: {reasons}")
    held_out = round(chats * CHAT_SPLIT["test"])
    print(f"about {held_out:,} of them are held out")
    if held_out < FEW:
        print(f"warning: fewer than {FEW} held-out chats tell little; add chats")
    write(experiment, chat_experiment(name, path))


def write(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def start(given: Path, profile: str) -> None:
    """Write what an experiment needs, print its plan and the command that runs it. Raises UserError: there is nothing
    to train on, or the experiment's file is there already."""
    if not given.is_file() and not given.is_dir():
        raise UserError(f"{given}: no such file or folder")
    if not os.access(given, os.R_OK):
        raise UserError(f"{given}: it may not be read by this user")
    stem = given.resolve().name.partition(".")[0] or given.resolve().name
    name = re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-")
    if name in ("", DEFAULT.stem):
        name = "mine"
    experiment = EXPERIMENTS / f"{name}.yaml"
    check_absent(experiment)
    check_absent(experiment.with_suffix(".tsv"))
    if memory() < MEMORY:
        print(f"warning: this machine has {memory() / 2**30:.1f} GiB; the default base needs {MEMORY >> 30}")
    if given.is_file() or holds_chats(given):
        start_with_chats(given.resolve(), name, experiment)
    else:
        start_with_clones(given, name, experiment)
    print(f"written: {experiment}\n")
    print_plans(profile, experiment, None)
    command = f"snakemake --profile {Path(profile).name} results/{name}/eval.json --configfile {experiment}"
    print(f"\nnext:\n\n    {command}")
