"""Rule history: when each file of pinned git sources was first committed, for a split by time.

    python -m scripts.sources.history --sources '{"name": "zstd", "kind": "git", "pin": "9d1bc2b4a1f0..."}' ... \\
        --locations https://example.org/zstd.git ... --code 3f0c9a41d2b86e75 \\
        --history results/sources/history --shard results/sources/history/_0

Each source has a folder below --history. Its `first_commits.jsonl.zst` has a line per file,
`{"path": "lib/a.c", "first_commit": 1704067200}` (seconds since 1970, UTC), sorted by path. The rule runs only with
`corpus.split.by: time`, and needs git sources, as archives hold a commit without its history. What counts
as the first commit: scripts/sources/providers/git_history.py.

Up to 512 sources a job has one source. The jobs of more have a shard of them, and write a manifest that lists the files
of all. `made_from.json` in a source's folder says of which pin it was read, and by which code; a folder that was made
from the same and is whole is kept. So a changed pin reads the history of that source alone, and after a failure or a
kill the next try goes on. A source that fails does not keep the others of the shard from being read.
"""

import logging
import tempfile
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import NAME, write_manifest
from scripts.common.shard_reuse import renew, write_shard_manifest
from scripts.experiment.layout import FIRST_COMMITS
from scripts.sources.archives.archive_members import LIMITS
from scripts.sources.providers.git_history import first_commits
from scripts.sources.tables.shard_arguments import add_source_arguments, given_sources, make_each
from scripts.sources.tables.source import PinnedSource


def history(source: PinnedSource, out: Path) -> dict:
    """Write the first commits of a source's files to the folder `out`; returns the manifest.

    Raises:
        UserError: the source is not of kind git, or its history cannot be read completely.
    """
    if source.kind != "git":
        raise UserError(f"source {source.name}: of kind {source.kind}, which has no history; a split by time needs git")
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{source.name}.", dir=out) as work:
            dates = first_commits(source.location, source.pin, Path(work), LIMITS.seconds)
    except UserError as error:
        raise UserError(f"source {source.name}: {error}") from error
    write_jsonl(out / FIRST_COMMITS, ({"path": path, "first_commit": date} for path, date in dates.items()))
    logging.info(f"history {source.name}: first commits of {len(dates):,} files")
    return write_manifest(out, [FIRST_COMMITS], pin=source.pin, paths=len(dates))


def history_shard(sources: list[PinnedSource], code: str, folder: Path, shard: Path | None = None) -> None:
    """Write the first commits of each source to its folder below `folder`, and the list of all their files to `shard`.

    Raises:
        UserError: some histories could not be read; all others were.
    """

    def read(source: PinnedSource) -> bool:
        out = folder / source.name
        return renew(out, {"pin": source.pin, "code": code}, lambda: history(source, out))

    new = sum(make_each("history", sources, read))
    if shard:
        write_shard_manifest(shard, [folder / source.name for source in sources], (FIRST_COMMITS, NAME))
        logging.info(f"history {shard.name}: {new} histories read, {len(sources) - new} kept as they were")


def main() -> None:
    arguments = parser(__doc__)
    add_source_arguments(arguments)
    arguments.add_argument("--code", required=True, help="fingerprint of this code")
    arguments.add_argument("--history", type=Path, required=True, help="folder for a folder per source")
    arguments.add_argument("--shard", type=Path, help="folder for the manifest of several sources; by default none")
    args = arguments.parse_args()
    history_shard(given_sources(args), args.code, args.history, args.shard)


if __name__ == "__main__":
    run(main)
