"""Score the functions that a model writes by the sources' own tests.

    python -m scripts.evaluation.repository_tests --model results/training/base --seed 42 \\
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
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, sha256_file
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.evaluation.code_tasks.answers import check_form, prompt_of, prompt_text, write_answers
from scripts.evaluation.generation.model import arguments, load, write_scores
from scripts.evaluation.metrics.metric import by_language, score_line, summarize
from scripts.evaluation.metrics.repository_outcomes import SUITE, figures
from scripts.evaluation.repository_functions.task import RepositoryTask
from scripts.evaluation.repository_tasks import judge_of
from scripts.experiment.settings.evaluation import RepositoryTests
from scripts.experiment.settings.record import to_dict
from scripts.experiment.suites import REPOSITORIES
from scripts.judge.repositories.repository_judge import Outcome, RepositoryJudge
from scripts.judge.sandbox import probe

FAULT = "environment fault"


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
    tasks: list[RepositoryTask], written: list[list[str]], archives: dict[str, Path], settings: RepositoryTests
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


def repository_tests(folder: Path, path: Path, settings: RepositoryTests, seed: int, out: Path) -> dict:
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
    parser = arguments(__doc__, RepositoryTests)
    parser.add_argument("--tasks", type=Path, required=True, help="file of tasks")
    args = parser.parse_args()
    repository_tests(args.model, args.tasks, args.settings, args.seed, args.out)


if __name__ == "__main__":
    run(main)
