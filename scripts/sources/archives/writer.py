"""The one form in which a source is kept: `data/raw/{source}.tar.zst`, equal bytes for equal content.

A GNU tar of regular files and of symbolic links that stay inside, sorted by name, mode 644, with no times and no
owners, in one zstd frame. Its sha256 is that of the tar, so it does not depend on the compressor. Tar in, tar out:
nothing is extracted, and memory holds the members' names only.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import zstandard

from scripts.common.cli import UserError
from scripts.common.progress import Progress
from scripts.sources.archives.archive_members import Limits, Member, checked, folder_members, refuse, tar_members

CHUNK = 1 << 20
MOST_MEMORY = 1 << 28  # bytes that an xz or zstd stream may ask its reader for
BLOCK = tarfile.BLOCKSIZE


def pack_tar(stream: BinaryIO, out: Path, limits: Limits, strip: bool = False, label: str = "pack") -> dict:
    """Write the tar in `stream`, compressed or not, to `out` in canonical form.

    Returns:
        {"sha256": of the canonical tar, "files": n, "bytes": sum of file sizes}

    Raises:
        UserError: the tar is damaged, or holds what `members.checked` refuses.
    """
    # a file without a name: gone when this process is, however it ends
    with tempfile.TemporaryFile(dir=out.parent) as tar:
        unpack(stream, tar, limits)
        return write(checked(tar_members(tar), limits, strip), tar, out, label)


def pack_folder(root: Path, out: Path | None, limits: Limits, label: str = "pack") -> dict:
    """As `pack_tar`, of a folder on disk less its `.git`; with `out` None it is only hashed."""
    return write(checked(folder_members(root), limits), None, out, label)


def describe(archive: Path, label: str = "check") -> dict:
    """What `pack_tar` returned when it wrote this archive.

    Raises:
        UserError: the archive is damaged or is not in canonical form.
    """
    with archive.open("rb") as stream, tempfile.TemporaryFile(dir=archive.parent) as tar:
        unpack(stream, tar, Limits())
        facts = write(checked(tar_members(tar), Limits()), tar, None, label)
        tar.seek(0)
        if hashlib.file_digest(tar, "sha256").hexdigest() != facts["sha256"]:
            raise UserError("no archive in canonical form; only what `scripts.sources.fetch` wrote can be read here")
    return facts


def content(member: Member, tar: BinaryIO | None) -> Iterator[bytes]:
    """Yield the bytes of a file, from where it lies in `tar` or on disk."""
    with nullcontext(tar) if tar else member.place.open("rb") as file:
        if tar:
            tar.seek(member.place)
        left = member.size
        while left:
            data = file.read(min(left, CHUNK))
            if not data:
                raise refuse(member.name, "changed while it was read")
            left -= len(data)
            yield data


def unpack(stream: BinaryIO, tar: BinaryIO, limits: Limits) -> None:
    """Decompress gzip, bzip2, xz, zstd or nothing from `stream` (buffered) to `tar`.

    Raises:
        UserError: the data is damaged or cut short, or unpacks to more than the limits allow, headers included.
    """
    most = limits.bytes + 4 * BLOCK * limits.members + 2 * tarfile.RECORDSIZE
    magic, size = stream.peek(6)[:6], 0
    try:
        for data in decompressed(stream, magic):
            size += len(data)
            if size > most:
                raise UserError(
                    f"unpacks to more than {most / 10**6:g} MB; see sources.fetch.max_megabytes and max_members"
                )
            tar.write(data)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        if isinstance(error, OSError) and error.errno:  # of this machine, as a full disk, not of the data
            raise
        raise UserError(f"damaged or cut short, as decompression finds: {error}") from error


def decompressed(stream: BinaryIO, magic: bytes) -> Iterator[bytes]:
    """Yield the content of `stream` in pieces of bounded size."""
    if magic.startswith(b"BZh"):
        yield from multistream(stream, bz2.BZ2Decompressor)
    elif magic.startswith(b"\xfd7zXZ\x00"):
        yield from multistream(stream, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY))
    else:
        if magic.startswith(b"\x1f\x8b"):
            stream = gzip.GzipFile(fileobj=stream)
        elif magic.startswith(b"\x28\xb5\x2f\xfd"):
            stream = zstandard.ZstdDecompressor(max_window_size=MOST_MEMORY).stream_reader(
                stream, read_across_frames=True
            )
        while data := stream.read(CHUNK):
            yield data


def multistream(stream: BinaryIO, make: Callable) -> Iterator[bytes]:
    """bz2.open and lzma.open, but with the reader's memory bounded."""
    decompressor, data = make(), b""
    while True:
        if decompressor.eof:
            data = decompressor.unused_data or stream.read(CHUNK)
            if not data:
                return
            decompressor = make()
        elif decompressor.needs_input:
            data = stream.read(CHUNK)
            if not data:
                raise EOFError("no end-of-stream marker")
        else:
            data = b""
        yield decompressor.decompress(data, CHUNK)


def canonical(members: Iterable[Member], tar: BinaryIO | None, done: Progress) -> Iterator[bytes]:
    """Yield the bytes of the canonical tar."""
    for member in members:
        info = tarfile.TarInfo(member.name)
        info.mode, info.size = 0o644, member.size
        if member.kind == "symlink":
            info.type, info.linkname = tarfile.SYMTYPE, member.target
        yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
        if member.kind == "file":
            yield from content(member, tar)
            yield bytes(-member.size % BLOCK)
        done.add()
    yield bytes(2 * BLOCK)


def write(members: list[Member], tar: BinaryIO | None, out: Path | None, label: str) -> dict:
    """Hash the canonical tar of checked members and, with `out`, write it compressed."""
    done, digest = Progress(label, "members", len(members)), hashlib.sha256()
    # one thread: several cut the frame elsewhere; the checksum lets zstd find a flipped bit by itself
    compressor = zstandard.ZstdCompressor(level=3, threads=0, write_checksum=True)
    with out.open("wb") if out else nullcontext() as file, compressor.stream_writer(file or io.BytesIO()) as sink:
        for data in canonical(members, tar, done):
            digest.update(data)
            if out:
                sink.write(data)
    done.end()
    files = [member for member in members if member.kind == "file"]
    return {"sha256": digest.hexdigest(), "files": len(files), "bytes": sum(member.size for member in files)}
