"""Where the lines of an answer occur in a row at any indentation, against a plain search."""

import random

from scripts.evaluation.code_tasks.regions import Answers


def test_the_occurrences_are_those_that_a_plain_search_of_the_joined_lines_finds():
    drawn = random.Random(0)
    for _ in range(300):
        text = [drawn.choice("abc") for _ in range(12)]
        answers = {number: [drawn.choice("abc") for _ in range(drawn.randint(1, 4))] for number in range(6)}
        expected = {number for number, answer in answers.items() if "".join(answer) in "".join(text)}
        spread = "\n".join(drawn.choice(["", "\n", "  "]) + drawn.choice(["", "\t"]) + line for line in text)
        assert (
            Answers({number: "\n".join(answer) for number, answer in answers.items()}).occurring_in(spread) == expected
        )
