"""The regions of a file that a model may be asked to write, in each language, and where its text for one ends."""

import pytest

from scripts.evaluation.code_tasks.answers import region_end
from scripts.evaluation.code_tasks.regions import cut, regions

PYTHON = '''import os


def area(shape, unit):
    """What it says.

    More of it."""
    if shape.round:
        radius = shape.size / 2
        # not a statement
        return 3.14 * radius * radius
    if unit: return shape.size
    for part in shape.parts:
        total = {"}": area(part, unit)}
        print("}", total)

    return total


top = area(None, 1)
other = area(top, 2)
'''
JAVA = """class Shape {
    int size = sizeOf(1);

    Shape(int size) {
        this.size = size;
        this.check("}");
    }

    int area(int unit) {
        while (unit > 0) {
            unit = unit - 1; // }
            total += unit * unit;
        }
        return total * size;
    }
}
"""
GO = """package shapes

func (s *Shape) Area(unit int) int {
	if unit > 0 {
		total := unit * unit
		return total * s.size
	}
	s.draw('}', `}`)
	return s.size * unit
}
"""
RUST = """impl<'a> Shape<'a> {
    fn area(&'a self, unit: u32) -> u32 {
        for part in self.parts.iter() {
            let total: &'a str = part.name('}');
            self.draw(total, unit);
        }
        self.size * unit
    }
}
"""
CPP = """#include <vector>

int Shape::area(int unit) {
    for (auto part : parts) {
        total += part.area(unit);
        /* } */ draw(total);
    }
    return total * unit;
}
"""
FILES = {
    "python": (
        PYTHON,
        {
            ("function", 7, 16),
            ("line", 8, 8),
            ("line", 10, 10),
            ("line", 11, 11),
            ("line", 13, 13),
            ("line", 14, 14),
            ("line", 16, 16),
        },
    ),
    "java": (
        JAVA,
        {
            ("function", 4, 5),
            ("function", 9, 13),
            ("line", 4, 4),
            ("line", 5, 5),
            ("line", 11, 11),
            ("line", 13, 13),
        },
    ),
    "go": (
        GO,
        {("function", 3, 8), ("line", 4, 4), ("line", 5, 5), ("line", 7, 7), ("line", 8, 8)},
    ),
    "rust": (
        RUST,
        {("function", 2, 6), ("line", 3, 3), ("line", 4, 4), ("line", 6, 6)},
    ),
    "cpp": (
        CPP,
        {("function", 3, 7), ("line", 4, 4), ("line", 7, 7)},
    ),
}


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("language", FILES)
def test_the_parts_around_a_region_add_up_to_the_file_and_the_files_own_text_ends_with_the_region(language, line_end):
    text, expected = FILES[language]
    text = text.replace("\n", line_end)
    assert {(region.size, region.first, region.last) for region in regions(text, language)} == expected
    for region in regions(text, language):
        before, answer, after = cut(text, region)
        assert before + answer + after == text
        indentation = before.rpartition("\n")[2]
        assert not indentation.strip() and answer.strip() == answer and after.startswith(line_end)
        end = region_end(region.size, language, indentation, answer + after)
        # what follows a block inside its closing brace is white space or a comment
        assert (answer + after)[:end].rstrip() == answer, region
        assert region_end(region.size, language, indentation, answer) is None


def test_files_that_do_not_parse_are_too_long_or_have_lone_carriage_returns_have_no_region():
    assert regions("int main( { this ] is no { code )\n" * 5, "cpp") == []
    assert regions(PYTHON.replace("\n", "\r"), "python") == []
    assert regions(PYTHON.replace("What it", "What\rit"), "python") == []
    assert not any(region.size == "function" for region in regions(PYTHON, "python", max_lines=9))


def test_an_open_brace_of_the_completion_itself_does_not_end_it():
    text = "if (a) {\n        b();\n    }\n    c();\n}\nnext"
    assert text[: region_end("function", "java", "    ", text)] == "if (a) {\n        b();\n    }\n    c();\n"


def test_an_empty_line_does_not_end_python_code_and_a_dedent_does():
    text = "a = 1\n\n    b = 2\nc = 3\n"
    assert text[: region_end("function", "python", "    ", text)] == "a = 1\n\n    b = 2\n"
