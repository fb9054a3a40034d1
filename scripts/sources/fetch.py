"""Rule fetch: a pinned source → its archive `data/raw/{source}-{pin}.tar.zst` and, last, its manifest beside it.

    python -m scripts.sources.fetch --settings '{"max_megabytes": 4096}' --max-minutes 60 \
        --source '{"name": "zstandard", "kind": "sdist", "pin": "7713e1179d16..."}' --location zstandard==0.25.0 \
        --archive data/raw/zstandard-7713e1179d16.tar.zst

A git source is pinned by its commit, an sdist by the sha256 of its file, a folder by the sha256 in its manifest. The
location and the time limit are arguments of their own, as the pin alone decides the content: the same pin elsewhere
reruns nothing.
"""

import json
import shutil
import tempfile
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import atomic, write_json
from scripts.experiment.settings.sources import Fetch
from scripts.sources.archives.archive_members import Limits
from scripts.sources.archives.canonical_archive import pack_folder, pack_tar
from scripts.sources.providers.git import commit_as_tar
from scripts.sources.tables.source import PinnedSource


def fetch(source: PinnedSource, settings: Fetch, archive: Path) -> dict:
    """Write the archive and its manifest; returns the manifest.

    Args:
        source: what to fetch.
        settings: limits on what it may hold and on the time.
        archive: the file to write; the manifest goes beside it.

    Raises:
        UserError: it cannot be fetched, differs from its pin, or holds what no source may.
    """
    limits, max_seconds = Limits.of(settings), settings.max_minutes * 60
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
                with commit_as_tar(source.location, source.pin, Path(work), max_seconds) as stream:
                    facts = pack_tar(stream, temporary, limits, label=label)
            elif source.kind == "sdist":
                from scripts.sources.providers.package_index import download  # half a second, which git does not need

                with download(source.location, source.pin, Path(work), limits.bytes, max_seconds).open("rb") as stream:
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


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--source", type=json.loads, required=True, help="JSON: name, kind, pin")
    arguments.add_argument("--location", required=True, help="URL, path or project==version")
    arguments.add_argument("--settings", type=Fetch.from_json, required=True, help="JSON: the settings `sources.fetch`")
    arguments.add_argument("--max-minutes", type=float, help="in place of `max_minutes` of the settings")
    arguments.add_argument("--archive", type=Path, required=True, help="data/raw/{source}-{pin}.tar.zst")
    args = arguments.parse_args()
    source = PinnedSource.model_validate({**args.source, "location": args.location})
    limit = {"max_minutes": args.max_minutes} if args.max_minutes else {}
    fetch(source, args.settings.model_copy(update=limit), args.archive)


if __name__ == "__main__":
    run(main)
