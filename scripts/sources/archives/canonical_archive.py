"""Write and read a source's canonical archive, `data/raw/{source}-{pin}.tar.zst`: equal bytes for equal content.

A GNU tar of regular files, sorted by name, mode 644, without times and owners, in one zstd frame. Its sha256 is that of
the tar, so it does not depend on the compressor. Tar in, tar out: nothing is extracted, and memory holds the members'
names only.
"""

import bz2
import gzip
import hashlib
import io
import logging
import lzma
import tarfile
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import zstandard

from scripts.common.errors import UserError
from scripts.common.progress import Progress
from scripts.sources.archives.members import Limits, Member, check_members, folder_members, member_error, tar_members

BLOCK = tarfile.BLOCKSIZE
MOST_NAMED = 10  # members left out that the log names
MOST_LISTED = 1000  # and that the manifest names of each reason: a hostile archive may have millions


CHUNK = 1 << 20
MAX_MEMORY = 1 << 28  # bytes that an xz or zstd stream may ask its reader for


def decompress(stream: BinaryIO, tar: BinaryIO, limits: Limits) -> None:
    """Decompress gzip, bzip2, xz, zstd or nothing from `stream` (buffered) to `tar`. Raises UserError: the data is
    damaged or truncated, or unpacks to more than the limits allow, headers included."""
    limit = limits.bytes + 4 * tarfile.BLOCKSIZE * limits.members + 2 * tarfile.RECORDSIZE
    magic, size = stream.peek(6)[:6], 0
    try:
        for data in chunks(stream, magic):
            size += len(data)
            if size > limit:
                raise UserError(f"unpacks to more than {limit / 10**6:g} MB, the most that a source may have")
            tar.write(data)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        if isinstance(error, OSError) and error.errno:  # a fault of this machine, as a full disk, not of the data
            raise
        raise UserError(f"damaged or truncated: decompression failed: {error}") from error


def chunks(stream: BinaryIO, magic: bytes) -> Iterator[bytes]:
    """Yield the decompressed content of `stream` in chunks of bounded size."""
    if magic.startswith(b"BZh"):
        yield from bounded_chunks(stream, bz2.BZ2Decompressor)
    elif magic.startswith(b"\xfd7zXZ\x00"):
        yield from bounded_chunks(stream, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY))
    else:
        if magic.startswith(b"\x1f\x8b"):
            stream = gzip.GzipFile(fileobj=stream)
        elif magic.startswith(b"\x28\xb5\x2f\xfd"):
            stream = zstandard.ZstdDecompressor(max_window_size=MAX_MEMORY).stream_reader(
                stream, read_across_frames=True
            )
        while data := stream.read(CHUNK):
            yield data


def bounded_chunks(stream: BinaryIO, new_decompressor: Callable) -> Iterator[bytes]:
    """As bz2.open and lzma.open, but with the reader's memory bounded; several streams in a row are one."""
    decompressor, data = new_decompressor(), b""
    while True:
        if decompressor.eof:
            data = decompressor.unused_data or stream.read(CHUNK)
            if not data:
                return
            decompressor = new_decompressor()
        elif decompressor.needs_input:
            data = stream.read(CHUNK)
            if not data:
                raise EOFError("no end-of-stream marker")
        else:
            data = b""
        yield decompressor.decompress(data, CHUNK)


def pack_tar(stream: BinaryIO, out: Path, limits: Limits, strip: bool = False, label: str = "pack") -> dict:
    """Write the tar in `stream`, compressed or not, to `out` in canonical form.

    Returns:
        {"sha256": of the canonical tar, "files": n, "bytes": sum of file sizes, "skipped": {reason: members left out},
        "skipped_names": {reason: names of the first of them}}

    Raises:
        UserError: the tar is damaged, or holds what `check_members` refuses.
    """
    # a file without a name: gone when this process is, however it ends
    with tempfile.TemporaryFile(dir=out.parent) as tar:
        decompress(stream, tar, limits)
        return write_canonical(*check_members(tar_members(tar), limits, strip), tar, out, label)


def pack_folder(root: Path, out: Path | None, limits: Limits, label: str = "pack") -> dict:
    """As `pack_tar`, of a folder on disk without its `.git`; with `out` None it is only hashed."""
    return write_canonical(*check_members(folder_members(root), limits), None, out, label)


def describe(archive: Path, label: str = "check") -> dict:
    """What `pack_tar` returned when it wrote this archive. Raises UserError: the archive is damaged or is not in
    canonical form."""
    with archive.open("rb") as stream, tempfile.TemporaryFile(dir=archive.parent) as tar:
        decompress(stream, tar, Limits())
        facts = write_canonical(*check_members(tar_members(tar), Limits()), tar, None, label)
        tar.seek(0)
        if hashlib.file_digest(tar, "sha256").hexdigest() != facts["sha256"]:
            raise UserError("no archive in canonical form; only what `scripts.sources.fetch` wrote can be read here")
    return facts


def content(member: Member, tar: BinaryIO | None) -> Iterator[bytes]:
    """Yield the bytes of a file, from its place in `tar` or on disk."""
    with nullcontext(tar) if tar else member.place.open("rb") as file:
        if tar:
            tar.seek(member.place)
        remaining = member.size
        while remaining:
            data = file.read(min(remaining, CHUNK))
            if not data:
                raise member_error(member.name, "changed while it was read")
            remaining -= len(data)
            yield data


def canonical_tar(members: Iterable[Member], tar: BinaryIO | None, progress: Progress) -> Iterator[bytes]:
    """Yield the bytes of the canonical tar."""
    for member in members:
        info = tarfile.TarInfo(member.name)
        info.mode, info.size = 0o644, member.size
        yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
        yield from content(member, tar)
        yield bytes(-member.size % BLOCK)
        progress.add()
    yield bytes(2 * BLOCK)


def write_canonical(
    members: list[Member], skipped: list[tuple[str, str]], tar: BinaryIO | None, out: Path | None, label: str
) -> dict:
    """Hash the canonical tar of checked members and, with `out`, write it compressed."""
    for name, reason in skipped[:MOST_NAMED]:
        logging.warning(f"{label}: left out {name!r:.300}: {reason}")
    if len(skipped) > MOST_NAMED:
        logging.warning(f"{label}: left out {len(skipped) - MOST_NAMED} more members")
    progress, digest = Progress(label, "members", len(members)), hashlib.sha256()
    # one thread: several cut the frame elsewhere; the checksum lets zstd find a flipped bit by itself
    compressor = zstandard.ZstdCompressor(level=3, threads=0, write_checksum=True)
    with out.open("wb") if out else nullcontext() as file, compressor.stream_writer(file or io.BytesIO()) as sink:
        for data in canonical_tar(members, tar, progress):
            digest.update(data)
            if out:
                sink.write(data)
    progress.end()
    names = defaultdict(list)
    for name, reason in skipped:
        if len(names[reason]) < MOST_LISTED:
            names[reason].append(name.encode("utf-8", "backslashreplace").decode())  # what is not UTF-8 is legible
    return {
        "sha256": digest.hexdigest(),
        "files": len(members),
        "bytes": sum(member.size for member in members),
        "skipped": dict(Counter(reason for _, reason in skipped)),
        "skipped_names": dict(names),
    }
