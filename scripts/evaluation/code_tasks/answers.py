"""Let a model write the answers of tasks in place: what suites `completion` and `repository_tests` share.

check_form(model, settings, "evaluation.completion")
written, engine = write_answers(model, tasks, prompts, settings, seed, "completion")
"""

from collections.abc import Sequence

from scripts.common.cli import UserError
from scripts.evaluation.code_tasks.prompts import end_of
from scripts.evaluation.code_tasks.task import Task
from scripts.evaluation.generation.model import ScoredModel
from scripts.evaluation.generation.transformers_engine import Prompt
from scripts.experiment.settings.generation import InPlace


def check_form(model: ScoredModel, settings: InPlace, key: str) -> None:
    """Check that a model can be shown tasks as fill-in-the-middle, where `form` says so.

    Args:
        key: of the suite's settings, for the error.

    Raises:
        UserError: its tokenizer has no tokens for it.
    """
    if settings.form == "fim" and "<|fim_middle|>" not in model.encoder.controls:
        raise UserError(f"{key}.form: {model.folder} has no token <|fim_middle|>; set `form: plain`")


def write_answers(
    model: ScoredModel, tasks: Sequence[Task], prompts: list[Prompt], settings: InPlace, seed: int, label: str
) -> tuple[list[list[str]], dict]:
    """(the answers to each task, the engine's name and version).

    With `form: fim` an answer counts whole; one of `form: plain` cannot know where to stop, so it is cut there.

    Args:
        tasks: one for each prompt.
        label: of the progress.
    """

    def finished(number: int, text: str) -> bool:
        return end_of(tasks[number], text) is not None

    completions, engine = model.generate(prompts, settings, seed, finished, label=label)
    if settings.form == "fim":
        return completions, engine
    pairs = zip(tasks, completions, strict=True)
    return [[text[: end_of(task, text)] for text in texts] for task, texts in pairs], engine


def shown(prompt: Prompt) -> str:
    """A prompt as an item keeps it."""
    return prompt if isinstance(prompt, str) else f"{prompt.prefix}<|answer|>{prompt.suffix}"
