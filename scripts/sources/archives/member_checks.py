"""Check and sort the members of a source.

What attacks whoever reads an archive, as devices, bombs and paths that leave the tree, refuses it whole. What is only
odd, as a symbolic link or a name that is not UTF-8, is left out and counted.
"""

import os
import re
from collections.abc import Iterable

from scripts.common.errors import UserError
from scripts.sources.archives.archive_members import Limits, Member, member_error

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
