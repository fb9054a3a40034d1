"""The prompt of a task in a file, the model's answers, and where an answer ends.

check_form(model, settings, "evaluation.completion")
prompt = prompt_of(task, settings)     # Infill("...def f(a):\\n    ", "\\n\\ndef g...")
written, engine = write_answers(model, tasks, prompts, settings, seed, "completion")
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.common.errors import UserError
from scripts.evaluation.generation.examples import Infill, Prompt
from scripts.evaluation.generation.model import ScoredModel
from scripts.experiment.settings.suites import InPlace
from scripts.languages import completions

SIZES = ("line", "function")  # what is to be written: a line, or the body of a function


@dataclass
class Task:
    """A file with an answer to be written.

    Attributes:
        id: file and lines, from 1.
        before: the file's text up to the answer.
        retrieved: training code that resembles it; empty without retrieval.
    """

    id: str
    size: str
    language: str
    source: str
    path: str
    before: str
    answer: str
    after: str
    retrieved: str = ""


def check_form(model: ScoredModel, settings: InPlace, key: str) -> None:
    """Check that a model supports fill-in-the-middle, if `form` requires it.

    Args:
        key: the key of the settings, for the error.

    Raises:
        UserError: its tokenizer lacks the control tokens.
    """
    if settings.form == "fim" and model.encoder.files.infill is None:
        raise UserError(f"{key}.form: {model.folder} has no control token like <|fim_middle|>; set `form: plain`")


def last_lines(text: str, characters: int) -> str:
    """The last lines of a text, with at most this many characters."""
    if len(text) <= characters:
        return text
    return text[-characters:].partition("\n")[2]


def first_lines(text: str, characters: int) -> str:
    """The first lines of a text, with at most this many characters."""
    if len(text) <= characters:
        return text
    return text[:characters].rpartition("\n")[0]


def prompt_at(before: str, after: str, form: str, characters: int) -> Prompt:
    """The file around a place; with fill-in-the-middle two thirds of the characters are from before it. All who show a
    model a place in a file show it so: suites, `stagecraft try` and `stagecraft serve`. `form`: `fim` or `plain`."""
    if form == "plain":
        return last_lines(before, characters)
    behind = characters // 3
    return Infill(last_lines(before, characters - behind), first_lines(after, behind))


def prompt_of(task: Task, settings: InPlace) -> Prompt:
    """The file around the answer."""
    return prompt_at(task.before, task.after, settings.form, settings.prompt_characters)


def after_retrieved(retrieved: str, prompt: Prompt) -> Prompt:
    """A prompt with the retrieved code before it."""
    if isinstance(prompt, Infill):
        return Infill(retrieved + prompt.prefix, prompt.suffix)
    return retrieved + prompt


def write_answers(
    model: ScoredModel, tasks: Sequence[Task], prompts: list[Prompt], settings: InPlace, seed: int, label: str
) -> tuple[list[list[str]], dict]:
    """(the answers to each task, the engine's name and version).

    With `form: fim` an answer counts as it is. With `form: plain` the model cannot know where to stop, so the answer is
    cut at the end of the region.

    Args:
        tasks: one for each prompt.
        label: label of the progress lines.
    """

    def finished(number: int, text: str) -> bool:
        return end_of(tasks[number], text) is not None

    completions, engine = model.generate(prompts, settings, seed, finished, label=label)
    if settings.form == "fim":
        return completions, engine
    answers = []
    for task, texts in zip(tasks, completions, strict=True):
        answers.append([text[: end_of(task, text)] for text in texts])
    return answers, engine


def prompt_text(prompt: Prompt) -> str:
    """The text of a prompt for `items.jsonl.zst`."""
    if isinstance(prompt, str):
        return prompt
    return f"{prompt.prefix}<|answer|>{prompt.suffix}"


def end_of(task: Task, completion: str) -> int | None:
    """Where a completion leaves the task's region; None if it does not."""
    return region_end(task.size, task.language, task.before.rpartition("\n")[2], completion)


def region_end(size: str, language: str, indentation: str, text: str) -> int | None:
    """The number of characters of `text` inside the region; None if it does not leave it. `size`: `line` or `function`;
    `indentation`: what stands before the region's first line, on that line."""
    if size == "line":
        end = text.find("\n")
        return None if end < 0 else end
    braces = completions()[language].braces
    if braces is None:
        return dedent(indentation, text)
    depth = 0
    for match in braces.finditer(text):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth < 0:
            return match.start()
    return None


def dedent(indentation: str, text: str) -> int | None:
    """Where the first line after the first one begins that is indented less; empty lines do not count."""
    place = text.find("\n") + 1
    while place:
        end = text.find("\n", place)
        line = text[place : end if end >= 0 else len(text)]
        if line.strip() and not line.startswith(indentation):
            return place
        place = end + 1
    return None
