"""Score the functions that a model writes by the sources' own tests.

    python -m scripts.evaluation.suites.repository_tests --model results/training/base --seed 42 \\
        --tasks results/evaluation/repository_tasks/tasks.jsonl.zst \\
        --settings '{"form": "fim", "max_new_tokens": 256}' --out results/evaluation/repository_tests/base

A model sees the file around the body, as in suite `completion`, and writes the body. Its tests then run in one sandbox
and the body in another (scripts/judge/repositories/repository_judge.py). Before that each task's own body must pass
here; where one does not, the environment is at fault and nothing is measured.
"""

import logging
import os
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, sha256_file
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.evaluation.code_tasks.answers import Task, check_form, prompt_of, prompt_text, write_answers
from scripts.evaluation.generation.model import arguments, load, write_scores
from scripts.evaluation.metrics.metric import by_language, means, score_line, summarize
from scripts.evaluation.suites import About
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.generation import InPlace
from scripts.experiment.settings.record import Number, Record, Unique, check_name, to_dict
from scripts.judge.repositories.repository import unpack
from scripts.judge.repositories.repository_judge import Outcome, RepositoryJudge
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.bubblewrap import Sandbox
from scripts.judge.sandbox.packages import Packages
from scripts.judge.sandbox.program import Limits


@dataclass
class RepositoryTask(Task):
    """A function of a repository.

    Attributes:
        module, function, line: where it is found once its module is imported.
        tests: the tests that run it, as pytest names them.
        names, kinds: classes and functions that the repository's own body gives back in these tests, and the kinds of
            objects that it changes; no other body may do more.
    """

    module: str = ""
    function: str = ""
    line: int = 0
    tests: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


PLACE = 7
ABOUT = About(
    "Functions of the sources written in place, 0 to 1: share whose repository's own tests pass, run in a sandbox. More"
    " is better.",
    tasks="repository_tasks",
)
REPOSITORIES = "repositories"  # the one dataset
FAULT = "environment fault"  # none of the model's: with one, nothing was measured
OUTCOMES = ("passed", "failed", "does not load", "timeout", "memory", FAULT)
METRIC = "repository_pass@1"
RATE = means(METRIC)
SUITE = RATE._replace(figures=RATE.figures | dict.fromkeys(OUTCOMES, 1), counts=OUTCOMES, faults=(FAULT,))


class RepositoryTasks(Record):
    """Which functions are to be written, and what running their tests may take."""

    sources: Annotated[list[str], Unique, Field(min_length=1)] | None = Field(
        None, description="Python sources with tests; all Python sources of the table by default."
    )
    environments: dict[str, Text] = Field(
        {},
        description="Mapping from a source to the folder of a virtual environment, made with this Python, that has"
        " the packages which the source and its tests import. Other sources can import only the standard"
        " library and pytest.",
    )
    tasks: int = Field(10, ge=1, description="Maximum number of tasks of a source.")
    timeout: Number = Field(20, gt=0, description="Limit on wall clock and CPU time for the tests of a task (seconds).")
    memory_megabytes: int = Field(
        1024, ge=64, description="Memory limit of the tests, and of the candidate's code (MB)."
    )


class Settings(InPlace, RepositoryTasks):
    """Off unless given (`repository_tests: {}` for the defaults). The model writes functions of the sources in place,
    and the sources' own tests judge them; needs bubblewrap."""


def datasets(settings: Settings) -> list[str]:
    return [REPOSITORIES]


def small(settings: Settings, items: int) -> dict:
    return {"tasks": items, "max_new_tokens": 8}


def tested_sources(settings: Settings | None, sources: dict[str, Record]) -> dict[str, Record]:
    """The rows of the sources table that the suite takes its tasks from, by name; none without the suite.

    Raises:
        UserError: a source is not in the table or not in Python, or there is no Python source.
    """
    if settings is None:
        return {}
    python = [name for name, source in sources.items() if source.language == "python"]
    if not python:
        raise UserError("evaluation.repository_tests: no Python source in the table of sources")
    for key, names in (("sources", settings.sources or []), ("environments", settings.environments)):
        for name in names:
            check_name(f"evaluation.repository_tests.{key}", name, python)
    return {name: sources[name] for name in settings.sources or python}


def figures(outcomes: list[str]) -> dict[str, float]:
    """For one function: the share of samples that passed, and how many had each outcome."""
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return {METRIC: counts["passed"] / len(outcomes)} | counts


