"""What copying gives: near-copies in view, and the lines that a copier repeats."""

import pytest

from scripts.evaluation.code_tasks.copying import copied_answer, near_copy
from scripts.evaluation.code_tasks.task import Task

BEFORE = """def area(width, height):
    if width < 0:
        raise ValueError(f"width {width} is below zero")
    total = width * height
    return total


def volume(width, height, depth):
    if width < 0:
"""
ANSWER = '        raise ValueError(f"width {width} is below 0")\n'
AFTER = "    total = width * height * depth\n    return total\n"


def task(size="line", before=BEFORE, answer=ANSWER, after=AFTER, language="python"):
    start = answer[: len(answer) - len(answer.lstrip(" "))]
    return Task("r/a.py:10-10", size, language, "r", "a.py", before + start, answer.strip(), after)


def test_an_answer_that_stands_in_view_but_for_a_few_characters_is_a_near_copy():
    assert near_copy(task())
    assert near_copy(task(before="", after=BEFORE))
    assert not near_copy(task(answer="        logging.warning(width)\n"))
    both = "first = read(path)\nsecond = write(path)\n"
    assert not near_copy(task(answer=both, before="first = read(path)\nother()\nsecond = write(path)\n", after=""))
    assert near_copy(task(answer=both, before="  first = read(path)\n\n  second = write( path)\n", after=""))


def test_a_copier_repeats_the_lines_after_the_most_similar_place():
    assert copied_answer(task(), BEFORE + "        ", AFTER) == 'raise ValueError(f"width {width} is below zero")'


def test_a_copier_of_a_body_stops_where_the_region_ends():
    body = task(
        "function", answer="    lines = path.read_text()\n", before=BEFORE + "        pass\n\n\ndef area(a, b):\n"
    )
    copied = copied_answer(body, body.before, body.after)
    assert copied.startswith("if width < 0:\n") and copied.endswith("return total") and "def volume" not in copied


def test_a_copier_copies_from_behind_the_answer_and_nothing_out_of_nothing():
    behind = "def volume(w):\n    if width < 0:\n        return None\n    return w\n"
    assert copied_answer(task(before=""), "def volume(w):\n    if width < 0:\n        ", behind) == "return None"
    assert copied_answer(task(), "", "") == "" == copied_answer(task(), "        ", "\n\n")


@pytest.mark.parametrize("size", ["line", "block", "function"])
def test_hostile_text_is_copied_without_an_error(size):
    for text in ("\r\r\n\t\x00", "}" * 500, "\n" * 500, "\ud7ff" * 30):
        for language in ("python", "go"):
            copied_answer(task(size, language=language), text, text)
            near_copy(task(size, before=text, language=language))
