"""Archives that are too large, damaged, or made to exhaust memory: each is refused in one line."""

import bz2
import gzip
import lzma
import random
import tarfile

import pytest
import zstandard

from scripts.common.errors import UserError
from scripts.sources.archives import canonical_archive
from scripts.sources.archives.members import Limits
from tests.sources.archives.packing import LINK, SYM, pack, refused


def test_too_many_and_too_much_are_refused_by_name_and_what_is_too_large_is_left_out(tmp_path, tools):
    data = tools.make_tar({"a": b"1" * 10, "b": b"2" * 30, "c": b"3" * 20})
    refused(data, tmp_path, "'c': one more than the 2 that", Limits(2, 100, 1000))
    facts = pack(data, tmp_path / "without", Limits(9, 20, 1000))
    reason = "larger than 2e-05 MB"
    assert facts["bytes"] == 30 and facts["skipped"] == {reason: 1} and facts["skipped_names"] == {reason: ["b"]}
    refused(data, tmp_path, "no files in it", Limits(9, 5, 1000))
    refused(data, tmp_path, "'b': the largest of 60 bytes in all; a source may have", Limits(9, 30, 59))
    assert pack(data, tmp_path / "fits", Limits(3, 30, 60))["bytes"] == 60


def test_hard_links_count_with_their_content(tmp_path, tools):
    entries = [tools.entry("a", b"1" * 50), *(tools.entry(f"h{n}", b"", LINK, "a") for n in range(20))]
    refused(tools.make_tar(entries), tmp_path, "the largest of 1050 bytes in all", Limits(99, 100, 1000))


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, bz2.compress, lzma.compress])
def test_bomb_stops_before_it_is_unpacked(compress, tmp_path, monkeypatch):
    unpacked_bytes = 0
    original = canonical_archive.chunks

    def counted(*arguments):
        nonlocal unpacked_bytes
        for data in original(*arguments):
            unpacked_bytes += len(data)
            yield data

    monkeypatch.setattr(canonical_archive, "chunks", counted)
    refused(compress(bytes(40 << 20)), tmp_path, "unpacks to more than", Limits(10, 10**6, 10**6))
    assert unpacked_bytes < 4 << 20


def test_xz_that_wants_much_memory_is_refused(tmp_path, tools, monkeypatch):
    monkeypatch.setattr(canonical_archive, "MAX_MEMORY", 1 << 20)
    refused(tools.make_tar({"a": b"1"}, "w:xz"), tmp_path, "[Mm]emory")


def test_huge_extended_header_is_not_read_into_memory(tmp_path, tools):
    data = tools.make_tar([tools.entry("a", b"1", pax_headers={"comment": "x" * 100_000})])
    refused(data, tmp_path, "an extended header of 1000.. bytes")
    data = tools.make_tar([tools.entry("x" * 100_000, b"1")], form=tarfile.GNU_FORMAT)
    refused(data, tmp_path, "an extended header of 100001 bytes")


@pytest.mark.parametrize("size", [-512, -(1 << 40), 1 << 40])
def test_size_that_points_backwards_or_past_the_end_is_refused(size, tmp_path, tools):
    info = tarfile.TarInfo("a")
    info.size = size
    head = info.tobuf(tarfile.GNU_FORMAT)
    refused(head + bytes(1024), tmp_path, "'a': (damaged header|the archive ends inside)")
    data = tools.make_tar([tools.entry("a", b"1", pax_headers={"size": str(size)})])
    refused(data, tmp_path, "'a': (damaged header|the archive ends inside)")


def test_sparse_files_are_refused(tmp_path, tools):
    refused(tools.make_tar([tools.entry("s", b"1", pax_headers={"GNU.sparse.map": "0,1"})]), tmp_path, "'s': a sparse")
    refused(tools.make_tar([tools.entry("s", b"", tarfile.GNUTYPE_SPARSE)]), tmp_path, "'s': a sparse")


def test_cut_or_damaged_archives_are_refused(tmp_path, tools):
    noise = random.Random(0).randbytes(50_000)
    plain = tools.make_tar({"a": noise, "b": b"2" * 5000, "c": b"3"})
    for data in (gzip.compress(plain), bz2.compress(plain), lzma.compress(plain), plain):
        refused(data[: len(data) // 2], tmp_path, "damaged or truncated|ends inside|ends early")
    refused(zstandard.compress(plain)[:30_000], tmp_path, "not a readable tar|ends inside|ends early")
    refused(plain[: 512 + 50_176], tmp_path, "ends early")  # cut between two members, which tarfile does not mind
    broken = bytearray(plain)
    broken[512 + 50_176 + 20] ^= 1  # the second header: tarfile takes it for the end
    refused(bytes(broken), tmp_path, "damaged or ends early")
    for data in (b"", b"no tar", b"\x1f\x8b\x08 no gzip", noise, bytes(100)):
        refused(data, tmp_path, "not a readable tar|damaged|no files|ends early")


def test_any_flipped_or_cut_tar_gives_an_archive_or_one_line(tmp_path, tools):
    entries = [
        tools.entry("src/" + "x" * 150, b"code" * 200, pax_headers={"comment": "é"}),
        tools.entry("l", b"", SYM, "src"),
        tools.entry("h", b"", LINK, "l2"),
        tools.entry("l2", b"abc"),
    ]
    plain = bytearray(tools.make_tar(entries)[:6144])
    for seed in range(400):
        chance = random.Random(seed)
        data = bytearray(plain)
        header = chance.randrange(0, len(data), 512)
        for _ in range(chance.randrange(1, 6)):
            data[header + chance.randrange(512)] = chance.choice([0, 0x30, 0x80, 0xFF, chance.randrange(256)])
        # a right checksum, so that what lies behind it is reached
        data[header + 148 : header + 156] = b"%06o\0 " % tarfile.calc_chksums(bytes(data[header : header + 512]))[0]
        try:
            pack(bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]), tmp_path / "out")
        except UserError as error:
            assert "\n" not in str(error)
