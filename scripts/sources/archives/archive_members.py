"""What a source may hold: the members of a tar or a folder, checked and in one order. All input is hostile.

Nothing is extracted: members are named by where their bytes lie, and `archive.py` copies those into a new tar. So the
flaws of tarfile's extraction filters (CVE-2024-12718, CVE-2025-4517 and others) have no ground here; those of reading
a header, such as sizes below zero (CVE-2025-8194), are met by `Header` and `tar_members`.
"""

import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scripts.common.cli import UserError

LONGEST_NAME = 4096  # bytes; PATH_MAX of Linux
LONGEST_HEADER = 1 << 16  # bytes of a pax or GNU header that tarfile reads into memory whole
MOST_HOPS = 40  # symbolic links that Linux follows in one path before it gives up (ELOOP)
# control characters, and what surrogateescape makes of bytes that are not UTF-8
UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
EXTENDED = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}


class Member(NamedTuple):
    """A file, link or folder of a source; `place` is the offset of its bytes in the tar, or its path on disk."""

    name: str
    kind: str  # "file", "symlink", "hardlink" or "folder"
    size: int = 0  # bytes
    target: str = ""
    place: int | Path = 0


class Limits(NamedTuple):
    """The most that a source may hold: members, bytes of one, bytes of all."""

    members: float = float("inf")
    member_bytes: float = float("inf")
    bytes: float = float("inf")

    @classmethod
    def of(cls, settings: dict) -> "Limits":
        """From the settings `sources.fetch`; a megabyte is 10^6 bytes."""
        return cls(settings["max_members"], settings["max_member_megabytes"] * 10**6, settings["max_megabytes"] * 10**6)


def refuse(name: str, why: str) -> UserError:
    return UserError(f"member {name!r:.300}: {why}")


class Header(tarfile.TarInfo):
    """A tar header that keeps memory bounded and knows no sparse files."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # tarfile's documented entry point for subclasses
        if self.type in EXTENDED and not 0 <= self.size <= LONGEST_HEADER:
            raise refuse(self.name, f"an extended header of {self.size} bytes; at most {LONGEST_HEADER} are read")
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        return super()._proc_member(archive)

    def _refuse_sparse(self, following: tarfile.TarInfo | None = None, *_: object) -> None:
        raise refuse((following or self).name, "a sparse file; make the archive without --sparse")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def tar_members(file: BinaryIO) -> Iterator[Member]:
    """Yield the members of an uncompressed tar, in its order.

    Raises:
        UserError: it is no tar, is damaged or ends early, or holds a device, a fifo or a sparse file.
    """
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        tar = tarfile.TarFile(fileobj=file, tarinfo=Header, encoding="utf-8", errors="surrogateescape")
        end = -1
        while (info := tar.next()) is not None:
            if info.size < 0 or tar.offset <= end:
                raise refuse(info.name, f"damaged header with size {info.size}")
            end = tar.offset
            if info.isreg() and info.offset_data + info.size > length:
                raise refuse(info.name, "the archive ends inside it; fetch it anew")
            yield member_of(info)
            tar.members.clear()  # else a bomb of empty members fills the memory
            tar.pax_headers.clear()
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"not a readable tar: {' '.join(str(error).split())}") from error
    # tarfile ends without a word at a header that it cannot read; only a block of zeros is the true end
    file.seek(tar.offset)
    if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise UserError(f"the archive is damaged or ends early, at byte {tar.offset} of its tar; fetch it anew")


def member_of(info: tarfile.TarInfo) -> Member:
    if info.isreg():
        return Member(info.name, "file", info.size, place=info.offset_data)
    if info.isdir():
        return Member(info.name, "folder")
    if info.issym() or info.islnk():
        return Member(info.name, "symlink" if info.issym() else "hardlink", target=info.linkname)
    raise refuse(info.name, "neither a file, a folder nor a link, but a device, a fifo or the like")


def folder_members(root: Path) -> Iterator[Member]:
    """Yield the members of a folder on disk, `.git` left out.

    Raises:
        UserError: there is no such folder, or it holds a device, a fifo or a socket.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such folder")
    queue = [""]
    while queue:
        above = queue.pop()
        with os.scandir(root / above) as entries:
            for entry in entries:
                if entry.name == ".git":
                    continue
                name, info = above + entry.name, entry.stat(follow_symlinks=False)
                if stat.S_ISLNK(info.st_mode):
                    yield Member(name, "symlink", target=str(Path(entry.path).readlink()))
                elif stat.S_ISDIR(info.st_mode):
                    queue.append(f"{name}/")
                elif stat.S_ISREG(info.st_mode):
                    yield Member(name, "file", info.st_size, place=Path(entry.path))
                else:
                    raise refuse(name, "neither a file, a folder nor a link, but a device, a fifo or the like")


