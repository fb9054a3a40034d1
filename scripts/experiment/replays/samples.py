"""The part of a job that `stagecraft accept` replays with two versions of the code: command and files to compare.

A data job is replayed whole. Of a stage a short one is trained, with all that its settings switch on; of a suite the
first items are scored. The sample has the job's own command with other settings in it, so it runs with any code that
takes this command.
"""

import gzip
import json
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import yaml
import zstandard

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.experiment.arguments import words_of
from scripts.experiment.suites import SUITES

DATA = (
    "filter",
    "signatures",
    "buckets",
    "clusters",
    "deduplicate",
    "split",
    "compose",
    "tokenizer",
    "pack",
    "mix",
    "base",
    "contamination",
)
STEPS, ITEMS = 8, 20


@dataclass(frozen=True)
class Sample:
    """A sample of a job.

    Attributes:
        command: for a shell, with paths relative to the repository.
        inputs: the job's inputs; what lies beside them is there too.
        outputs: files that are compared.
        whole_job: whether all of the job is replayed, so that its outputs can be compared with those that lie here.
        text: what is replayed, for people.
        unseen: what the sample cannot see, for people.
        files: path → content of files that are other, or not there, for the sample.
    """

    command: str
    inputs: list[str]
    outputs: list[str]
    whole_job: bool
    text: str
    unseen: str
    files: dict[str, bytes] = field(default_factory=dict)


def argument_files(command: str) -> dict[str, bytes]:
    """The argument files that a command names: a dry run only names them."""
    files = {}
    for word in shlex.split(command.split("|")[0]):
        if word.startswith("@") and (words := words_of(word)) is not None:
            files[word[1:]] = "".join(f"{argument}\n" for argument in words).encode()
    return files


def with_settings(command: str, settings: dict, changed: dict) -> str:
    """The command with other settings in it."""
    old, new = (shlex.quote(json.dumps(value, sort_keys=True, ensure_ascii=False)) for value in (settings, changed))
    assert old in command, f"the settings are not in the command: {command}"
    return command.replace(old, new)


def data_sample(command: str, inputs: list[str], outputs: list[str]) -> Sample:
    return Sample(command, inputs, outputs, True, "the whole job", "nothing of this job", argument_files(command))


def archives_of(command: str, files: dict[str, bytes]) -> list[str]:
    """The archives that the sources of a shard's command name: no rule declares them one by one."""
    words = shlex.split(command.split("|")[0])
    texts = [*words, *(line for content in files.values() for line in content.decode().splitlines())]
    return [json.loads(text)["archive"] for text in texts if text.startswith("{") and '"archive"' in text]


def stage_sample(command: str, inputs: list[str], outputs: list[str], settings: dict, steps: int = STEPS) -> Sample:
    """A stage of `steps` steps: warm-up, decay, validation, checkpoints and the published model, all in them."""
    shortened = {name: value for name, value in settings.items() if name not in ("epochs", "early_stopping")}
    shortened |= {"steps": steps, "eval_steps": max(1, steps // 2)}
    if shortened.get("warmup_steps"):
        shortened["warmup_steps"] = min(shortened["warmup_steps"], max(1, steps // 4))
    command = with_settings(command, settings, shortened)
    for option, value in (("log", 1), ("save", max(1, steps // 2))):
        command = re.sub(rf"--{option}-steps \S+", f"--{option}-steps {value}", command)
    compared = [path for path in outputs if Path(path).name != "environment.json"]
    text = f"{steps} steps from the start, with warm-up and decay, validation and checkpoints in them"
    unseen = (
        f"code that acts after the first {steps} steps or at the end of a pass over the data, resuming, early stopping,"
        " and other sharding, kernels or numbers of processes than this machine's"
    )
    return Sample(command, inputs, compared, False, text, unseen, argument_files(command))


def first_problems(path: Path, count: int) -> bytes:
    """The first problems of a benchmark file, or the first cases of a file of cases."""
    content = path.read_bytes()
    if path.suffix in (".yaml", ".yml"):
        cases = yaml.safe_load(content)
        return yaml.safe_dump(dict(list(cases.items())[:count]), sort_keys=False, allow_unicode=True).encode()
    opened = gzip.decompress(content) if path.suffix == ".gz" else content
    lines = b"".join(opened.splitlines(keepends=True)[:count])
    return gzip.compress(lines, mtime=0) if path.suffix == ".gz" else lines


def first_tasks(path: Path, count: int, ids: list[str] | None) -> bytes:
    """The first tasks of each size in a file of tasks; all those with these ids where settings name some."""
    kept, lines = Counter(), []
    for task in read_jsonl(path):
        kept[task["size"]] += 1
        chosen = task["id"] in ids if ids else kept[task["size"]] <= count
        if chosen:
            lines.append(json.dumps(task, ensure_ascii=False) + "\n")
    return zstandard.compress("".join(lines).encode())


def suite_sample(command: str, inputs: list[str], outputs: list[str], settings: dict, items: int = ITEMS) -> Sample:
    """The first items of a suite."""
    files = argument_files(command)
    tasks = re.search(r"--tasks (\S+)", command)
    if "documents" in settings:
        shortened = settings | {"documents": min(items, settings["documents"])}
        command = with_settings(command, settings, shortened)
        text = f"{shortened['documents']} items of each dataset and language"
    elif tasks:
        files[tasks[1]] = first_tasks(Path(tasks[1]), items, settings.get("ids"))
        text = f"the first {items} tasks of each size"
    elif "cases" in settings or "benchmarks" in settings:
        paths = [settings["cases"]] if "cases" in settings else [each["path"] for each in settings["benchmarks"]]
        files |= {path: first_problems(Path(path), items) for path in paths}
        text = f"the first {items} problems of each file"
    else:  # lm-eval
        shortened = settings if settings.get("ids") else settings | {"limit": min(items, settings.get("limit", items))}
        command = with_settings(command, settings, shortened)
        text = f"the first {items} items of each task"
    return Sample(command, inputs, outputs, False, text, "the other items", files)


def sample_of(rule: str, command: str, inputs: list[str], outputs: list[str], settings: dict) -> Sample:
    """The sample of a job.

    Args:
        settings: the job's param `settings`; empty where it has none.

    Raises:
        UserError: nothing of such a job can be replayed.
    """
    if rule == "filter":
        inputs = [*inputs, *archives_of(command, argument_files(command))]
    if rule in DATA:
        return data_sample(command, inputs, outputs)
    if rule in ("train", "train_adapter"):
        return stage_sample(command, inputs, outputs, settings)
    replayed = [suite for suite, facts in SUITES.items() if facts.paired]  # not what is timed, or rated by people
    if rule in replayed:
        return suite_sample(command, inputs, outputs, settings)
    raise UserError(f"{rule}: no rule that is replayed ({', '.join((*DATA, 'train', *replayed))}); let it run")
