"""The table of sources (config/sources.tsv), read and checked, or written from a tree of repositories.

    python -m scripts.sources.tables.sources_table --from repositories/ --out config/mine.tsv

reads repositories/{high,medium}/{Python,java,C++,...}/{repository}: one with `.git` is pinned by its commit (kind
git), another by the sha256 of its content (kind path).
"""

import csv
import logging
import re
from collections import Counter
from pathlib import Path

import jsonschema
import yaml

from scripts.common.cli import UserError, parser, run
from scripts.common.files import atomic

SCHEMA = Path(__file__).parents[3] / "config" / "sources.schema.yaml"
COLUMNS = ["name", "kind", "location", "pin", "language", "priority", "licence"]
FOLDERS = {"python": "python", "java": "java", "go": "go", "golang": "go", "rust": "rust"}
FOLDERS |= {"cpp": "cpp", "c++": "cpp", "cxx": "cpp", "c": "c"}
# Words that no other of these licences has, special cases first. The text of a GPL does not say "or later": the
# narrower reading stands.
LICENCES = [
    ("GNU AFFERO GENERAL PUBLIC LICENSE Version 3", "AGPL-3.0-only"),
    ("GNU LESSER GENERAL PUBLIC LICENSE Version 3", "LGPL-3.0-only"),
    ("GNU LESSER GENERAL PUBLIC LICENSE Version 2.1", "LGPL-2.1-only"),
    ("GNU GENERAL PUBLIC LICENSE Version 3", "GPL-3.0-only"),
    ("GNU GENERAL PUBLIC LICENSE Version 2", "GPL-2.0-only"),
    ("Mozilla Public License Version 2.0", "MPL-2.0"),
    ("Mozilla Public License, version 2.0", "MPL-2.0"),
    ("Eclipse Public License - v 2.0", "EPL-2.0"),
    ("Apache License Version 2.0", "Apache-2.0"),
    ("Boost Software License - Version 1.0", "BSL-1.0"),
    ("This is free and unencumbered software released into the public domain", "Unlicense"),
    ("CC0 1.0 Universal", "CC0-1.0"),
    ("Permission to use, copy, modify, and/or distribute this software for any purpose", "ISC"),
    ("Permission to use, copy, modify, and distribute this software for any purpose", "ISC"),
    ("Permission is hereby granted, free of charge, to any person obtaining a copy", "MIT"),
    ("used to endorse or promote products derived from", "BSD-3-Clause"),
    ("Redistributions in binary form must reproduce the above copyright notice", "BSD-2-Clause"),
    ("Altered source versions must be plainly marked as such", "Zlib"),
]


