"""The clones in a folder, as the filter reads them: languages, what is dropped and why, encodings, licences, tokens.

clones, lines = look_at(Path("~/repositories").expanduser())     # lines: what is not used, and why
"""

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple, get_args

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import FilterWriter
from scripts.experiment.settings.corpus import Encoding, Filter
from scripts.licences.expressions import UNKNOWN
from scripts.sources.archives.members import LIMITS
from scripts.sources.fetch import fetch
from scripts.sources.providers.git import NO_FILTER, head_commit, is_repository, quick_head
from scripts.sources.providers.git_process import empty_repository, run_git
from scripts.sources.tables.from_folder import location_of, name_of
from scripts.sources.tables.source import PinnedSource

DEPTH = 4  # folders below the given one in which clones are looked for
SHOWN = 3  # of languages, reasons and names that a line lists
PROSE = {"markdown", "restructuredtext"}
NAMED = 5  # folders that are not used and are named, each in a line


class Clone(NamedTuple):
    """A clone at its newest commit.

    Attributes:
        day: of that commit, as 2026-11-25.
        files, bytes: language → files and bytes of UTF-8 that the filter keeps.
        dropped: reason → files of code that it drops.
        encodings: encoding → files that are converted from it.
        licence: that of most of its files.
        lines: what else is to be said of it.
    """

    path: Path
    name: str
    commit: str
    day: str
    files: Counter
    bytes: Counter
    dropped: Counter
    encodings: Counter
    licence: str
    lines: list[str]


def clones_below(folder: Path, depth: int = DEPTH) -> list[Path]:
    """The git repositories in a folder, bare ones too, or the folder itself if it is one; none within another."""
    if is_repository(folder):
        return [folder]
    found = []
    if depth:
        for path in folders_in(folder):
            if not path.is_symlink() and os.access(path, os.R_OK | os.X_OK):
                found += clones_below(path, depth - 1)
    return found


def folders_in(folder: Path) -> list[Path]:
    """The folders of a folder, links to such too, without hidden ones."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def unused(folder: Path) -> list[str]:
    """A line for each folder that is not used although it may hold code: a link, or one without git."""
    if is_repository(folder):
        return []
    lines = []
    for path in folders_in(folder):
        if path.is_symlink():
            lines.append(f"not used: {path}: a symbolic link; give the folder itself")
        elif not os.access(path, os.R_OK | os.X_OK):
            lines.append(f"not used: {path}: it may not be read by this user")
        elif not clones_below(path, DEPTH - 1):
            lines.append(
                f"not used: {path}: no git repository in it; `git init`, `git add .` and `git commit` make one"
            )
    if len(lines) > NAMED:
        lines = [*lines[:NAMED], f"not used: {len(lines) - NAMED} other folders, for the same reasons"]
    return lines


def look(path: Path) -> Clone:
    """A clone as the filter reads it. Raises UserError: it has no commit, is a partial clone, or cannot be read."""
    name, lines = name_of(path.with_name(path.name.removesuffix(".git"))), []
    with tempfile.TemporaryDirectory() as folder:
        work = empty_repository(Path(folder) / "git", NO_FILTER)
        found = quick_head(path, work)
        if found is None:
            (work := Path(folder) / "copied").mkdir()
            found = head_commit(path, work)
        commit, changed = found
        day = run_git(work, "log", "-1", "--format=%cs", commit).stdout.strip()
        listed = run_git(work, "ls-tree", "-r", "-z", commit).stdout.split("\0")
        archive = Path(folder) / "raw.tar.zst"
        pinned = PinnedSource(name=name, kind="git", location=location_of(path.resolve()), pin=commit)
        fetch(pinned, LIMITS, archive)
        kept = FilterWriter(lambda document: None, lambda reject: None)
        filter_archive(archive, name, Filter(secrets="keep", encodings=list(get_args(Encoding))), kept)
        skipped = read_json(archive.with_name("raw.json")).get("skipped", {})
    if changed:
        lines.append(f"{len(changed)} files with changes that are not committed, as {changed[0]}: not used")
    modules = [entry.partition("\t")[2] for entry in listed if entry.startswith("160000 ")]
    if modules:
        lines.append(f"submodules {', '.join(modules[:SHOWN])}: not used; give their clones beside it")
    if skipped:
        lines.append(", ".join(f"{count} files left out: {fault}" for fault, count in skipped.items()))
    dropped = Counter()
    for (language, reason), count in kept.dropped.items():
        if language and language not in PROSE:
            dropped[reason] += count
    for language in PROSE:
        kept.kept.pop(language, None)
        kept.bytes.pop(language, None)
    licences = kept.filter_facts["licences"]
    licence = licences.most_common(1)[0][0] if licences else UNKNOWN
    facts = (kept.kept, kept.bytes, dropped, kept.filter_facts["converted"], licence, lines)
    return Clone(path, name, commit, day, *facts)


def described(clone: Clone) -> str:
    """A clone in a line: last commit, files by language, what is dropped and why, and what is not used of it."""
    counted = [f"{count:,} {language}" for language, count in clone.files.most_common(SHOWN)]
    if len(clone.files) > SHOWN:
        counted.append(f"and {len(clone.files) - SHOWN} other languages")
    parts = [f"{clone.path}: last commit {clone.day}, {', '.join(counted) or 'no code'}, licence {clone.licence}"]
    if clone.dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in clone.dropped.most_common(SHOWN))
        parts.append(f"dropped {clone.dropped.total():,} ({reasons})")
    if clone.encodings:
        parts.append(f"converted {', '.join(f'{count:,} {name}' for name, count in clone.encodings.most_common())}")
    return "; ".join([*parts, *clone.lines])


def look_at(folder: Path) -> tuple[list[Clone], list[str]]:
    """(the clones with code in a folder, lines about what is not used). Raises UserError: there is none."""
    found, clones = clones_below(folder), []
    if not found:
        raise UserError(f"{folder}: no git repository in it; give a clone, or a folder of clones, with their history")
    lines, unreadable = unused(folder), []
    for path in found:
        try:
            clone = look(path)
        except UserError as error:
            unreadable.append(str(error))
            continue
        if clone.files:
            clones.append(clone)
        else:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in clone.dropped.most_common(SHOWN))
            lines.append(f"not used: {path}: no code is left; dropped: {reasons or 'no file of code is there'}")
    if unreadable and not clones:
        raise UserError("; ".join(unreadable))
    return clones, [*lines, *(f"warning: left out: {line}" for line in unreadable)]
