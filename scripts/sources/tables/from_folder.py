"""Write a sources table from a folder of repositories.

    stagecraft sources repositories/ --out config/mine.tsv

reads repositories/{high,medium}/{Python,java,C++,...}/{repository}, the first also as `high_priority` and
`medium_priority`. A repository with `.git` is pinned by its commit (kind git), another by the sha256 of its content
(kind path). Folders that are named after no priority or language are left out with a warning.
"""

import hashlib
import logging
import os
import re
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.common.progress import Progress
from scripts.languages import names_by_alias, some_names
from scripts.licences.expressions import UNKNOWN
from scripts.licences.recognition import licence_of_file
from scripts.sources.archives.canonical_archive import pack_folder
from scripts.sources.archives.members import UNPRINTABLE, Limits
from scripts.sources.providers.git import NO_FILTER, head_commit, is_repository, quick_head
from scripts.sources.providers.git_process import empty_repository
from scripts.sources.tables.source import COLUMNS
from scripts.sources.tables.sources_table import check_rows

PRIORITY_OF_FOLDER = {"high": "high", "high_priority": "high", "medium": "medium", "medium_priority": "medium"}


def licence_of(repository: Path) -> str:
    """The SPDX name that the licence file at the top of a repository suggests; NOASSERTION where it suggests none."""
    for path in sorted(repository.iterdir()):
        if re.match(r"(licen[cs]e|copying|unlicense)", path.name, re.IGNORECASE) and path.is_file():
            licence = licence_of_file(path.read_text(encoding="utf-8", errors="replace"))
            if licence and licence != UNKNOWN:
                return licence
    return UNKNOWN


SCRATCH = threading.local()  # of each thread: an empty repository, used for one clone after the other


def pin_of(repository: Path, scratch: Path) -> tuple[str, str]:
    """(kind, pin) of a repository on disk; `scratch` is a folder with room for its newest commit."""
    if not is_repository(repository):
        try:
            return "path", pack_folder(repository, None, Limits(), label=f"hash {repository}")["sha256"]
        except UserError as error:
            raise UserError(f"{repository}: {error}") from error
    if getattr(SCRATCH, "folder", None) != scratch:
        SCRATCH.folder, SCRATCH.repository = scratch, empty_repository(Path(tempfile.mkdtemp(dir=scratch)), NO_FILTER)
    found = quick_head(repository, SCRATCH.repository)
    if found is None:
        with tempfile.TemporaryDirectory(dir=scratch) as work:
            found = head_commit(repository, Path(work))
    commit, uncommitted = found
    if uncommitted:
        files = f"{len(uncommitted)} files, as {uncommitted[0]!r}"
        logging.warning(f"{repository}: uncommitted changes are not part of the pinned commit: {files}")
    return "git", commit


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.is_dir())


def pinned_rows(
    repositories: list[tuple[Path, str, str]], scratch: Path | None
) -> tuple[list[dict[str, str]], list[str]]:
    """(the rows, a line for each one left out) of (repository, language, priority), several read side by side."""
    rows, left_out, progress = [], [], Progress("sources", "repositories", len(repositories))

    def row_of(given: tuple[Path, str, str]) -> dict[str, str] | str:
        repository, language, priority = given
        try:
            kind, pin = pin_of(repository, Path(work))
        except UserError as error:  # as of a partial clone; the others have their rows
            return str(error)
        values = (kind, location_of(repository), pin, language, priority, licence_of(repository))
        return dict(zip(COLUMNS, (name_of(repository), *values), strict=True))

    with (
        tempfile.TemporaryDirectory(dir=scratch) as work,
        ThreadPoolExecutor(2 * len(os.sched_getaffinity(0))) as threads,  # which wait for git most of the time
    ):
        for row in progress.over(threads.map(row_of, repositories)):
            if isinstance(row, str):
                left_out.append(row)
            else:
                rows.append(row)
    progress.end()
    return rows, left_out