def read_table(path: Path) -> list[dict[str, str]]:
    """The sources, a dictionary per row, in the table's order.

    Raises:
        UserError: the file is missing, is not UTF-8 text or breaks the schema; the line and the column are named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            rows = [(lines.line_num, cells) for cells in lines if cells]
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"{path}: no such file; `sources.table` names a table of sources") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not UTF-8 text with tabs: {error}; export the table as UTF-8") from error
    if not rows:
        raise UserError(f"{path}: empty; line 1 must hold the columns {', '.join(COLUMNS)}, apart by tabs")
    (line, header), *rows = rows
    for column in header:
        if column not in COLUMNS or header.count(column) > 1:
            wrong = "there twice" if column in COLUMNS else f"unknown; known, apart by tabs: {', '.join(COLUMNS)}"
            raise UserError(f"{path}: line {line}: column {column!r:.80} is {wrong}")
    for column in COLUMNS:
        if column not in header:
            raise UserError(f"{path}: line {line}: column {column!r} is missing")
    if not rows:
        raise UserError(f"{path}: no rows; at least one source must be there")
    return checked(path, header, rows)


def names_of(experiment: dict) -> list[str]:
    """The names of an experiment's sources; none where all datasets are the user's own.

    Raises:
        UserError: the table is malformed.
    """
    return [row["name"] for row in read_table(Path(experiment["sources"]["table"]))] if "sources" in experiment else []


def checked(path: Path, header: list[str], rows: list[tuple[int, list[str]]]) -> list[dict[str, str]]:
    """The rows, each (line number, cells), as dictionaries that the schema allows."""
    validator = jsonschema.Draft202012Validator(yaml.safe_load(SCHEMA.read_text()))
    sources, line_of = [], {}
    for line, cells in rows:
        if len(cells) != len(header):
            raise UserError(f"{path}: line {line}: {len(cells)} cells, but line 1 has {len(header)} columns")
        source = dict(zip(header, cells, strict=True))
        # a wrong kind first: what else must hold depends on it
        wrong = {error.path[0]: error for error in validator.iter_errors(source)}
        for column in ["kind", *COLUMNS]:
            if column in wrong:
                right = wrong[column].schema["description"]
                raise UserError(f"{path}: line {line}: {column}: {source[column]!r:.80} is not {right}")
        if source["name"] in line_of:
            there = line_of[source["name"]]
            raise UserError(f"{path}: line {line}: name: {source['name']!r} is on line {there} already; choose another")
        line_of[source["name"]] = line
        sources.append(source)
    return sources


def licence_of(repository: Path) -> str:
    """The SPDX name that the licence file of a repository suggests; NOASSERTION where it suggests none."""
    for path in sorted(repository.iterdir()):
        if re.match(r"(licen[cs]e|copying|unlicense)", path.name, re.IGNORECASE) and path.is_file():
            text = " ".join(path.read_text(encoding="utf-8", errors="replace").split()).lower()
            for words, name in LICENCES:
                if words.lower() in text:
                    return name
    return "NOASSERTION"


def source_of(repository: Path, language: str, priority: str) -> dict[str, str]:
    """The row of a repository on disk."""
    from scripts.sources.archives.archive_members import Limits
    from scripts.sources.archives.writer import (
        pack_folder,  # every start of Snakemake imports this module: it stays light
    )
    from scripts.sources.providers.git import git, reason

    if (repository / ".git").exists():
        head = git("-C", str(repository), "rev-parse", "--verify", "HEAD^{commit}")
        if head.returncode:
            raise UserError(f"{repository}: no commit to pin: {reason(head.stderr)}")
        if git("-C", str(repository), "status", "--porcelain").stdout:
            logging.warning(f"{repository}: what is not committed there is not in the pin")
        kind, pin = "git", head.stdout.strip()
    else:
        try:
            kind, pin = "path", pack_folder(repository, None, Limits(), label=f"hash {repository}")["sha256"]
        except UserError as error:
            raise UserError(f"{repository}: {error}") from error
    name = re.sub(r"[^a-z0-9._-]+", "-", repository.name.lower()).strip("._-")
    values = (name, kind, str(repository), pin, language, priority, licence_of(repository))
    return dict(zip(COLUMNS, values, strict=True))


def sources_of(tree: Path) -> list[dict[str, str]]:
    """The rows of a tree priority/language/repository; equal names get their language and priority behind them.

    Raises:
        UserError: there is no repository in it, or one that cannot be pinned.
    """
    sources = []
    for priority in ("high", "medium"):
        for folder in sorted(path for path in (tree / priority).glob("*") if path.is_dir()):
            if (language := FOLDERS.get(folder.name.lower())) is None:
                logging.warning(f"{folder}: left out, no language of {', '.join(sorted(FOLDERS))}")
                continue
            for repository in sorted(path for path in folder.iterdir() if path.is_dir()):
                sources.append(source_of(repository, language, priority))
    if not sources:
        raise UserError(f"{tree}: no repositories at high/LANGUAGE/REPOSITORY or medium/LANGUAGE/REPOSITORY in it")
    often = Counter(source["name"] for source in sources)
    for source in sources:
        if often[source["name"]] > 1:
            source["name"] += f"-{source['language']}-{source['priority']}"
    return sources


def write_table(sources: list[dict[str, str]], path: Path) -> None:
    """Write the table as `read_table` reads it.

    Raises:
        UserError: `path` is there already, or a row breaks the schema.
    """
    if path.exists():
        raise UserError(f"{path}: already there; remove it first, or choose another name")
    rows = [[source[column] for column in COLUMNS] for source in sources]
    checked(path, COLUMNS, list(enumerate(rows, 2)))
    with atomic(path) as temporary:
        temporary.write_text("".join("\t".join(cells) + "\n" for cells in [COLUMNS, *rows]), encoding="utf-8")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--from", type=Path, required=True, dest="tree", help="folder of high/ and medium/")
    arguments.add_argument("--out", type=Path, required=True, help="table to write; must not be there yet")
    given = arguments.parse_args()
    if given.out.exists():  # said before the hashing
        raise UserError(f"{given.out}: already there; remove it first, or choose another name")
    write_table(sources_of(given.tree), given.out)
    logging.info(f"{given.out}: written")


if __name__ == "__main__":
    run(main)
