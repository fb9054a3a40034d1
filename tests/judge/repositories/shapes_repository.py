"""A repository of a few functions with tests, and its archive."""

from pathlib import Path

from scripts.sources.archives.archive_members import Limits
from scripts.sources.archives.canonical_archive import pack_folder

MODULE = '''"""Shapes."""

import dataclasses

MISSING = object()


@dataclasses.dataclass
class Box:
    width: int
    height: int
    seen: list = dataclasses.field(default_factory=list)

    def grow(self, by, note=MISSING):
        """Make it larger, in place."""
        self.width += by
        self.height += by
        if note is not MISSING:
            self.seen.append(note)
        return self

    def area(self):
        size = self.width * self.height
        return size


def mapped(function, values):
    """The result of a function for each value, one by one."""
    for value in values:
        yield function(value)


def nothing(value):
    value = None
    return value


def same(value):
    kept = value
    return kept


def printed(value):
    text = f"<{value}>"
    print(text)


def counted(value):
    global COUNT
    COUNT = value


def uncovered(value):
    other = value
    return other


async def later(value):
    other = value
    return other


def lengthy(value):
    a = value
    b = a
    c = b
    d = c
    e = d
    return e
'''
TESTS = """import itertools
import random

import pytest

import shapes
from shapes import Box, mapped


class Local:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("by", [1, 2])
def test_grow(by):
    box = Box(2, 3)
    assert box.grow(by) is box
    assert (box.width, box.height, box.seen) == (2 + by, 3 + by, [])
    assert box.grow(1, "more").seen == ["more"]


def test_area():
    assert Box(2, 3).area() == 6
    with pytest.raises(TypeError):
        Box(None, 3).area()


def test_mapped():
    numbers = mapped(lambda value: value + 1, itertools.count())
    assert [next(numbers), next(numbers)] == [1, 2]
    assert [one.value for one in mapped(Local, "ab")] == ["a", "b"]


def test_nothing():
    assert shapes.nothing(3) is None


def test_same():
    assert shapes.same(3) == 3


def test_printed(capsys):
    shapes.printed(3)
    assert capsys.readouterr().out == "<3>\\n"


def test_counted():
    shapes.counted(3)


def test_lengthy():
    assert shapes.lengthy(1) == 1


def test_that_fails():
    assert shapes.lengthy(1) == 2
"""
FILES = {"src/shapes/__init__.py": MODULE, "tests/test_shapes.py": TESTS}


def archive(folder: Path, files: dict[str, str] | None = None) -> Path:
    """The archive of a repository with these files, by default of the shapes."""
    for path, text in (files or FILES).items():
        (folder / "files" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / path).write_text(text)
    pack_folder(folder / "files", folder / "made.tar.zst", Limits())
    return folder / "made.tar.zst"