def rows_of(folder: Path, scratch: Path | None = None) -> list[dict[str, str]]:
    """The rows for a folder priority/language/repository; equal names get language and priority appended. Raises
    UserError: there is no repository in it that can be pinned."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    repositories, languages = [], names_by_alias()
    for priority_folder in folders_in(folder):
        priority = PRIORITY_OF_FOLDER.get(priority_folder.name.lower())
        if priority is None:
            if priority_folder.name.startswith("."):  # as `.git`
                continue
            known = ", ".join(PRIORITY_OF_FOLDER)
            logging.warning(f"{priority_folder}: left out, the folder's name is none of {known}")
            continue
        for language_folder in folders_in(priority_folder):
            language = languages.get(language_folder.name.lower())
            if language is None:
                known = some_names(language_folder.name)
                logging.warning(f"{language_folder}: left out, the folder's name is no language, such as {known}")
                continue
            for repository in folders_in(language_folder):
                if UNPRINTABLE.search(str(repository)):
                    logging.warning(f"{str(repository)!r}: left out, its name cannot be used in the table; rename it")
                    continue
                repositories.append((repository, language, priority))
    rows, left_out = pinned_rows(repositories, scratch)
    if left_out and not rows:
        raise UserError("; ".join(left_out))
    for line in left_out:
        logging.warning(f"left out: {line}")
    if not rows:
        raise UserError(f"{folder}: no repositories at high/LANGUAGE/REPOSITORY or medium/LANGUAGE/REPOSITORY in it")
    names = Counter(row["name"] for row in rows)
    for row in rows:
        if names[row["name"]] > 1:
            row["name"] += f"-{row['language']}-{row['priority']}"
    number_equal_names(rows)
    return rows


def number_equal_names(rows: list[dict[str, str]]) -> None:
    """Append a number to each name that an earlier row has, as folders give that differ in signs alone."""
    used = set()
    for row in rows:
        name = row["name"]
        candidates = chain([name], (f"{name}-{number}" for number in count(2)))
        row["name"] = next(candidate for candidate in candidates if candidate not in used)
        used.add(row["name"])


def name_of(repository: Path) -> str:
    """A source name made of the folder's: lower case, other characters than `a-z0-9._` as one `-`.

    A name with letters beyond these, as Chinese ones, ends in some digits of its hash, which keep it apart from others.
    """
    name = re.sub(r"[^a-z0-9._-]+", "-", repository.name.lower()).strip("._-") or "repository"
    has_other_letters = any(character.isalnum() and not character.isascii() for character in repository.name)
    if has_other_letters:
        return f"{name}-{hashlib.sha256(repository.name.encode()).hexdigest()[:6]}"
    return name


def location_of(repository: Path) -> str:
    """The path as the table holds it: one that starts with `-` would be read as an option, one with a space be cut."""
    path = str(repository)
    if path[0] == "-" or path[0].isspace():
        return f"./{path}"
    return path


def write_sources(rows: list[dict[str, str]], path: Path) -> None:
    """Write the table as `read_sources` reads it. Raises UserError: a value is wrong; what was there stays."""
    cells = []
    for row in rows:
        cells.append([row[column] for column in COLUMNS])
    check_rows(path, COLUMNS, enumerate(cells, 2))
    with atomic(path) as temporary:
        temporary.write_text("".join("\t".join(line) + "\n" for line in [COLUMNS, *cells]), encoding="utf-8")


def check_absent(path: Path) -> None:
    if path.exists():
        raise UserError(f"{path}: already there; remove or rename it first")


def make_table(folder: Path, out: Path) -> None:
    """Write the table of a folder. Raises UserError: `out` exists, or see `rows_of`."""
    check_absent(out)  # before the hashing, which may take long
    out.parent.mkdir(parents=True, exist_ok=True)
    write_sources(rows_of(folder, out.parent), out)
    logging.info(f"{out}: written")
