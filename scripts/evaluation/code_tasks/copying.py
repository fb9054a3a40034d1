"""What copying gives: whether an answer nearly stands in view already, and the answer that a copier would write.

    near_copy(task)                             # True: 0.9 of it stands in the rest of the file
    copied_answer(task, prefix, suffix)         # the lines after the place that looks most like the end of the prefix

A model that fills in code may simply repeat what stands around it. Tasks that this solves measure nothing else, and on
the others a model should do better than the copier (its similarity is `copy_similarity` of suite `completion`).
"""

from rapidfuzz import fuzz

from scripts.evaluation.code_tasks.occurrences import code_lines
from scripts.evaluation.code_tasks.regions import region_end
from scripts.evaluation.code_tasks.task import Task

NEAR = 90  # rapidfuzz's ratio, of 100, from which lines are a near-copy
LOOKED_AT = 4  # lines at the end of the prefix whose like is searched
LONGEST = 200  # lines that are copied at most


def near_copy(task: Task) -> bool:
    """Whether as many lines in a row of the rest of the file are nearly the answer."""
    answer = code_lines(task.answer)
    wanted = "\n".join(answer)
    for text in (task.before, task.after):
        lines = code_lines(text)
        for place in range(len(lines) - len(answer) + 1):
            if fuzz.ratio("\n".join(lines[place : place + len(answer)]), wanted, score_cutoff=NEAR):
                return True
    return False


def copied_answer(task: Task, prefix: str, suffix: str) -> str:
    """The lines that follow the place in view most like the end of the prefix, up to the end of the task's region.

    Args:
        prefix, suffix: what a model sees before and behind the answer.
    """
    start = prefix.rpartition("\n")[2]  # of the answer's own first line, mostly its indentation
    before, behind = prefix.split("\n")[:-1], suffix.split("\n")
    end = [line.strip() for line in before if line.strip()][-LOOKED_AT:]
    best, copy = -1.0, ""
    for lines in (before, behind):
        stripped = [line.strip() for line in lines]
        filled = [number for number, line in enumerate(stripped) if line]
        for count, number in enumerate(filled[:-1]):
            likeness = 0.0
            for back, line in enumerate(reversed(end)):  # the nearest line counts most
                if back <= count:
                    likeness += fuzz.ratio(stripped[filled[count - back]], line) / 2**back
            if likeness > best:
                best, copy = likeness, "\n".join(lines[number + 1 : number + 1 + LONGEST]).lstrip("\n")
    copy = copy.removeprefix(start) if copy.startswith(start) else copy.lstrip(" \t")
    length = region_end(task.size, task.language, start, copy)
    return copy[:length].rstrip()
