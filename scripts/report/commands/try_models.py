"""`stagecraft try`: what the base and a stage write at a place in a file, or in a chat, with and without retrieval.

stagecraft try own --at scripts/cli.py:60
stagecraft try chat --chat "Write the documentation of this Python function: ..."
"""

import re
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.evaluation.code_tasks.answers import last_lines
from scripts.evaluation.generation.examples import Prompt
from scripts.evaluation.generation.model import load
from scripts.evaluation.generation.retrieval import Pieces
from scripts.experiment.layout import Layout, split_file
from scripts.experiment.load import experiment_of
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.suites import Generation
from scripts.hosts.hardware import gpu_driver, sleep_while_waiting

CHARACTERS = 1500  # of the file before the place


PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?::(?P<column>\d+))?")


def text_before(place: str) -> tuple[str, str]:
    """(the path, the text before the place) of `FILE:LINE` or `FILE:LINE:COLUMN`, both counted from 1. Raises
    UserError: it names no place in a file, or one with nothing before it."""
    found = PLACE.fullmatch(place)
    if not found:
        raise UserError(f"--at {place}: must be FILE:LINE or FILE:LINE:COLUMN, as scripts/cli.py:60")
    path, line, column = found["path"], int(found["line"]), int(found["column"] or 1)
    if not Path(path).is_file():
        raise UserError(f"--at {place}: no file {path}")
    lines = [*Path(path).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True), ""]
    if not 1 <= line <= len(lines) or (line, column) == (1, 1):
        raise UserError(f"--at {place}: {path} has {len(lines) - 1} lines; give one from 2 to {len(lines)}")
    width = len(lines[line - 1].rstrip("\r\n"))
    if not 1 <= column <= width + 1:
        raise UserError(f"--at {place}: line {line} has {width} characters; give a column from 1 to {width + 1}")
    return path, "".join(lines[: line - 1]) + lines[line - 1][: column - 1]


def retrieved(experiment: Experiment, layout: Layout, text: str, path: str = "") -> str:
    """Training code that resembles the end of a text; empty where the experiment retrieves from nothing. `path`: of the
    text's file, whose own code is left out: it holds what the models are to write."""
    retrieval = experiment.evaluation.perplexity.retrieval
    if retrieval is None:
        return ""
    own = str(Path(path).resolve()) if path else ""
    documents = []
    for name in retrieval.datasets:
        for document in read_jsonl(split_file(layout.dataset(name), "train")):
            within = document["id"].partition("/")[2]  # behind the name of its source
            if not own.endswith(f"/{within}"):
                documents.append(document)
    return Pieces(documents, retrieval.pieces).before(path, text)


def try_models(profile: str, configfile: Path | None, stage: str | None, at: str | None, chat: str | None) -> None:
    """Print what the base and the stage write, each without and with retrieved code. Raises UserError: a model is not
    there yet, or neither a place nor a chat is given, or both."""
    if (at is None) == (chat is None):
        raise UserError("give either --at FILE:LINE or --chat TEXT")
    _, experiment = experiment_of(profile, configfile)
    layout, stages = Layout(Path(experiment.results)), list(experiment.training.train)
    stage = stage or stages[0 if at else -1]
    if stage not in stages:
        raise UserError(f"{stage}: no such stage; known: {', '.join(stages)}")
    for model in ("base", stage):
        if not (layout.model(model) / "manifest.json").is_file():
            raise UserError(f"{layout.model(model)}: no model there yet; run the experiment first")
    if at:
        path, before = text_before(at)
        code = retrieved(experiment, layout, before, path)
        prompts: list[Prompt] = [last_lines(before, CHARACTERS)]
        prompts.append(code + prompts[0])
    else:
        code = retrieved(experiment, layout, chat)
        prompts = [[{"role": "user", "content": text}] for text in (chat, f"```\n{code}```\n\n{chat}")]
    settings = Generation(max_new_tokens=64)
    if gpu_driver() is None:
        sleep_while_waiting(gpus=0)  # before torch is loaded
    for model in ("base", stage):
        written, _ = load(layout.model(model)).generate(prompts if code else prompts[:1], settings, 0, label=model)
        for name, texts in zip((model, f"{model} + retrieval"), written, strict=False):
            print(f"\n=== {name}\n{texts[0].rstrip()}")
