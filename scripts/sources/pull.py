"""Rule pull: DVC pointers → the archive of a source and, last, its manifest, in data/raw.

    python -m scripts.sources.pull --name zstd-9d1bc2b4a1f0 --kind git --pin 9d1bc2b4a1f0... --names zstd-9d1bc2b4a1f0

By default DVC trusts its cache and its remote, so the md5 of the pointer is checked here, while copying. Several
`dvc pull` at a time wait for DVC's lock; so the first of these jobs fetches what all of them need in one call, and
each copies its own files out of the cache without a lock. What was published must be what the sources table pins.
"""

import fcntl
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from scripts.common.cli import run
from scripts.common.errors import MachineFault, UserError
from scripts.common.files import atomic, read_json
from scripts.common.options import command
from scripts.experiment.layout import raw_archive, raw_manifest
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.reruns.provenance import cache_folder, cache_object, run_dvc
from scripts.sources.archives.canonical_archive import describe
from scripts.sources.tables.source import check_pin

CHUNK = 1 << 20


class Pointer(NamedTuple):
    """A `.dvc` file, with hash and size of the one file that it points to."""

    path: Path
    md5: str
    size: int


def read_pointer(path: Path) -> Pointer:
    """The pointer in `path`."""
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
    """Fetch the objects of all `pointers` that the cache lacks, unless another job has fetched this one meanwhile."""
    with locked():
        if present(pointer, cache):
            return
        missing = [other for other in pointers if not present(other, cache)]
        for other in missing:
            cache_object(cache, other.md5).unlink(missing_ok=True)  # an object of a wrong size, which DVC would trust
        result = run_dvc("--wait-for-lock", "fetch", *(str(other.path) for other in missing))
        if not present(pointer, cache):
            lines = [line.removeprefix("ERROR: ") for line in result.stderr.splitlines() if line.startswith("ERROR: ")]
            if lines:
                hint = f"dvc fetch: {lines[0]}"
            else:
                hint = "`dvc push` where it was added, and see `dvc remote list` here"
            raise MachineFault(f"{pointer.path}: no remote gives its object, md5 {pointer.md5}; {hint}")


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


def copy_checked(pointer: Pointer, pointers: list[Pointer], cache: Path, out: Path) -> None:
    """Copy what `pointer` points to out of the cache to `out`; a corrupt object there is fetched once more."""
    for _ in range(2):
        if not present(pointer, cache):
            fetch_all(pointer, pointers, cache)
        md5 = copy(pointer, cache, out)
        if md5 == pointer.md5:
            return
        # DVC would deliver the bad object again and again: remove it, so that it is fetched once more
        with locked():
            cache_object(cache, pointer.md5).unlink(missing_ok=True)
    raise UserError(f"{pointer.path}: the remote gives content with md5 {md5}, the pointer says {pointer.md5}")


def pointers_of(name: str) -> tuple[Pointer, Pointer]:
    """The pointers of an archive and of its manifest."""
    return read_pointer(Path(f"{raw_archive(name)}.dvc")), read_pointer(Path(f"{raw_manifest(name)}.dvc"))


def pull(name: str, kind: str, pin: str, names: list[str]) -> dict:
    """Write the archive of this name and its manifest; returns the manifest.

    Args:
        name: whose pointers are `data/raw/{name}.tar.zst.dvc` and `data/raw/{name}.json.dvc`.
        kind: of the source, as in the sources table.
        pin: of the source, as in the sources table.
        names: all that have pointers; what the cache lacks of them is fetched too.

    Raises:
        UserError: this is no DVC repository, no remote has the files, they differ from what was added, or they are of
            another commit or content than the sources table pins.
    """
    if not Path(".dvc").is_dir():
        raise UserError("no DVC repository here (.dvc is missing); `dvc init` makes one")
    archive, manifest = raw_archive(name), raw_manifest(name)
    both = {other: pointers_of(other) for other in sorted({name, *names})}
    pointers = list(chain.from_iterable(both.values()))
    cache = cache_folder(Path.cwd())
    with atomic(manifest) as new_manifest, atomic(archive) as new_archive:  # renamed in reverse: the manifest last
        for pointer, out in zip(both[name], (new_archive, new_manifest), strict=True):
            copy_checked(pointer, pointers, cache, out)
        facts = read_json(new_manifest)
        check_pin(manifest, facts, kind, pin)
        try:
            content = describe(new_archive, f"pull {name}")
        except UserError as error:
            raise UserError(f"{archive}: {error}") from error
        if content["sha256"] != facts.get("sha256"):
            raise UserError(
                f"{archive}: content has sha256 {content['sha256']}, its manifest says {facts.get('sha256')}"
            )
        manifest.unlink(missing_ok=True)  # no moment has an old manifest beside a new archive
    return facts


if __name__ == "__main__":
    run(command(pull))
