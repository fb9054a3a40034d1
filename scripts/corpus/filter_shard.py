"""Rule filter_shard: the archives of a shard of very many sources → documents and rejects of each, as by rule `filter`.

    python -m scripts.corpus.filter_shard --settings '{"min_lines": 10}' --code 3f0c9a41d2b86e75 \\
        --sources '{"name": "zstd", "archive": "data/raw/zstd-9d1bc2b4a1f0.tar.zst", "licence": ""}' ... \\
        --filtered results/corpus/filter --out results/corpus/filter_shard/0

In each source's folder `made_from.json` says from what it was made: the code, the settings, its archive's content, its
licence and the benchmarks. A source whose folder was made from the same and is whole is kept as it is. So a changed pin
filters that source alone, and after a failure or a kill the next try goes on. The shard's manifest lists the files of
all its sources, by which the rules after it depend on them.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file, write_json
from scripts.common.manifest import NAME
from scripts.common.shard_reuse import MADE_FROM, is_current, write_shard_manifest
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.experiment.layout import Layout, fetched_shard
from scripts.experiment.settings.filter import Filter
from scripts.experiment.settings.record import to_json


class Member(NamedTuple):
    """A source of the shard; its licence is empty where that decides nothing."""

    name: str
    archive: Path
    licence: str


def read_member(text: str) -> Member:
    """The member that a JSON object says."""
    return Member(**{**(member := json.loads(text)), "archive": Path(member["archive"])})


def origin_of(member: Member, settings: Filter, code: str, benchmarks: Sequence[Path]) -> dict:
    """From what a member's documents are made.

    Raises:
        UserError: its archive is not there.
    """
    manifest = member.archive.with_name(f"{member.archive.name.removesuffix('.tar.zst')}.json")
    if not (member.archive.is_file() and manifest.is_file()):
        raise UserError(f"{member.archive}: no such file, or its manifest (.json) is missing")
    # the location says nothing about the content
    archive = {key: value for key, value in read_json(manifest).items() if key != "location"}
    return {
        "archive": hashlib.sha256(json.dumps(archive, sort_keys=True).encode()).hexdigest(),
        "licence": member.licence,
        "benchmarks": [sha256_file(path) for path in benchmarks],
        "settings": to_json(settings),
        "code": code,
    }


def filter_shard(
    members: list[Member], settings: Filter, code: str, filtered: Path, out: Path, benchmarks: Sequence[Path] = ()
) -> dict:
    """Filter the sources of a shard into a folder each below `filtered`; returns the shard's manifest in `out`.

    Raises:
        UserError: an archive is missing or damaged; the sources before it are done.
    """
    kept, fetched = 0, fetched_shard(Layout(filtered.parents[1]), out.name) / NAME
    for member in members:
        folder = filtered / member.name
        try:
            origin = origin_of(member, settings, code, benchmarks)
            if is_current(folder, origin):
                kept += 1
                continue
            (folder / MADE_FROM).unlink(missing_ok=True)  # until the new documents are whole they are made from nothing
            with funnel(folder) as result:
                filter_archive(member.archive, member.name, settings, result, benchmarks, member.licence)
        except UserError as error:
            again = f"if its archive is at fault, delete {fetched} too: the next run then fetches it again"
            raise UserError(f"source {member.name}: {error}; {again}") from error
        write_json(folder / MADE_FROM, origin)
    logging.info(f"filter_shard {out.name}: {len(members) - kept} sources filtered, {kept} kept as they were")
    return write_shard_manifest(out, [filtered / member.name for member in members], (DOCUMENTS, REJECTS, NAME))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--sources", type=read_member, nargs="+", required=True, help="JSON each")
    arguments.add_argument("--settings", type=Filter.from_json, required=True, help="corpus.filter, as JSON")
    arguments.add_argument("--code", required=True, help="fingerprint of this code")
    arguments.add_argument("--benchmarks", type=Path, nargs="+", default=(), help="files of problems, to decontaminate")
    arguments.add_argument("--filtered", type=Path, required=True, help="folder for a folder per source")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the shard's manifest, beside it")
    args = arguments.parse_args()
    filter_shard(args.sources, args.settings, args.code, args.filtered, args.out, args.benchmarks)


if __name__ == "__main__":
    run(main)
