"""Regions of a source file that a model is asked to write: a line, or the body of a function.

    regions(text, "python")     # [Region("function", 4, 9), Region("line", 5, 5), ...]
    region_end("line", "python", "    ", "x = 1\\nreturn x")     # 5: where a generated continuation leaves the region

A region is a run of whole lines: what stands before it ends with the indentation of its first line. `line` is a
statement on a line of its own inside a function, `function` all statements of a function but its docstring. Where there
is no grammar for a language, a `line` is an indented line that is no comment.

What a model writes leaves a line at its line end. It leaves a body in Python before the first line that is
indented less than its first one, in languages with braces before the one that closes it; braces in strings and comments
do not count.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tree_sitter import Node

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.corpus.instruct.grammars import statements, tree
from scripts.evaluation.code_tasks.answers import Task
from scripts.evaluation.code_tasks.places import COMMENT, left_out
from scripts.evaluation.generation.examples import text_of
from scripts.experiment.layout import split_file
from scripts.languages import Completion, completions

# A line with less text says little: `return x`, `i += 1`.
LINE_CHARACTERS = (10, 200)


class Region(NamedTuple):
    """Lines `first` to `last` (from 0, both included) of a file."""

    size: str  # `line` or `function`
    first: int
    last: int


class Parts(NamedTuple):
    """A file cut at a region: `before + answer + after` is the file."""

    before: str
    answer: str
    after: str


def bodies(root: Node, rules: Completion) -> Iterator[tuple[Node, bool]]:
    """(body, whether it is a function's) of every body inside a function, in the order of the text."""
    nodes = [(root, False)]
    while nodes:
        node, in_function = nodes.pop()
        if node.type in rules.bodies:
            of_function = node.parent.type in rules.functions
            in_function = in_function or of_function
            if in_function:
                yield node, of_function
        nodes += [(child, in_function) for child in reversed(node.named_children)]


def whole_lines(first: Node, last: Node, lines: list[str]) -> bool:
    """Whether nothing else stands on the first line before `first` and on the last line behind `last`."""
    start, end = lines[first.start_point.row].encode(), lines[last.end_point.row].encode()
    return not start[: first.start_point.column].strip() and end[last.end_point.column :].strip() in (b"", b";")


def lines_without_grammar(text: str) -> list[Region]:
    """The lines of code of a file in any language, by their form: indented, no comment, and no part of a licence or an
    import."""
    lines, found = text.split("\n"), []
    skipped = left_out(lines)
    low, high = LINE_CHARACTERS
    for row, line in enumerate(lines):
        stripped = line.strip()
        indented = line[:1] in (" ", "\t")
        if indented and row not in skipped and low <= len(stripped) <= high and not COMMENT.match(stripped):
            found.append(Region("line", row, row))
    return found


def regions(text: str, language: str, max_lines: int = 20) -> list[Region]:
    """The regions of a file, each once; none if too much of it does not parse. Of a language without a grammar they are
    lines alone. `max_lines`: most lines of a function; it has at least two."""
    if "\r" in text.replace("\r\n", "\n"):
        return []
    if language not in completions():
        return lines_without_grammar(text)
    root, lines, all_regions = tree(text, language), text.split("\n"), {}
    if root is None:
        return []
    for body, of_function in bodies(root, completions()[language]):
        body_statements = [node for node in statements(body, language, of_function) if not node.has_error]
        for node in body_statements:
            row = node.start_point.row
            low, high = LINE_CHARACTERS
            if node.end_point.row == row and whole_lines(node, node, lines) and low <= len(lines[row].strip()) <= high:
                all_regions[Region("line", row, row)] = True
        if not of_function or not body_statements or not whole_lines(body_statements[0], body_statements[-1], lines):
            continue
        first, last = body_statements[0].start_point.row, body_statements[-1].end_point.row
        if 2 <= last - first + 1 <= max_lines:
            all_regions[Region("function", first, last)] = True
    return list(all_regions)


def cut(text: str, region: Region) -> Parts:
    """The file cut at a region."""
    lines = text.split("\n")
    first = lines[region.first]
    indentation = first[: len(first) - len(first.lstrip())]
    before = "".join(f"{line}\n" for line in lines[: region.first]) + indentation
    answer = "\n".join(lines[region.first : region.last + 1])[len(indentation) :].removesuffix("\r")
    return Parts(before, answer, text[len(before) + len(answer) :])


def code_lines(text: str) -> list[str]:
    """The lines of a text without indentation; empty ones are left out."""
    return [line.strip() for line in text.split("\n") if line.strip()]


class Answers:
    """Answers, searched for in many texts. `answers`: number → text with at least one line that is not empty."""

    def __init__(self, answers: dict[int, str]):
        self.by_first_line = defaultdict(list)  # first line → (number, lines)
        for number, answer in answers.items():
            lines = code_lines(answer)
            self.by_first_line[lines[0]].append((number, lines))

    def occurring_in(self, text: str) -> set[int]:
        """The numbers of the answers whose lines stand in a text, one directly after the other."""
        lines, numbers = code_lines(text), set()
        for place, line in enumerate(lines):
            for number, answer in self.by_first_line.get(line, ()):
                if lines[place : place + len(answer)] == answer:
                    numbers.add(number)
        return numbers


def in_training(tasks: list[Task], datasets: Path, train: list[str], label: str) -> set[int]:
    """The indices of the tasks whose answers occur in a training document. Raises UserError: a dataset does not match
    its manifest."""
    answers, overlapping = Answers({number: task.answer for number, task in enumerate(tasks)}), set()
    counts = {dataset: read_manifest(datasets / dataset)["examples"]["train"] for dataset in train}
    progress = Progress(label, "training examples", sum(counts.values()))
    for dataset in train:
        for example in read_jsonl(split_file(datasets / dataset, "train")):
            overlapping |= answers.occurring_in(text_of(example))
            progress.add()
    progress.end()
    return overlapping
