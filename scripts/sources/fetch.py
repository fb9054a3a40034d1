"""Rule fetch: a pinned source → `data/raw/{source}.tar.zst` and, last, its manifest `data/raw/{source}.json`.

    python -m scripts.sources.fetch --settings '{"max_members": 200000, "max_member_megabytes": 256, "max_megabytes": 4096}' \
        --source '{"name": "zstandard", "kind": "sdist", "location": "zstandard==0.25.0", "pin": "7713e117..."}' \
        --archive data/raw/zstandard.tar.zst

A git source is pinned by its commit, an sdist by the sha256 of its file, a folder by the sha256 that the manifest has.
"""  # noqa: E501

import json
import shutil
import tempfile
from pathlib import Path

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import atomic, write_json
from scripts.sources.archives.archive_members import Limits
from scripts.sources.archives.writer import pack_folder, pack_tar
from scripts.sources.providers.git import archived
from scripts.sources.providers.package_index import download


def fetch(source: dict, limits: Limits, archive: Path) -> dict:
    """Write the archive and its manifest; returns the manifest.

    Args:
        source: name, kind, location and pin, as in the table of sources.
        limits: the most that it may hold.

    Raises:
        UserError: it cannot be had, is not what the pin says, or holds what no source may.
    """
    name, location, label = source["name"], source["location"], f"fetch {source['name']}"
    archive.parent.mkdir(parents=True, exist_ok=True)
    for left in archive.parent.glob(f".{archive.name}.*"):  # of a fetch that was killed
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    try:
        with (
            tempfile.TemporaryDirectory(prefix=f".{archive.name}.", dir=archive.parent) as work,
            atomic(archive) as temporary,
        ):
            if source["kind"] == "git":
                with archived(location, source["pin"], Path(work)) as stream:
                    facts = pack_tar(stream, temporary, limits, label=label)
            elif source["kind"] == "sdist":
                with download(location, source["pin"], Path(work), limits.bytes).open("rb") as stream:
                    facts = pack_tar(stream, temporary, limits, strip=True, label=label)
            else:
                facts = pack_folder(Path(location), temporary, limits, label=label)
                if facts["sha256"] != source["pin"]:
                    raise UserError(f"{location}: content has sha256 {facts['sha256']}, the table pins {source['pin']}")
            # no moment has an old manifest beside a new archive
            archive.with_name(f"{name}.json").unlink(missing_ok=True)
    except UserError as error:
        raise UserError(f"source {name}: {error}") from error
    write_json(archive.with_name(f"{name}.json"), facts)
    return facts


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--source", type=json.loads, required=True, help="JSON: name, kind, location, pin")
    arguments.add_argument("--settings", type=settings, required=True, help="JSON: the settings `sources.fetch`")
    arguments.add_argument("--archive", type=Path, required=True, help="data/raw/{source}.tar.zst")
    given = arguments.parse_args()
    fetch(given.source, Limits.of(given.settings), given.archive)


if __name__ == "__main__":
    run(main)
