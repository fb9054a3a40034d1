"""Find where the answer to a task also occurs: in the rest of its file, or in a training document.

    answers = Answers({7: "a = f(x)\\nreturn a"})
    answers.occurring_in("  a = f(x)\\n\\n  return a\\n")     # {7}

Lines are compared without indentation, and empty lines are left out, so that moved or indented code is found too.
"""

from collections import defaultdict


def code_lines(text: str) -> list[str]:
    """The lines of a text without indentation; empty ones are left out."""
    return [line for full in text.split("\n") if (line := full.strip())]


class Answers:
    """Answers by number, searched for in many texts.

    Args:
        answers: number → text with at least one line that is not empty.
    """

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