def checked(members: Iterable[Member], limits: Limits, strip: bool = False) -> list[Member]:
    """The files and symbolic links among `members`, sorted by name; hard links have become files.

    Args:
        members: in any order.
        limits: what they may amount to.
        strip: take the one folder that holds everything, as `project-1.0/` of an sdist, off the names.

    Raises:
        UserError: a member has a name or a target that leaves the tree, is there twice, or exceeds a limit.
    """
    found, folders = {}, set()
    for number, member in enumerate(members, 1):
        if number > limits.members:
            raise refuse(member.name, f"one more than sources.fetch.max_members, {limits.members}")
        name = plain(member.name, member.name)
        if member.kind == "folder":
            folders.add(name)
            continue
        if not name or name in found:
            raise refuse(member.name, "there twice" if name else "a name is missing")
        if member.size > limits.member_bytes:
            most = limits.member_bytes / 10**6
            raise refuse(name, f"{member.size} bytes; sources.fetch.max_member_megabytes is {most:g}")
        found[name] = member._replace(name=name)
    if not found:
        raise UserError("no files in it")
    found = {name: linked(member, found) if member.kind == "hardlink" else member for name, member in found.items()}
    tops = {name.partition("/")[0] for name in found.keys() | folders if name}
    if strip and len(tops) == 1 and not tops & found.keys():
        cut = len(tops.pop()) + 1
        folders = {name[cut:] for name in folders}
        found = {name[cut:]: member._replace(name=name[cut:]) for name, member in found.items()}
    check_tree(found, folders)
    links = {name: member.target for name, member in found.items() if member.kind == "symlink"}
    for name in links:
        check_symlink(name, links)
    total = sum(member.size for member in found.values())
    if total > limits.bytes:
        largest = max(found.values(), key=lambda member: member.size).name
        most = limits.bytes / 10**6
        raise refuse(largest, f"the largest of {total} bytes in all; sources.fetch.max_megabytes is {most:g}")
    return [found[name] for name in sorted(found)]


def plain(path: str, name: str) -> str:
    """`path` without `.` and doubled slashes; refuses what leaves the tree or cannot stand in a line."""
    if UNFIT.search(path):
        raise refuse(name, "control characters, or bytes that are not UTF-8, in its name")
    if len(path.encode()) > LONGEST_NAME:
        raise refuse(name, f"a name of more than {LONGEST_NAME} bytes")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise refuse(name, "an absolute path" if path.startswith("/") else "`..` in its path")
    return "/".join(parts)


def check_tree(found: dict[str, Member], folders: set[str]) -> None:
    """Refuse a member that is also a folder, or that lies below a file or a link."""
    seen = set()
    for name in [*found, *folders]:
        while (name := name.rpartition("/")[0]) and name not in seen:
            seen.add(name)
    for name in sorted((folders | seen) & found.keys()):
        raise refuse(name, f"both a {found[name].kind} and a folder")


def check_symlink(name: str, links: dict[str, str]) -> None:
    """Follow a symbolic link through the others, as the kernel would, and refuse it where it leaves the tree."""
    here, ahead, hops = name.split("/"), [], 0
    while True:
        target = links.get("/".join(here))
        if target is not None:
            hops += 1
            if hops > MOST_HOPS:
                return  # a loop: it leads nowhere, hence not outside
            if not target or target.startswith("/") or UNFIT.search(target) or len(target) > LONGEST_NAME:
                raise refuse(name, f"a symbolic link to {target!r:.300}; only relative paths inside the tree may stand")
            here.pop()
            ahead += reversed(target.split("/"))
        if not ahead:
            return
        part = ahead.pop()
        if part == ".." and not here:
            raise refuse(name, f"a symbolic link to {links[name]!r:.300}, outside the tree")
        if part == "..":
            here.pop()
        elif part not in ("", "."):
            here.append(part)


def linked(member: Member, found: dict[str, Member]) -> Member:
    """The file that a hard link stands for, under the link's name."""
    file, hops = member, 0
    while file is not None and file.kind == "hardlink" and hops < MOST_HOPS:
        file, hops = found.get(plain(file.target, member.name)), hops + 1
    if file is None or file.kind != "file":
        raise refuse(member.name, f"a hard link to {member.target!r:.300}, which is no file of the archive")
    return file._replace(name=member.name)
