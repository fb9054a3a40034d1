"""Members that are refused, or left out and counted: links that leave the tree, devices, duplicates, odd names."""

import tarfile

import pytest

from scripts.sources.archives import canonical_archive
from scripts.sources.archives.canonical_archive import describe
from tests.sources.archives.packing import LINK, SYM, pack, refused

HOSTILE = {
    "absolute path": ([("/etc/passwd", b"x")], "'/etc/passwd': an absolute path"),
    "parent folder": ([("a/../../x", b"x")], r"'a/../../x': `\.\.` in its path"),
    "parent folder as a folder": ([("a", b""), ("../b", b"", tarfile.DIRTYPE)], r"'\.\./b'"),
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


LINKS, NO_FILE, NAME = "symbolic link", "hard link to no file", "unprintable name"
ODD = {
    "absolute symbolic link": ([("l", b"", SYM, "/etc/passwd")], [LINKS]),
    "symbolic link inside": ([("a/l", b"", SYM, "../good")], [LINKS]),
    "hard link out": ([("h", b"", LINK, "../x")], [NO_FILE]),
    "absolute hard link": ([("h", b"", LINK, "/etc/passwd")], [NO_FILE]),
    "hard link to nothing": ([("h", b"", LINK, "x")], [NO_FILE]),
    "hard link to itself": ([("h", b"", LINK, "h")], [NO_FILE]),
    "hard link to a link": ([("l", b"", SYM, "/x"), ("h", b"", LINK, "l")], [NO_FILE, LINKS]),
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


def test_ten_odd_members_are_named_and_the_rest_is_counted(tmp_path, tools, caplog):
    entries = [tools.entry("good", b"1"), *(tools.entry(f"l{n}", b"", SYM, "/x") for n in range(25))]
    assert pack(tools.make_tar(entries), tmp_path / "out")["skipped"] == {LINKS: 25}
    assert len(caplog.messages) == 11 and caplog.messages[-1].endswith("left out 15 more members")


def test_of_very_many_odd_members_the_manifest_counts_all_and_names_the_first(tmp_path, tools, monkeypatch):
    monkeypatch.setattr(canonical_archive, "MOST_LISTED", 2)
    entries = [tools.entry("good", b"1"), *(tools.entry(f"l{number}", b"", SYM, "/x") for number in range(5))]
    facts = pack(tools.make_tar(entries), tmp_path / "out")
    assert facts["skipped"] == {LINKS: 5} and facts["skipped_names"] == {LINKS: ["l0", "l1"]}
