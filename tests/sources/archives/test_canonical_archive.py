"""The canonical archive, and all that a hostile tar or folder may try."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import random
import socket
import subprocess
import tarfile
import zlib

import pytest
import zstandard

from scripts.common.cli import UserError
from scripts.sources.archives import canonical_archive, decompression
from scripts.sources.archives.archive_members import Limits
from scripts.sources.archives.canonical_archive import describe, pack_folder, pack_tar

FREE = Limits()


def pack(data, out, limits=FREE, **more):
    return pack_tar(io.BufferedReader(io.BytesIO(data)), out, limits, **more)


def refused(data, tmp_path, match, limits=FREE, **more):
    """The data is refused in one line, and nothing else than the caller's own files is left."""
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=match) as caught:
        pack(data, tmp_path / "out.tar.zst", limits, **more)
    assert "\n" not in str(caught.value)
    assert sorted(path for path in tmp_path.iterdir() if path.name != "out.tar.zst") == before


def test_archive_has_sorted_files_mode_644_and_neither_times_nor_owners(tmp_path, tools):
    folder = tarfile.TarInfo("src")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o700
    entries = [(folder, b""), tools.entry("z.py", b"z", mode=0o755, uname="me"), tools.entry("src/a.py", b"aa")]
    out = tmp_path / "out.tar.zst"
    facts = pack(tools.make_tar(entries), out)
    data = tools.unpacked(out)
    assert facts == {
        "sha256": hashlib.sha256(data).hexdigest(),
        "files": 2,
        "bytes": 3,
        "skipped": {},
        "skipped_names": {},
    }
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["src/a.py", "z.py"]
    assert {(m.mode, m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0o644, 0, 0, 0, "", "")}


def test_gnu_tar_reads_the_archive(tmp_path, tools):
    long = "/".join(["folder" * 8] * 5) + "/é" + "x" * 120
    pack(tools.make_tar({**tools.FILES, long: b"deep"}), tmp_path / "out.tar.zst")
    (tmp_path / "plain.tar").write_bytes(tools.unpacked(tmp_path / "out.tar.zst"))
    (tmp_path / "there").mkdir()
    subprocess.run(["tar", "xf", tmp_path / "plain.tar", "-C", tmp_path / "there"], check=True, capture_output=True)
    actual = {
        str(p.relative_to(tmp_path / "there")): p.read_bytes() for p in (tmp_path / "there").rglob("*") if p.is_file()
    }
    assert actual == {**tools.FILES, long: b"deep"}


def test_bytes_depend_on_content_alone_not_on_order_times_format_or_compression(tmp_path, tools):
    files = list(tools.FILES.items())
    backwards = [tools.entry(f"./{name}", content, mtime=99, mode=0o600) for name, content in reversed(files)]
    plain = tools.make_tar(dict(files))
    variants = [
        plain,
        plain,
        tools.make_tar(backwards, form=tarfile.GNU_FORMAT),
        tools.make_tar(dict(files), "w:gz"),
        tools.make_tar(dict(files), "w:bz2"),
        tools.make_tar(dict(files), "w:xz"),
        zstandard.compress(plain),
        zstandard.compress(plain[:700]) + zstandard.compress(plain[700:]),
        gzip.compress(plain[:700]) + gzip.compress(plain[700:]),
    ]
    for number, data in enumerate(variants):
        pack(data, tmp_path / str(number))
    assert len({(tmp_path / str(number)).read_bytes() for number in range(len(variants))}) == 1
    tree = tools.write_tree(tmp_path / "tree", tools.FILES)
    pack_folder(tree, tmp_path / "folder", FREE)
    assert (tmp_path / "folder").read_bytes() == (tmp_path / "0").read_bytes()


def test_common_top_folder_goes_only_where_asked_and_only_if_all_lies_below_it(tmp_path, tools):
    out = tmp_path / "out"
    pack(tools.make_tar({"p-1.0/a": b"1", "p-1.0/b/c": b"2"}), out, strip=True)
    assert tools.contents(out) == {"a": b"1", "b/c": b"2"}
    pack(tools.make_tar({"p-1.0/a": b"1", "p-1.0/b/c": b"2"}), out)
    assert set(tools.contents(out)) == {"p-1.0/a", "p-1.0/b/c"}
    pack(tools.make_tar({"p-1.0/a": b"1", "other": b"2"}), out, strip=True)
    assert set(tools.contents(out)) == {"p-1.0/a", "other"}


