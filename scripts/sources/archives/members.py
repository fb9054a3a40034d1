"""The members of a tar or a folder, checked and sorted. All input is treated as untrusted.

Nothing is extracted: a member is named by where its bytes are, and `canonical_archive.py` copies those into a new tar.
So the faults of tarfile's extraction filters (CVE-2024-12718, CVE-2025-4517 and others) cannot occur here; those of
reading a header, such as negative sizes (CVE-2025-8194), are met by `CheckedHeader` and `tar_members`.

What attacks whoever reads an archive, as devices, bombs and paths that leave the tree, refuses it whole. What is only
odd, as a symbolic link or a name that is not UTF-8, is left out and counted.
"""

import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scripts.common.errors import UserError

MAX_HEADER_BYTES = 1 << 16  # of a pax or GNU header, which tarfile reads into memory whole
EXTENDED_HEADERS = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}
SPECIAL_FILE = "neither a file, a folder nor a link, but a device, a fifo or the like"


class Member(NamedTuple):
    """A file, link or folder of a source; `place` is the offset of its bytes in the tar, or its path on disk."""

    name: str
    kind: str  # "file", "symlink", "hardlink" or "folder"
    size: int = 0  # bytes
    target: str = ""
    place: int | Path = 0


class Limits(NamedTuple):
    """The most that a source may hold: members, bytes of one member, bytes in all; and the seconds to fetch it in."""

    members: float = float("inf")
    member_bytes: float = float("inf")
    bytes: float = float("inf")
    seconds: float = float("inf")


LIMITS = Limits(members=200_000, member_bytes=256 * 10**6, bytes=4096 * 10**6, seconds=3600)  # of what is fetched


def member_error(name: str, fault: str) -> UserError:
    return UserError(f"member {name!r:.300}: {fault}")


class CheckedHeader(tarfile.TarInfo):
    """A tar header that bounds the memory it takes and refuses sparse files."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # tarfile's documented entry point for subclasses
        if self.type in EXTENDED_HEADERS and not 0 <= self.size <= MAX_HEADER_BYTES:
            raise member_error(
                self.name, f"an extended header of {self.size} bytes; at most {MAX_HEADER_BYTES} are read"
            )
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        return super()._proc_member(archive)

    def _refuse_sparse(self, following: tarfile.TarInfo | None = None, *_: object) -> None:
        raise member_error((following or self).name, "a sparse file; make the archive without --sparse")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def tar_members(file: BinaryIO) -> Iterator[Member]:
    """Yield the members of an uncompressed tar, in its order. Raises UserError: it is no tar, is damaged or truncated,
    or holds a device, a fifo or a sparse file."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        tar = tarfile.TarFile(fileobj=file, tarinfo=CheckedHeader, encoding="utf-8", errors="surrogateescape")
        end = -1
        while (info := tar.next()) is not None:
            if info.size < 0 or tar.offset <= end:
                raise member_error(info.name, f"damaged header with size {info.size}")
            end = tar.offset
            if info.isreg() and info.offset_data + info.size > length:
                raise member_error(info.name, "the archive ends inside it; fetch it again")
            yield tar_member(info)
            tar.members.clear()  # else a bomb of empty members fills the memory
            tar.pax_headers.clear()
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"not a readable tar: {' '.join(str(error).split())}") from error
    # tarfile stops without an error at a header that it cannot read; only a block of zeros is the true end
    file.seek(tar.offset)
    if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise UserError(f"the archive is damaged or ends early, at byte {tar.offset} of its tar; fetch it again")


def tar_member(info: tarfile.TarInfo) -> Member:
    if info.isreg():
        return Member(info.name, "file", info.size, place=info.offset_data)
    if info.isdir():
        return Member(info.name, "folder")
    if info.issym() or info.islnk():
        return Member(info.name, "symlink" if info.issym() else "hardlink", target=info.linkname)
    raise member_error(info.name, SPECIAL_FILE)


