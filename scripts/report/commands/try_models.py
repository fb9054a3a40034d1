"""`stagecraft try`: what the base and a stage write at a place in a file, or in a chat, with and without retrieval.

stagecraft try own --at scripts/cli.py:60
stagecraft try chat --chat "Write the documentation of this Python function: ..."

Where `stagecraft serve` runs for the stage, it is asked in place of loading the models, for the stage alone.
"""

import io
import json
import re
import urllib.request
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.generation.retrieval import Piece
from scripts.experiment.layout import SPLITS, Layout, split_file
from scripts.experiment.load import experiment_in_use
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.suites import Generation
from scripts.hosts.hardware import gpu_driver, sleep_while_waiting
from scripts.serving.assistant import Assistant, check_trained

NEW_TOKENS = 64
PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?::(?P<column>\d+))?")


def read_code(path: str) -> str:
    """The text of a file with its own line ends, as the filter keeps it."""
    return Path(path).read_bytes().decode("utf-8", "replace")


def text_before(place: str) -> tuple[str, str]:
    """(the path, the text before the place) of `FILE:LINE` or `FILE:LINE:COLUMN`, both counted from 1. Raises
    UserError: it names no place in a file, or one with nothing before it."""
    found = PLACE.fullmatch(place)
    if not found:
        raise UserError(f"--at {place}: must be FILE:LINE or FILE:LINE:COLUMN, as scripts/cli.py:60")
    path, line, column = found["path"], int(found["line"]), int(found["column"] or 1)
    if not Path(path).is_file():
        raise UserError(f"--at {place}: no file {path}")
    lines = [*io.StringIO(read_code(path), newline="\n"), ""]  # as editors count them, which a form feed does not end
    if not 1 <= line <= len(lines) or (line, column) == (1, 1):
        raise UserError(f"--at {place}: {path} has {len(lines) - 1} lines; give one from 2 to {len(lines)}")
    width = len(lines[line - 1].rstrip("\r\n"))
    if not 1 <= column <= width + 1:
        raise UserError(f"--at {place}: line {line} has {width} characters; give a column from 1 to {width + 1}")
    return path, "".join(lines[: line - 1]) + lines[line - 1][: column - 1]


def split_with(experiment: Experiment, layout: Layout, path: str) -> str:
    """The split that a file is in, as words; empty where it is in none. A file of the same path elsewhere counts where
    its text is the same, or its folder has the name of the source."""
    own, words = str(Path(path).resolve()), {"train": "trained on", "validation": "for validation", "test": "held out"}
    text = read_code(path)
    for name, dataset in experiment.corpus.compose.items():
        for split in SPLITS if dataset.kind == "code" else ():
            file = split_file(layout.dataset(name), split)
            for document in read_jsonl(file) if file.is_file() else ():
                same_path = own.endswith(f"/{document['id'].partition('/')[2]}")
                if same_path and (document["text"] == text or own.endswith(f"/{document['id']}")):
                    return f"{words[split]} ({name})"
    return ""


def served(layout: Layout, stage: str, request: dict) -> str | None:
    """What a running server of the stage writes; None where none runs. `request`: as /v1/completions takes it."""
    note = read_json(layout.served) if layout.served.is_file() else {}
    if note.get("model") != stage:
        return None
    address = f"http://127.0.0.1:{note['port']}/v1/completions"
    body = json.dumps({"max_tokens": NEW_TOKENS, **request}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body), timeout=60) as answer:
            return json.load(answer)["choices"][0]["text"]
    except OSError:  # it was killed and left its note, or asks for a key
        return None


def show(name: str, text: str, pieces: list[Piece]) -> None:
    print(f"\n=== {name}")
    for piece in pieces:
        print(f"    after {piece.id}:{piece.line}")
    print(text.rstrip())


def try_models(profile: str, configfile: Path | None, stage: str | None, at: str | None, chat: str | None) -> None:
    """Print what the base and the stage write, each without and with retrieved code. Raises UserError: a model is not
    there yet, or neither a place nor a chat is given, or both."""
    if (at is None) == (chat is None):
        raise UserError("give either --at FILE:LINE or --chat TEXT")
    experiment = experiment_in_use(profile, configfile)
    layout, stages = Layout(Path(experiment.results)), list(experiment.training.train)
    stage = stage or stages[0 if at else -1]
    if stage not in stages:
        raise UserError(f"{stage}: no such stage; known: {', '.join(stages)}")
    for model in ("base", stage):
        check_trained(layout, model)
    path, before = text_before(at) if at else ("", "")
    if at and (split := split_with(experiment, layout, path)):
        print(f"{path}: {split}")
    if at and (text := served(layout, stage, {"prompt": before, "user": path, "model": f"{stage}-alone"})) is not None:
        show(f"{stage}, served", text, [])
        with_code = served(layout, stage, {"prompt": before, "user": path, "model": stage})
        show(f"{stage} + retrieval, served", with_code or "", [])
        return
    if gpu_driver() is None:
        sleep_while_waiting(gpus=0)  # before torch is loaded
    settings, pieces = Generation(max_new_tokens=NEW_TOKENS), None
    for model in ("base", stage):
        assistant = Assistant(experiment, layout, model, retrieval=bool(at) and pieces is None)
        assistant.pieces = pieces = pieces or assistant.pieces  # the same code for both, indexed once
        if chat:
            show(model, assistant.write([{"role": "user", "content": chat}], settings).text, [])
            continue
        prompt, _ = assistant.at(before, "", path, retrieval=False)
        show(model, assistant.write(prompt, settings).text, [])
        prompt, found = assistant.at(before, "", path, own=str(Path(path).resolve()))
        if found:
            show(f"{model} + retrieval", assistant.write(prompt, settings).text, found)