def test_symbolic_links_inside_stay_and_hard_links_become_files(tmp_path, tools):
    entries = [
        tools.entry("p/src/a.py", b"code"),
        tools.entry("p/doc/link", kind=tarfile.SYMTYPE, target="../src/./a.py"),
        tools.entry("p/loop", kind=tarfile.SYMTYPE, target="loop"),
        tools.entry("p/hard", kind=tarfile.LNKTYPE, target="p/src/a.py"),
        tools.entry("p/harder", kind=tarfile.LNKTYPE, target="p/hard"),
    ]
    facts = pack(tools.make_tar(entries), tmp_path / "out", strip=True)
    assert tools.contents(tmp_path / "out") == {
        "src/a.py": b"code", "hard": b"code", "harder": b"code", "doc/link": "../src/./a.py", "loop": "loop"
    }  # fmt: skip
    assert (facts["files"], facts["bytes"]) == (3, 12)


SYM, LINK = tarfile.SYMTYPE, tarfile.LNKTYPE
HOSTILE = {
    "absolute path": ([("/etc/passwd", b"x")], "'/etc/passwd': an absolute path"),
    "parent folder": ([("a/../../x", b"x")], r"'a/../../x': `\.\.` in its path"),
    "parent folder as a folder": ([("a", b""), ("../b", b"", tarfile.DIRTYPE)], r"'\.\./b'"),
    "file below a link": ([("d", b"", SYM, "e"), ("d/x", b"x")], "'d': both a symlink and a folder"),
    "file that is a folder": ([("d", b"x"), ("d/x", b"x")], "'d': both a file and a folder"),
    "character device": ([("dev", b"", tarfile.CHRTYPE)], "'dev': neither a file"),
    "block device": ([("dev", b"", tarfile.BLKTYPE)], "'dev': neither a file"),
    "fifo": ([("pipe", b"", tarfile.FIFOTYPE)], "'pipe': neither a file"),
    "unknown kind": ([("what", b"", b"Z")], "'what': neither a file"),
    "no name": ([("./", b"1", tarfile.CONTTYPE)], "a name is missing"),
    "long name": ([("a/" * 2100 + "b", b"1")], "more than 4096 bytes"),
    "nothing": ([], "no files in it"),
    "folders only": ([("a", b"", tarfile.DIRTYPE)], "no files in it"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_member_is_refused_by_name(case, tmp_path, tools):
    members, match = HOSTILE[case]
    entries = [tools.entry(*member) for member in members]
    refused(tools.make_tar(entries, form=tarfile.GNU_FORMAT), tmp_path, match)


LEAVES, NO_FILE, NAME = "link outside the tree", "hard link to no file", "unprintable name"
ODD = {
    "absolute symbolic link": ([("l", b"", SYM, "/etc/passwd")], [LEAVES]),
    "symbolic link that climbs out": ([("a/l", b"", SYM, "../../x")], [LEAVES]),
    "two links that climb out together": ([("l", b"", SYM, "t/../x"), ("t", b"", SYM, "..")], [LEAVES] * 2),
    "link through a link": ([("l", b"", SYM, "t/../x"), ("t", b"", SYM, "../y")], [LEAVES] * 2),
    "empty symbolic link": ([("l", b"", SYM, "")], [LEAVES]),
    "symbolic link with a newline": ([("l", b"", SYM, "a\nb")], [LEAVES]),
    "hard link out": ([("h", b"", LINK, "../x")], [NO_FILE]),
    "absolute hard link": ([("h", b"", LINK, "/etc/passwd")], [NO_FILE]),
    "hard link to nothing": ([("h", b"", LINK, "x")], [NO_FILE]),
    "hard link to itself": ([("h", b"", LINK, "h")], [NO_FILE]),
    "hard link to a link that leaves": ([("l", b"", SYM, "/x"), ("h", b"", LINK, "l")], [NO_FILE, LEAVES]),
    "twice": ([("good", b"2")], ["duplicate"]),
    "twice, written otherwise": ([(".//good", b"2")], ["duplicate"]),
    "newline": ([("a\nb", b"1")], [NAME]),
    "escape": ([("a\x1b[2Jb", b"1")], [NAME]),
    "not UTF-8": ([("a\udcff", b"1"), ("b\udcff", b"1")], [NAME] * 2),
    "folder that is not UTF-8": ([("a\udcff", b"", tarfile.DIRTYPE), ("a\udcff/b", b"1")], [NAME]),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_member_is_left_out_and_counted(case, tmp_path, tools, caplog):
    members, reasons = ODD[case]
    entries = [tools.entry("good", b"1"), *(tools.entry(*member) for member in members)]
    facts = pack(tools.make_tar(entries, form=tarfile.GNU_FORMAT), tmp_path / "out")
    assert tools.contents(tmp_path / "out") == {"good": b"1"}
    assert facts["skipped"] == {reason: reasons.count(reason) for reason in reasons}
    assert {reason: len(names) for reason, names in facts["skipped_names"].items()} == facts["skipped"]
    assert caplog.text.count("left out") == len(reasons)
    assert describe(tmp_path / "out") == {**facts, "skipped": {}, "skipped_names": {}}


def test_links_inside_stay_where_others_leave(tmp_path, tools):
    entries = [
        tools.entry("a/b/top", b"", SYM, "../.."),
        tools.entry("l", b"", SYM, "a/b/top/../x"),
        tools.entry("good", b"1"),
    ]
    assert pack(tools.make_tar(entries), tmp_path / "out")["skipped"] == {LEAVES: 1}
    assert tools.contents(tmp_path / "out") == {"a/b/top": "../..", "good": b"1"}


def test_ten_odd_members_are_named_and_the_rest_is_counted(tmp_path, tools, caplog):
    entries = [tools.entry("good", b"1"), *(tools.entry(f"l{n}", b"", SYM, "/x") for n in range(25))]
    assert pack(tools.make_tar(entries), tmp_path / "out")["skipped"] == {LEAVES: 25}
    assert len(caplog.messages) == 11 and caplog.messages[-1].endswith("left out 15 more members")


def test_archive_of_odd_members_alone_is_refused(tmp_path, tools):
    refused(tools.make_tar([tools.entry("l", b"", SYM, "/x")]), tmp_path, "no files in it")


def test_name_with_nul_in_a_pax_record_is_left_out(tmp_path, tools):
    data = tools.make_tar([tools.entry("good", b"1"), tools.entry("a", b"1", pax_headers={"path": "a\0b"})])
    assert pack(data, tmp_path / "out")["skipped"] == {NAME: 1}


def test_links_that_leave_only_once_the_top_folder_is_gone_are_left_out(tmp_path, tools):
    entries = [tools.entry("p-1/x", b""), tools.entry("p-1/l", b"", SYM, "../p-1/x")]
    assert pack(tools.make_tar(entries), tmp_path / "kept")["skipped"] == {}
    assert pack(tools.make_tar(entries), tmp_path / "kept", strip=True)["skipped"] == {LEAVES: 1}


def test_too_many_too_large_and_too_much_are_refused_by_name(tmp_path, tools):
    data = tools.make_tar({"a": b"1" * 10, "b": b"2" * 30, "c": b"3" * 20})
    refused(data, tmp_path, "'c': one more than sources.fetch.max_members, 2", Limits(2, 100, 1000))
    refused(data, tmp_path, "'b': 30 bytes; sources.fetch.max_member_megabytes is 2e-05", Limits(9, 20, 1000))
    refused(data, tmp_path, "'b': the largest of 60 bytes in all; sources.fetch.max_megabytes", Limits(9, 30, 59))
    assert pack(data, tmp_path / "fits", Limits(3, 30, 60))["bytes"] == 60


def test_hard_links_count_with_their_content(tmp_path, tools):
    entries = [tools.entry("a", b"1" * 50), *(tools.entry(f"h{n}", b"", LINK, "a") for n in range(20))]
    refused(tools.make_tar(entries), tmp_path, "the largest of 1050 bytes in all", Limits(99, 100, 1000))


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, bz2.compress, lzma.compress])
def test_bomb_stops_before_it_is_unpacked(compress, tmp_path, monkeypatch):
    unpacked_bytes = 0
    original = decompression.chunks

    def counted(*arguments):
        nonlocal unpacked_bytes
        for data in original(*arguments):
            unpacked_bytes += len(data)
            yield data

    monkeypatch.setattr(decompression, "chunks", counted)
    refused(compress(bytes(40 << 20)), tmp_path, "unpacks to more than", Limits(10, 10**6, 10**6))
    assert unpacked_bytes < 4 << 20


def test_xz_that_wants_much_memory_is_refused(tmp_path, tools, monkeypatch):
    monkeypatch.setattr(decompression, "MAX_MEMORY", 1 << 20)
    refused(tools.make_tar({"a": b"1"}, "w:xz"), tmp_path, "[Mm]emory")


def test_huge_extended_header_is_not_read_into_memory(tmp_path, tools):
    data = tools.make_tar([tools.entry("a", b"1", pax_headers={"comment": "x" * 100_000})])
    refused(data, tmp_path, "an extended header of 1000.. bytes")
    data = tools.make_tar([tools.entry("x" * 100_000, b"1")], form=tarfile.GNU_FORMAT)
    refused(data, tmp_path, "an extended header of 100001 bytes")


def test_endless_chain_of_extended_headers_is_refused(tmp_path):
    header = tarfile.TarInfo.create_pax_global_header({"comment": "x"})
    refused(header * 3000 + bytes(1024), tmp_path, "not a readable tar")


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


def test_folder_is_packed_without_git_and_with_its_inner_links(tmp_path, tools):
    tree = tools.write_tree(tmp_path / "tree", {**tools.FILES, ".git/config": b"x", "sub/.git": b"gitdir: x"})
    (tree / "link").symlink_to("src/b.c")
    pack_folder(tree, tmp_path / "out", FREE)
    assert tools.contents(tmp_path / "out") == {**tools.FILES, "link": "src/b.c"}


def test_odd_members_of_a_folder_are_left_out(tmp_path, tools):
    tree = tools.write_tree(tmp_path / "tree", tools.FILES)
    pin = pack_folder(tree, None, FREE)["sha256"]
    (tree / "out").symlink_to("../secret")
    (tree / os.fsdecode(b"bad\xff")).write_bytes(b"")
    facts = pack_folder(tree, tmp_path / "x", FREE)
    assert facts["skipped"] == {"link outside the tree": 1, "unprintable name": 1}
    assert facts["skipped_names"] == {"link outside the tree": ["out"], "unprintable name": ["bad\\udcff"]}
    assert facts["sha256"] == pin


def test_of_very_many_odd_members_the_manifest_counts_all_and_names_the_first(tmp_path, tools, monkeypatch):
    monkeypatch.setattr(canonical_archive, "MOST_LISTED", 2)
    entries = [tools.entry("good", b"1"), *(tools.entry(f"l{number}", b"", SYM, "/x") for number in range(5))]
    facts = pack(tools.make_tar(entries), tmp_path / "out")
    assert facts["skipped"] == {LEAVES: 5} and facts["skipped_names"] == {LEAVES: ["l0", "l1"]}


def test_folder_with_devices_or_sockets_is_refused(tmp_path, tools, monkeypatch):
    tree = tools.write_tree(tmp_path / "tree", tools.FILES)
    os.mkfifo(tree / "pipe")
    with pytest.raises(UserError, match="'pipe': neither"):
        pack_folder(tree, tmp_path / "x", FREE)
    (tree / "pipe").unlink()
    monkeypatch.chdir(tree)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        with pytest.raises(UserError, match="'sock': neither"):
            pack_folder(tree, tmp_path / "x", FREE)
    (tree / "sock").unlink()
    with pytest.raises(UserError, match="nowhere: no such folder"):
        pack_folder(tmp_path / "nowhere", tmp_path / "x", FREE)
    assert not (tmp_path / "x").exists()


def test_file_that_shrinks_while_it_is_read_is_refused(tmp_path, tools, monkeypatch):
    tree = tools.write_tree(tmp_path / "tree", {"a": b"1" * 100})
    original = canonical_archive.check_members

    def late(*arguments):
        members = original(*arguments)
        (tree / "a").write_bytes(b"1")
        return members

    monkeypatch.setattr(canonical_archive, "check_members", late)
    with pytest.raises(UserError, match="'a': changed while it was read"):
        pack_folder(tree, tmp_path / "out", FREE)


def test_describe_gives_what_packing_gave_and_refuses_another_form(tmp_path, tools):
    facts = pack(tools.make_tar(tools.FILES), tmp_path / "out.tar.zst")
    assert describe(tmp_path / "out.tar.zst") == facts
    (tmp_path / "other.tar.zst").write_bytes(zstandard.compress(tools.make_tar(tools.FILES)))
    with pytest.raises(UserError, match="no archive in canonical form"):
        describe(tmp_path / "other.tar.zst")
    damaged = bytearray((tmp_path / "out.tar.zst").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "out.tar.zst").write_bytes(damaged)
    with pytest.raises(UserError):
        describe(tmp_path / "out.tar.zst")


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path, tools, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
        yield

    monkeypatch.setattr(decompression, "chunks", full)
    with pytest.raises(OSError, match="No space left"):
        pack(zlib.compress(b""), tmp_path / "out")
