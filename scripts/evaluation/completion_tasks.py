"""Tasks of suite `completion` out of the held-out code: files with a line or a function's body to be written.

    python -m scripts.evaluation.completion_tasks --datasets results/corpus/compose --train code instruct \\
        --settings '{"dataset": "code", "tasks": 50}' --out results/evaluation/completion_tasks

Of each size and language the tasks are those with the smallest hash of file and place, at most two of a file. Left out
are files of tests, answers that nearly stand once more in their own file, which copying solves, and answers that stand
in a training document (scripts/evaluation/code_tasks/regions.py). Writes `tasks.jsonl.zst`, and a manifest with the
counts.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rapidfuzz import fuzz

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import NAME, read_manifest, write_manifest
from scripts.common.options import command
from scripts.common.text import text_digest
from scripts.corpus.instruct.functions import is_test
from scripts.evaluation.code_tasks.answers import SIZES, Task
from scripts.evaluation.code_tasks.regions import code_lines, cut, in_training, regions
from scripts.evaluation.generation.retrieval import Pieces
from scripts.evaluation.suites.completion import CompletionTasks
from scripts.experiment.layout import split_file
from scripts.experiment.settings.record import check_name
from scripts.languages import completions

PER_FILE = 2
LONGEST = 20  # lines of a function's body
NEAR = 90  # rapidfuzz's ratio, of 100, from which lines are a near-copy
# Of a file this many times as many are tried, as some are left out.
TRIED = 3
RETRIEVED = 2  # pieces of training code before a prompt


def tasks_of(document: dict, settings: CompletionTasks) -> Iterator[Task]:
    """The tasks tried of a file: of each size the first in the order of their hashes."""
    text, counts = document["text"], Counter()
    file_regions = regions(text, document["language"], LONGEST)
    named = [(f"{document['id']}:{region.first + 1}-{region.last + 1}", region) for region in file_regions]
    for name, region in sorted(named, key=lambda pair: text_digest(f"{pair[0]} {pair[1].size}")):
        if counts[region.size] < PER_FILE * TRIED:
            counts[region.size] += 1
            source = document["source"]
            path = document["id"].removeprefix(f"{source}/")
            yield Task(name, region.size, document["language"], source, path, *cut(text, region))


def choose(tasks: list[Task], limit: int) -> list[Task]:
    """At most `most` of each size and language, and `PER_FILE` of a file and size, sorted by id."""
    chosen, per_file, counts = [], Counter(), Counter()
    for task in sorted(tasks, key=lambda task: text_digest(f"{task.id} {task.size}")):
        group, file = (task.size, task.language), (task.size, task.source, task.path)
        if counts[group] < limit and per_file[file] < PER_FILE:
            counts[group] += 1
            per_file[file] += 1
            chosen.append(task)
    return sorted(chosen, key=lambda task: (task.size, task.id))


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


def retrieve(tasks: list[Task], train: Path) -> None:
    """Give each task the pieces of a training split that resemble what stands before its answer."""
    pieces = Pieces(read_jsonl(train), RETRIEVED)
    for task in tasks:
        task.retrieved = pieces.before(f"{task.source}/{task.path}", task.before)


def completion_tasks(datasets: Path, train: list[str], settings: CompletionTasks, out: Path) -> dict:
    """Write the tasks to `out`; returns the manifest.

    Args:
        datasets: folder of the composed datasets.
        train: names of those that stages train on.

    Raises:
        UserError: the dataset is not there or does not match its manifest, or there is no task of some size.
    """
    folder, known = datasets / settings.dataset, sorted(path.parent.name for path in datasets.glob(f"*/{NAME}"))
    check_name("evaluation.completion.dataset", settings.dataset, known)
    read_manifest(folder)
    tried, without_grammar, tests = [], Counter(), 0
    for document in read_jsonl(split_file(folder, "test")):
        if is_test(document["id"].removeprefix(f"{document['source']}/")):
            tests += 1
            continue
        if document["language"] not in completions():
            without_grammar[document["language"]] += 1
        tried += tasks_of(document, settings)
    if tests:
        logging.info(f"completion tasks: left out: {tests:,} files of tests")
    if without_grammar:
        listed = ", ".join(f"{count} of {language}" for language, count in sorted(without_grammar.items()))
        logging.info(f"completion tasks: lines alone, as there is no grammar here: {listed}")
    new = [task for task in tried if not near_copy(task)]
    seen = in_training(new, datasets, train, "completion tasks")
    tasks = choose([task for number, task in enumerate(new) if number not in seen], settings.tasks)
    if settings.retrieval:
        retrieve(tasks, split_file(folder, "train"))
    counts = {
        size: {
            "tried": sum(task.size == size for task in tried),
            "copied": sum(task.size == size for task in tried) - sum(task.size == size for task in new),
            "in_training": sum(new[number].size == size for number in seen),
            "tasks": dict(sorted(Counter(task.language for task in tasks if task.size == size).items())),
        }
        for size in SIZES
    }
    for size, count in counts.items():
        if not count["tasks"] and size == "function" and without_grammar:
            continue
        if not count["tasks"]:
            raise UserError(
                f"evaluation.completion.dataset: no task of size {size!r} in the test files of {settings.dataset}"
                f" ({count['tried']} tried, {count['copied']} nearly occur twice in their file, {count['in_training']}"
                f" in the training data; {tests:,} files of tests left out); raise corpus.split.test or leave"
                " `evaluation.completion` out"
            )
        logging.info(
            f"completion tasks: {sum(count['tasks'].values())} of size {size}; left out: {count['copied']} that nearly"
            f" occur twice in their file, {count['in_training']} in the training data"
        )
    write_jsonl(out / "tasks.jsonl.zst", map(asdict, tasks))
    facts = {}
    if without_grammar:
        facts = {"without_grammar": dict(sorted(without_grammar.items()))}
    return write_manifest(out, ["tasks.jsonl.zst"], counts=counts, tests=tests, **facts)


if __name__ == "__main__":
    run(command(completion_tasks))
