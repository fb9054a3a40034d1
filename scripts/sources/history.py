"""Rule history: when each file of a pinned git source was first committed, for a split by time.

    python -m scripts.sources.history --source '{"name": "zstd", "kind": "git", "pin": "9d1bc2b4a1f0..."}' \\
        --location https://example.org/zstd.git --max-minutes 60 --out results/sources/history/zstd

`first_commits.jsonl.zst` has a line per file, `{"path": "lib/a.c", "first_commit": 1704067200}` (seconds since 1970,
UTC), sorted by path. It runs only with `corpus.split.by: time`, and needs git sources, as archives hold a commit
without its history. What counts as the first commit: scripts/sources/providers/git_history.py.
"""

import json
import logging
import tempfile
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.experiment.layout import FIRST_COMMITS
from scripts.sources.providers.git_history import first_commits
from scripts.sources.tables.source import PinnedSource


def history(source: PinnedSource, max_minutes: float, out: Path) -> dict:
    """Write the first commits of a source's files to the folder `out`; returns the manifest.

    Raises:
        UserError: the source is not of kind git, or its history cannot be read completely.
    """
    if source.kind != "git":
        raise UserError(f"source {source.name}: of kind {source.kind}, which has no history; a split by time needs git")
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{source.name}.", dir=out) as work:
            dates = first_commits(source.location, source.pin, Path(work), max_minutes * 60)
    except UserError as error:
        raise UserError(f"source {source.name}: {error}") from error
    write_jsonl(out / FIRST_COMMITS, ({"path": path, "first_commit": date} for path, date in dates.items()))
    logging.info(f"history {source.name}: first commits of {len(dates):,} files")
    return write_manifest(out, [FIRST_COMMITS], pin=source.pin, paths=len(dates))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--source", type=json.loads, required=True, help="JSON: name, kind, pin")
    arguments.add_argument("--location", required=True, help="URL or path")
    arguments.add_argument("--max-minutes", type=float, required=True, help="time limit for fetching")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the first commits")
    args = arguments.parse_args()
    source = PinnedSource.model_validate({**args.source, "location": args.location})
    history(source, args.max_minutes, args.out)


if __name__ == "__main__":
    run(main)
