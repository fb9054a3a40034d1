"""scripts/sources/archives/canonical_archive.py: equal bytes for equal content, out of a tar or a folder."""

import gzip
import hashlib
import io
import os
import socket
import subprocess
import tarfile
import zlib

import pytest
import zstandard

from scripts.common.errors import UserError
from scripts.sources.archives import canonical_archive
from scripts.sources.archives.canonical_archive import describe, pack_folder
from tests.sources.archives.packing import FREE, pack


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


def test_folder_is_packed_without_git(tmp_path, tools):
    tree = tools.write_tree(tmp_path / "tree", {**tools.FILES, ".git/config": b"x", "sub/.git": b"gitdir: x"})
    pack_folder(tree, tmp_path / "out", FREE)
    assert tools.contents(tmp_path / "out") == tools.FILES


def test_odd_members_of_a_folder_are_left_out(tmp_path, tools):
    tree = tools.write_tree(tmp_path / "tree", tools.FILES)
    pin = pack_folder(tree, None, FREE)["sha256"]
    (tree / "out").symlink_to("../secret")
    (tree / os.fsdecode(b"bad\xff")).write_bytes(b"")
    facts = pack_folder(tree, tmp_path / "x", FREE)
    assert facts["skipped"] == {"symbolic link": 1, "unprintable name": 1}
    assert facts["skipped_names"] == {"symbolic link": ["out"], "unprintable name": ["bad\\udcff"]}
    assert facts["sha256"] == pin


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


def test_describe_returns_the_facts_of_packing_and_refuses_an_archive_in_another_form(tmp_path, tools):
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


def test_a_full_disk_is_not_reported_as_a_fault_of_the_archive(tmp_path, tools, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
        yield

    monkeypatch.setattr(canonical_archive, "chunks", full)
    with pytest.raises(OSError, match="No space left"):
        pack(zlib.compress(b""), tmp_path / "out")