def judge_of(name: str, archive: Path, settings: RepositoryTasks, sandbox: Sandbox, folder: Path) -> RepositoryJudge:
    """What judges functions of a source, unpacked below `folder`.

    Raises:
        UserError: its environment is none of this Python.
    """
    folder.chmod(0o755)  # the sandbox's user reads it
    key = f"evaluation.repository_tests.environments.{name}"
    packages = Packages.from_environment(settings.environments.get(name), key).environment
    limits = Limits(settings.timeout, settings.memory_megabytes << 20)
    return RepositoryJudge(sandbox, limits, unpack(name, archive, folder / name), packages)


def outcomes_of(judge: RepositoryJudge, task: RepositoryTask, bodies: list[str]) -> list[Outcome]:
    """The outcome of each body; all are faults of the environment where the task's own body does not pass."""
    outcomes = []
    for body in [task.answer, *bodies]:
        outcome = judge.judge(task, body)
        if outcome.outcome == FAULT:
            outcome = judge.judge(task, body)
        if outcomes and outcome.outcome == FAULT:
            # the environment is well, as the own body shows: no program may have itself left out of the score
            outcome = Outcome("failed", outcome.detail)
        elif not outcomes and outcome.outcome != "passed":
            return [Outcome(FAULT, f"the repository's own body: {outcome.outcome}: {outcome.detail}")] * len(bodies)
        outcomes.append(outcome)
    return outcomes[1:]


def judge_all(
    tasks: list[RepositoryTask], written: list[list[str]], archives: dict[str, Path], settings: Settings
) -> list[list[Outcome]]:
    """The outcomes of all bodies, in the order of the tasks; as many tasks run at a time as there are pairs of cores.

    Raises:
        UserError: there is no sandbox, or an archive or environment is not there.
    """
    sandbox, progress, judges = probe.sandbox(), Progress("judge functions", "tasks", len(tasks)), {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted({task.source for task in tasks}):
            if not archives[name].is_file():
                raise UserError(f"{archives[name]}: no such file; the tasks of {name} were made from it")
            judges[name] = judge_of(name, archives[name], settings, sandbox, Path(folder))

        def judge_task(pair: tuple[RepositoryTask, list[str]]) -> list[Outcome]:
            outcomes = outcomes_of(judges[pair[0].source], *pair)
            progress.add()
            return outcomes

        with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) // 2)) as pool:
            outcomes = list(pool.map(judge_task, zip(tasks, written, strict=True)))
    progress.end()
    return outcomes


def repository_tests(folder: Path, path: Path, settings: Settings, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    Args:
        path: file of tasks, beside its manifest.

    Raises:
        UserError: the tokenizer has no tokens for fill-in-the-middle, or nothing can be judged here.
    """
    archives = {name: Path(archive) for name, archive in read_manifest(path.parent)["archives"].items()}
    tasks = [RepositoryTask(**record) for record in read_jsonl(path)]
    model = load(folder)
    check_form(model, settings, "evaluation.repository_tests")
    prompts = [prompt_of(task, settings) for task in tasks]
    written, engine = write_answers(model, tasks, prompts, settings, seed, "repository tests")
    items, sources = [], defaultdict(list)
    for task, prompt, bodies, outcomes in zip(
        tasks, prompts, written, judge_all(tasks, written, archives, settings), strict=True
    ):
        item = {
            "dataset": REPOSITORIES,
            "id": task.id,
            "language": task.language,
            "source": task.source,
            "prompt": prompt_text(prompt),
            "reference": task.answer,
            "written": bodies,
            "verdicts": [{"outcome": outcome.outcome, "detail": outcome.detail} for outcome in outcomes],
            **figures([outcome.outcome for outcome in outcomes]),
        }
        items.append(item)
        sources[task.source].append(item)
    scores = {REPOSITORIES: by_language(items, lambda subset: summarize(SUITE, subset))}
    logging.info(score_line("repository tests", REPOSITORIES, SUITE, scores[REPOSITORIES]["all"]))
    by_source = {name: summarize(SUITE, subset) for name, subset in sorted(sources.items())}
    facts = {"engine": engine, "settings": to_dict(settings) | {"seed": seed}, "by_source": by_source}
    return write_scores(out, folder, items, {REPOSITORIES: sha256_file(path)}, scores, **facts)


def main() -> None:
    parser = arguments(__doc__, Settings)
    parser.add_argument("--tasks", type=Path, required=True, help="file of tasks")
    args = parser.parse_args()
    repository_tests(args.model, args.tasks, args.settings, args.seed, args.out)


if __name__ == "__main__":
    run(main)
