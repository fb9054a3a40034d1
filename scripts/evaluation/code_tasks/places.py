"""Where a file of code is scored: runs of lines spread over the whole file, without licence headers and imports.

    for place in places(text, "source/path.py", Places(per_file=2, lines=20)):
        place       # [41, 42, 43, ..., 61]: numbers of lines, from 0

People write code all over a file. Its first lines are the least like the rest: a licence, a package, imports, which any
copy of another file's head would fill in. So the lines that are left out are found first, in any language by the same
few forms; the others are cut into as many equal parts as there are places, and a hash of the file says where in each
part the place lies.
"""

import re
from collections.abc import Iterator

from scripts.common.text import text_digest
from scripts.experiment.settings.suites import Places

LICENCE = re.compile(r"copyright|licen[cs]e|\(c\)|all rights reserved|spdx-", re.IGNORECASE)
# What begins a comment of one line, and what begins and ends one of several, in the languages that are read.
COMMENT = re.compile(r"#(?!\s*(?:include|define|if|pragma|import)\b)|//|--|;|%|\*|dnl\b")
BLOCKS = {"/*": "*/", '"""': '"""', "'''": "'''", "<!--": "-->", "{-": "-}", "(*": "*)", "=begin": "=end", "--[[": "]]"}
IMPORT = re.compile(
    r"""\s*(?:
      (?:import|package|module|namespace)\s+[\w.*{"'(@<$]   # Python, Java, Kotlin, Go, TypeScript, Swift, Haskell, C#
    | import\s*[({"']                                  # Go's and JavaScript's blocks
    | from\s+[\w.]+\s+import\b
    | (?:public\s+|global\s+)?using\s+[\w.= <>,:]+;
    | (?:pub(?:\(\w+\))?\s+)?(?:use|mod)\s+[\w:\\{*]+[^=]*[;{,]?$   # Rust, PHP, Perl
    | extern\s+crate\b
    | \#\s*(?:include|import|pragma\s+once)\b
    | (?:require|require_once|require_relative|include|include_once|load|source)\s*\(?\s*["']
    | (?:const|let|var|local)\s+[\w{},:\s]+=\s*require\b
    | export\s+(?:\*|\{[^}]*\})\s+from\b
    | \#!
    )""",
    re.VERBOSE,
)
LONGEST_IMPORT = 200  # lines


def comment_blocks(lines: list[str]) -> Iterator[range]:
    """The comments before the first line of code, each a run of lines without an empty one between."""
    first, closing = 0, ""
    for number, line in enumerate(lines):
        stripped = line.strip()
        if closing:
            if closing in stripped:
                closing = ""
            continue
        if not stripped:
            if number > first:
                yield range(first, number)
            first = number + 1
            continue
        opening = next((mark for mark in BLOCKS if stripped.startswith(mark)), None)
        if opening:
            if BLOCKS[opening] not in stripped[len(opening) :]:
                closing = BLOCKS[opening]
        elif not COMMENT.match(stripped):
            if number > first:
                yield range(first, number)
            return
    if len(lines) > first:
        yield range(first, len(lines))


def left_out(lines: list[str]) -> set[int]:
    """The numbers of the lines of a licence header, and of imports."""
    numbers = set()
    for block in comment_blocks(lines):
        if LICENCE.search("\n".join(lines[number] for number in block)):
            numbers.update(block)
    ends_after = -1  # the last line of the import that was begun
    for number, line in enumerate(lines):
        if number > ends_after and IMPORT.match(line):
            ends_after = last_line_of(lines, number)
        if number <= ends_after:
            numbers.add(number)
    return numbers


def last_line_of(lines: list[str], first: int) -> int:
    """The line on which the brackets are closed that an import opens."""
    depth = 0
    for number in range(first, min(first + LONGEST_IMPORT, len(lines))):
        depth += sum(lines[number].count(mark) for mark in "({") - sum(lines[number].count(mark) for mark in ")}")
        if depth <= 0:
            return number
    return first


def places(text: str, name: str, settings: Places) -> list[list[int]]:
    """The numbers of the lines of each place, in the order of the file; none of a file that has nothing but a licence
    and imports. `name`: `source/path`."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    skipped = left_out(lines)
    kept = [number for number in range(len(lines)) if number not in skipped]
    while kept and not lines[kept[0]].strip():
        kept.pop(0)
    found = []
    for part in range(settings.per_file):
        low, high = part * len(kept) // settings.per_file, (part + 1) * len(kept) // settings.per_file
        size = min(settings.lines, high - low)
        digest = text_digest(f"{name}\n{part}\n{text}")
        start = low + int.from_bytes(digest[:8]) % (high - low - size + 1)
        if size:
            found.append(kept[start : start + size])
    return found


def spans(text: str, chosen: list[list[int]]) -> list[tuple[int, int]]:
    """(first character, end) of each run of neighbouring lines of the places, with the line end."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    numbers = sorted({number for place in chosen for number in place})
    found: list[tuple[int, int]] = []
    for number in numbers:
        start, end = starts[number], min(starts[number + 1], len(text))
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found
