"""Rule pull: a DVC pointer → `data/raw/{source}.tar.zst` and, last, its manifest `data/raw/{source}.json`.

    python -m scripts.sources.pull --source ripgrep --all ripgrep zstd

By default DVC trusts its cache and its remote, so the md5 of the pointer is checked here, while copying. Several
`dvc pull` at a time wait for DVC's lock; so the first of these jobs fetches what all of them need in one call, and
each copies its own archive out of the cache without a lock.
"""

import fcntl
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scripts.common.cli import UserError, parser, run
from scripts.common.files import atomic, write_json
from scripts.experiment.dvc_cache import cache_folder, cache_object, run_dvc
from scripts.experiment.machine_files import read_yaml
from scripts.sources.archives.canonical_archive import describe

RAW = Path("data/raw")
CHUNK = 1 << 20


class Pointer(NamedTuple):
    """A `.dvc` file, with hash and size of the one file that it points to."""

    path: Path
    md5: str
    size: int


def read_pointer(path: Path) -> Pointer:
    """The pointer in `path`.

    Raises:
        UserError: it is missing, is no pointer of DVC 3, or points to a folder.
    """
    match read_yaml(path):
        case {"outs": [{"md5": str(md5), "size": int(size), "hash": "md5"}]} if re.fullmatch("[0-9a-f]{32}", md5):
            return Pointer(path, md5, size)
    raise UserError(f"{path}: no DVC 3 pointer to one file; write it again with `dvc add {path.with_suffix('')}`")


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock under which one of these jobs at a time calls DVC; the kernel frees it, however the job ends."""
    path = Path(".dvc/tmp/stagecraft-pull.lock")
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetch_all(pointer: Pointer, pointers: list[Pointer], cache: Path) -> None:
    """Fetch the objects of all `pointers` that the cache lacks, unless another job has fetched this one meanwhile.

    Raises:
        UserError: the remote cannot be reached or does not have the object of `pointer`.
    """
    with locked():
        if present(pointer, cache):
            return
        missing = [other for other in pointers if not present(other, cache)]
        for other in missing:
            cache_object(cache, other.md5).unlink(missing_ok=True)  # an object of a wrong size, which DVC would trust
        result = run_dvc("--wait-for-lock", "fetch", *(str(other.path) for other in missing))
        if not present(pointer, cache):
            lines = [line.removeprefix("ERROR: ") for line in result.stderr.splitlines() if line.startswith("ERROR: ")]
            hint = (
                f"dvc fetch: {lines[0]}" if lines else "`dvc push` where it was added, and see `dvc remote list` here"
            )
            raise UserError(f"{pointer.path}: no remote gives its object, md5 {pointer.md5}; {hint}")


def present(pointer: Pointer, cache: Path) -> bool:
    """Whether the cache has an object of the right size; its hash is checked while it is copied."""
    path = cache_object(cache, pointer.md5)
    return path.is_file() and path.stat().st_size == pointer.size


def copy(pointer: Pointer, cache: Path, out: Path) -> str:
    """Copy the object out of the cache; returns the md5 of what was copied."""
    digest = hashlib.md5(usedforsecurity=False)
    with cache_object(cache, pointer.md5).open("rb") as file, out.open("wb") as target:
        while data := file.read(CHUNK):
            digest.update(data)
            target.write(data)
    return digest.hexdigest()


def pull(source: str, sources: list[str]) -> dict:
    """Write the archive of `source` and its manifest; returns the manifest.

    Args:
        source: the source whose pointer is `data/raw/{source}.tar.zst.dvc`.
        sources: all that have a pointer; what the cache lacks of them is fetched too.

    Raises:
        UserError: this is no DVC repository, no remote has the archive, or what it gives differs from what was added.
    """
    if not Path(".dvc").is_dir():
        raise UserError("no DVC repository here (.dvc is missing); `dvc init` makes one")
    archive, manifest = RAW / f"{source}.tar.zst", RAW / f"{source}.json"
    pointers = {name: read_pointer(RAW / f"{name}.tar.zst.dvc") for name in {source, *sources}}
    pointer = pointers[source]
    cache = cache_folder()
    with atomic(archive) as temporary:
        for _ in range(2):
            if not present(pointer, cache):
                fetch_all(pointer, [pointers[name] for name in sorted(pointers)], cache)
            md5 = copy(pointer, cache, temporary)
            if md5 == pointer.md5:
                break
            # DVC would deliver the bad object again and again: remove it, so that it is fetched once more
            with locked():
                cache_object(cache, pointer.md5).unlink(missing_ok=True)
        else:
            raise UserError(f"{pointer.path}: the remote gives content with md5 {md5}, the pointer says {pointer.md5}")
        try:
            facts = describe(temporary, f"pull {source}")
        except UserError as error:
            raise UserError(f"{archive}: {error}") from error
        manifest.unlink(missing_ok=True)  # no moment has an old manifest beside a new archive
    write_json(manifest, facts)
    return facts


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--source", required=True, help="source to pull")
    arguments.add_argument("--all", nargs="+", required=True, help="all sources that have a pointer")
    args = arguments.parse_args()
    pull(args.source, args.all)


if __name__ == "__main__":
    run(main)
