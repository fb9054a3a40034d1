"""The prompt of a task, and where an answer to it ends.

prompt_of(task, settings, with_context=False)     # Infill("...def f(a):\\n    ", "\\n\\ndef g...")
end_of(task, "return a\\n\\ndef h(): ...")          # 9
"""

from scripts.evaluation.code_tasks.region_end import region_end
from scripts.evaluation.code_tasks.task import Task
from scripts.evaluation.generation.transformers_engine import Infill, Prompt
from scripts.experiment.settings.generation import InPlace


def last_lines(text: str, characters: int) -> str:
    """The last lines of a text, with at most this many characters."""
    return text if len(text) <= characters else text[-characters:].partition("\n")[2]


def first_lines(text: str, characters: int) -> str:
    """The first lines of a text, with at most this many characters."""
    return text if len(text) <= characters else text[:characters].rpartition("\n")[0]


def prompt_of(task: Task, settings: InPlace, with_context: bool) -> Prompt:
    """The file around the answer; with fill-in-the-middle two thirds of the characters are from before the answer."""
    context = task.context if with_context else ""
    if settings.form == "plain":
        return context + last_lines(task.before, settings.prompt_characters)
    behind = settings.prompt_characters // 3
    before = last_lines(task.before, settings.prompt_characters - behind)
    return Infill(context + before, first_lines(task.after, behind))


def end_of(task: Task, completion: str) -> int | None:
    """Where a completion leaves the task's region; None if it does not."""
    return region_end(task.size, task.language, task.before.rpartition("\n")[2], completion)
