"""Generate the answers of suites `completion` and `repository_tests`, whose tasks are regions of a file.

check_form(model, settings, "evaluation.completion")
written, engine = write_answers(model, tasks, prompts, settings, seed, "completion")
"""

from collections.abc import Sequence

from scripts.common.errors import UserError
from scripts.evaluation.code_tasks.prompts import end_of
from scripts.evaluation.code_tasks.task import Task
from scripts.evaluation.generation.model import ScoredModel
from scripts.evaluation.generation.transformers_engine import Prompt
from scripts.experiment.settings.generation import InPlace


def check_form(model: ScoredModel, settings: InPlace, key: str) -> None:
    """Check that a model supports fill-in-the-middle, if `form` requires it.

    Args:
        key: the key of the settings, for the error.

    Raises:
        UserError: its tokenizer lacks the control tokens.
    """
    if settings.form == "fim" and "<|fim_middle|>" not in model.encoder.controls:
        raise UserError(f"{key}.form: {model.folder} has no token <|fim_middle|>; set `form: plain`")


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
    pairs = zip(tasks, completions, strict=True)
    return [[text[: end_of(task, text)] for text in texts] for task, texts in pairs], engine


def prompt_text(prompt: Prompt) -> str:
    """The text of a prompt for `items.jsonl.zst`."""
    return prompt if isinstance(prompt, str) else f"{prompt.prefix}<|answer|>{prompt.suffix}"
