"""Rule history_shard: a shard of very many git sources → when each of their files was first committed.

    python -m scripts.sources.history_shard --sources '{"name": "zstd", "kind": "git", "pin": "9d1bc2b4a1f0..."}' ... \\
        --locations https://example.org/zstd.git ... --max-minutes 60 --code 3f0c9a41d2b86e75 \\
        --history results/sources/history --out results/sources/history_shard/0

Each source's folder is that of rule `history`; `made_from.json` in it says of which pin it was read, and by which
code. A folder that was made from the same and is whole is kept. So a changed pin reads the history of that source
alone, and after a failure or a kill the next try goes on. A source that fails does not keep the others of the shard
from being read. The shard's manifest lists the files of all its sources.
"""

import logging
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.files import write_json
from scripts.common.manifest import NAME
from scripts.common.shard_reuse import MADE_FROM, is_current, write_shard_manifest
from scripts.experiment.layout import FIRST_COMMITS
from scripts.sources.history import history
from scripts.sources.tables.shard_arguments import add_source_arguments, given_sources, make_each
from scripts.sources.tables.source import PinnedSource


def history_shard(sources: list[PinnedSource], max_minutes: float, code: str, folder: Path, out: Path) -> dict:
    """Write the first commits of each source to its folder below `folder`; returns the shard's manifest in `out`.

    Raises:
        UserError: some histories could not be read; all others were.
    """

    def read(source: PinnedSource) -> bool:
        history_folder, origin = folder / source.name, {"pin": source.pin, "code": code}
        if is_current(history_folder, origin):
            return False
        (history_folder / MADE_FROM).unlink(missing_ok=True)  # until the new dates are whole they are made from nothing
        history(source, max_minutes, history_folder)
        write_json(history_folder / MADE_FROM, origin)
        return True

    new = sum(make_each(f"history_shard {out.name}", sources, read))
    logging.info(f"history_shard {out.name}: {new} histories read, {len(sources) - new} kept as they were")
    return write_shard_manifest(out, [folder / source.name for source in sources], (FIRST_COMMITS, NAME))


def main() -> None:
    arguments = parser(__doc__)
    add_source_arguments(arguments)
    arguments.add_argument("--max-minutes", type=float, required=True, help="time limit for fetching each")
    arguments.add_argument("--code", required=True, help="fingerprint of this code")
    arguments.add_argument("--history", type=Path, required=True, help="folder for a folder per source")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the shard's manifest")
    args = arguments.parse_args()
    history_shard(given_sources(args), args.max_minutes, args.code, args.history, args.out)


if __name__ == "__main__":
    run(main)
