"""Rule fetch: pinned sources → the archive `data/raw/{source}-{pin}.tar.zst` of each and, last, its manifest beside it.

    python -m scripts.sources.fetch \\
        --sources '{"name": "zstandard", "kind": "sdist", "pin": "7713e1179d16..."}' ... \\
        --locations zstandard==0.25.0 ... --shard results/sources/fetch/_0

A git source is pinned by its commit, an sdist by the sha256 of its file, a folder by the sha256 in its manifest. The
location is an argument of its own, as the pin alone decides the content: the same pin elsewhere reruns nothing.

Up to 512 sources a job has one source. The jobs of more have a shard of them, and write a manifest of what its archives
hold; an archive that was published is pulled as by rule `pull`, and one that is there already is kept. So a changed pin
fetches that source alone, and after a failure or a kill the next try goes on. A source that fails does not keep the
others of the shard from being fetched.
"""

import logging
import shutil
import tempfile
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, write_json
from scripts.common.manifest import write_manifest
from scripts.common.options import command
from scripts.experiment.layout import is_published, raw_archive, raw_manifest
from scripts.sources.archives.canonical_archive import pack_folder, pack_tar
from scripts.sources.archives.members import LIMITS, Limits
from scripts.sources.providers.git import commit_as_tar
from scripts.sources.pull import pull
from scripts.sources.tables.source import PinnedSource, check_pin, given_sources, make_each


def fetch(source: PinnedSource, limits: Limits, archive: Path) -> dict:
    """Write the archive and its manifest; returns the manifest.

    Args:
        source: what to fetch.
        limits: on what it may hold and on the time.
        archive: the file to write; the manifest goes beside it.

    Raises:
        UserError: it cannot be fetched, differs from its pin, or holds what no source may.
    """
    label = f"fetch {source.name}"
    manifest = archive.with_name(f"{archive.name.removesuffix('.tar.zst')}.json")
    archive.parent.mkdir(parents=True, exist_ok=True)
    for leftover in archive.parent.glob(f".{archive.name}.*"):  # of a fetch that was killed
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    try:
        with (
            tempfile.TemporaryDirectory(prefix=f".{archive.name}.", dir=archive.parent) as work,
            atomic(archive) as temporary,
        ):
            if source.kind == "git":
                with commit_as_tar(source.location, source.pin, Path(work), limits.seconds) as stream:
                    facts = pack_tar(stream, temporary, limits, label=label)
            elif source.kind == "sdist":
                from scripts.sources.providers.package_index import download  # half a second, which git does not need

                with download(source.location, source.pin, Path(work), limits.bytes, limits.seconds).open(
                    "rb"
                ) as stream:
                    facts = pack_tar(stream, temporary, limits, strip=True, label=label)
            else:
                facts = pack_folder(Path(source.location), temporary, limits, label=label)
                if facts["sha256"] != source.pin:
                    raise UserError(
                        f"{source.location}: content has sha256 {facts['sha256']}, the table pins {source.pin}"
                    )
            # no moment has an old manifest beside a new archive
            manifest.unlink(missing_ok=True)
    except UserError as error:
        raise UserError(f"source {source.name}: {error}") from error
    facts |= {"kind": source.kind, "location": source.location, "pin": source.pin}
    write_json(manifest, facts)
    return facts


def obtain(source: PinnedSource, limits: Limits, published: list[str]) -> str:
    """Make a source's archive if it is not there; returns the hash of its content."""
    name = source.raw_name
    archive, manifest = raw_archive(name), raw_manifest(name)
    if archive.is_file() and manifest.is_file():
        facts = read_json(manifest)
        check_pin(manifest, facts, source.kind, source.pin)
    elif name in published:
        facts = pull(name, source.kind, source.pin, published)
    else:
        facts = fetch(source, limits, archive)
    return facts["sha256"]


def fetch_shard(sources: list[PinnedSource], limits: Limits, shard: Path | None = None) -> None:
    """Make the archives of some sources and, in the folder `shard`, a manifest that says what each holds."""
    published = [source.raw_name for source in sources if is_published(source.raw_name)]
    digests = make_each("fetch", sources, lambda source: obtain(source, limits, published))
    if shard:
        archives = {source.raw_name: {"sha256": digest} for source, digest in zip(sources, digests, strict=True)}
        write_manifest(shard, [], archives=archives)
        logging.info(f"fetch {shard.name}: {len(archives)} archives")


def fetch_all(sources: list[dict], locations: list[str], shard: Path | None = None) -> None:
    """See `fetch_shard`. `sources`: name, kind and pin of each, `locations`: where it is."""
    fetch_shard(given_sources(sources, locations), LIMITS, shard)


if __name__ == "__main__":
    run(command(fetch_all))
