"""Find where the answer to a task also occurs: in the rest of its file, or in a training document.

    answers = Answers({7: "a = f(x)\\nreturn a"})
    answers.occurring_in("  a = f(x)\\n\\n  return a\\n")     # {7}
    in_training(tasks, Path("results/corpus/compose"), ["code"], "completion tasks")     # {0, 7}

Lines are compared without indentation, and empty lines are left out, so that moved or indented code is found too.
"""

from collections import defaultdict
from pathlib import Path

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.evaluation.code_tasks.answers import Task
from scripts.evaluation.generation.examples import text_of
from scripts.experiment.layout import split_file


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
