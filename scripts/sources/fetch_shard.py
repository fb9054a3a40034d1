"""Rule fetch_shard: a shard of very many sources → their archives in data/raw and, last, a manifest of what they hold.

    python -m scripts.sources.fetch_shard --settings '{"max_megabytes": 4096}' --max-minutes 60 \\
        --sources '{"name": "zstandard", "kind": "sdist", "pin": "7713e1179d16..."}' ... \\
        --locations zstandard==0.25.0 ... --out results/sources/fetch_shard/0

Each archive is made as by rule `fetch`, or by rule `pull` where it was published, and named by its pin; one that is
there already is kept. So a changed pin fetches that source alone, and after a failure or a kill the next try goes on.
A source that fails does not keep the others of the shard from being fetched.
"""

import logging
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.files import read_json
from scripts.common.manifest import write_manifest
from scripts.experiment.layout import is_published, raw_archive, raw_manifest
from scripts.experiment.settings.sources import Fetch
from scripts.sources.fetch import fetch
from scripts.sources.pull import pull
from scripts.sources.tables.shard_arguments import add_source_arguments, given_sources, make_each
from scripts.sources.tables.source import PinnedSource, check_pin


def obtain(source: PinnedSource, settings: Fetch, published: list[str]) -> str:
    """Make a source's archive if it is not there; returns the hash of its content.

    Raises:
        UserError: it can be neither fetched nor pulled, or differs from its pin.
    """
    name = source.raw_name
    archive, manifest = raw_archive(name), raw_manifest(name)
    if archive.is_file() and manifest.is_file():
        facts = read_json(manifest)
        check_pin(manifest, facts, source.kind, source.pin)
    elif name in published:
        facts = pull(name, source.kind, source.pin, published)
    else:
        facts = fetch(source, settings, archive)
    return facts["sha256"]


def fetch_shard(sources: list[PinnedSource], settings: Fetch, out: Path) -> dict:
    """Make the archives of a shard's sources; returns the manifest, which says what each holds.

    Raises:
        UserError: some could not be made; all others were.
    """
    published = [source.raw_name for source in sources if is_published(source.raw_name)]
    digests = make_each(f"fetch_shard {out.name}", sources, lambda source: obtain(source, settings, published))
    archives = {source.raw_name: {"sha256": digest} for source, digest in zip(sources, digests, strict=True)}
    logging.info(f"fetch_shard {out.name}: {len(archives)} archives")
    return write_manifest(out, [], archives=archives)


def main() -> None:
    arguments = parser(__doc__)
    add_source_arguments(arguments)
    arguments.add_argument("--settings", type=Fetch.from_json, required=True, help="JSON: the settings `sources.fetch`")
    arguments.add_argument("--max-minutes", type=float, required=True, help="in place of `max_minutes` of the settings")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the manifest")
    args = arguments.parse_args()
    settings = args.settings.model_copy(update={"max_minutes": args.max_minutes})
    fetch_shard(given_sources(args), settings, args.out)


if __name__ == "__main__":
    run(main)