def folder_members(root: Path) -> Iterator[Member]:
    """Yield the members of a folder on disk, without `.git`. Raises UserError: there is no such folder, or it holds a
    device, a fifo or a socket."""
    if not root.is_dir():
        raise UserError(f"{root}: no such folder")
    queue = [""]
    while queue:
        parent = queue.pop()
        with os.scandir(root / parent) as entries:
            for entry in entries:
                if entry.name == ".git":
                    continue
                name, info = parent + entry.name, entry.stat(follow_symlinks=False)
                if stat.S_ISLNK(info.st_mode):
                    yield Member(name, "symlink")
                elif stat.S_ISDIR(info.st_mode):
                    queue.append(f"{name}/")
                elif stat.S_ISREG(info.st_mode):
                    yield Member(name, "file", info.st_size, place=Path(entry.path))
                else:
                    raise member_error(name, SPECIAL_FILE)


MAX_NAME_BYTES = 4096  # PATH_MAX of Linux
# control characters, and what surrogateescape makes of bytes that are not UTF-8
UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def check_members(
    members: Iterable[Member], limits: Limits, strip: bool = False
) -> tuple[list[Member], list[tuple[str, str]]]:
    """The files among `members`, sorted by name; hard links have become files.

    Left out are symbolic links, hard links to no file, duplicates, and members that are too large or have an
    unprintable name.

    Args:
        members: in any order.
        limits: the most that they may amount to.
        strip: remove the one folder that holds everything, as `project-1.0/` of an sdist, from the names.

    Returns:
        The members, and (name, reason) of each one left out.

    Raises:
        UserError: a member's path leaves the tree or runs through a file, or a limit is exceeded.
    """
    by_name, folders, skipped = {}, set(), []
    for number, member in enumerate(members, 1):
        if number > limits.members:
            raise member_error(member.name, f"one more than the {limits.members:,} that a source may have")
        name = normalized_path(member.name)
        if UNPRINTABLE.search(name):
            if member.kind != "folder":
                skipped.append((name, "unprintable name"))
            continue
        if member.kind == "folder":
            folders.add(name)
            continue
        if not name:
            raise member_error(member.name, "a name is missing")
        if member.kind == "symlink":
            skipped.append((name, "symbolic link"))
            continue
        if name in by_name:
            skipped.append((name, "duplicate"))
            continue
        if member.size > limits.member_bytes:
            skipped.append((name, f"larger than {limits.member_bytes / 10**6:g} MB"))
            continue
        by_name[name] = member._replace(name=name)
    by_name = with_linked_files(by_name, skipped)
    tops = {name.partition("/")[0] for name in by_name.keys() | folders if name}
    if strip and len(tops) == 1 and not tops & by_name.keys():
        cut = len(tops.pop()) + 1
        folders = {name[cut:] for name in folders}
        by_name = {name[cut:]: member._replace(name=name[cut:]) for name, member in by_name.items()}
    check_tree(by_name, folders)
    if not by_name:
        raise UserError("no files in it")
    total = sum(member.size for member in by_name.values())
    if total > limits.bytes:
        largest = max(by_name.values(), key=lambda member: member.size).name
        limit = limits.bytes / 10**6
        raise member_error(largest, f"the largest of {total} bytes in all; a source may have {limit:g} MB")
    return [by_name[name] for name in sorted(by_name)], skipped


def normalized_path(path: str) -> str:
    """`path` without `.` and doubled slashes."""
    if len(os.fsencode(path)) > MAX_NAME_BYTES:
        raise member_error(path, f"a name of more than {MAX_NAME_BYTES} bytes")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise member_error(path, "an absolute path" if path.startswith("/") else "`..` in its path")
    return "/".join(parts)


def check_tree(by_name: dict[str, Member], folders: set[str]) -> None:
    """Refuse a member that is also a folder, or that lies below a file."""
    parents = set()
    for name in [*by_name, *folders]:
        while (name := name.rpartition("/")[0]) and name not in parents:
            parents.add(name)
    for name in sorted((folders | parents) & by_name.keys()):
        raise member_error(name, f"both a {by_name[name].kind} and a folder")


def with_linked_files(by_name: dict[str, Member], skipped: list[tuple[str, str]]) -> dict[str, Member]:
    """Each hard link as the file that it points to, under the link's name; those that point to no file are left out.

    A tar writes a file once, and its other names as links to that one.
    """
    files = {}
    for name, member in by_name.items():
        if member.kind == "hardlink":
            target = "/".join(part for part in member.target.split("/") if part not in ("", "."))
            file = by_name.get(target)
            if file is None or file.kind != "file":
                skipped.append((name, "hard link to no file"))
                continue
            member = file._replace(name=name)
        files[name] = member
    return files
