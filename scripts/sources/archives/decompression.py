"""Decompress gzip, bzip2, xz or zstd of untrusted origin: output size and memory are bounded."""

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import zstandard

from scripts.common.errors import UserError
from scripts.sources.archives.archive_members import Limits

CHUNK = 1 << 20
MAX_MEMORY = 1 << 28  # bytes that an xz or zstd stream may ask its reader for


def decompress(stream: BinaryIO, tar: BinaryIO, limits: Limits) -> None:
    """Decompress gzip, bzip2, xz, zstd or nothing from `stream` (buffered) to `tar`.

    Raises:
        UserError: the data is damaged or truncated, or unpacks to more than the limits allow, headers included.
    """
    limit = limits.bytes + 4 * tarfile.BLOCKSIZE * limits.members + 2 * tarfile.RECORDSIZE
    magic, size = stream.peek(6)[:6], 0
    try:
        for data in chunks(stream, magic):
            size += len(data)
            if size > limit:
                raise UserError(
                    f"unpacks to more than {limit / 10**6:g} MB; see sources.fetch.max_megabytes and max_members"
                )
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
