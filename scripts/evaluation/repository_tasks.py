"""Tasks of suite `repository_tests`: functions of the Python sources that the sources' own tests can judge.

    python -m scripts.evaluation.repository_tasks --archives toolz=data/raw/toolz-ea1f35b94d5f.tar.zst \\
        --datasets results/corpus/compose --train code --settings '{"tasks": 10}' \\
        --out results/evaluation/repository_tasks

The tests of a source run once under coverage.py, which tells which tests reach which function. A function is a task if
its tests pass with its own body three times, and fail with its body masked and with the trivial bodies `pass` and
`return` of its first argument. What is a task follows from the files alone: functions are tried in the order of their
hashes. All runs are in the sandbox (scripts/judge/repositories/repository_judge.py).

Writes `tasks.jsonl.zst`, and a manifest that counts for each source why functions are no tasks.
"""

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.code_tasks.occurrences import in_training
from scripts.evaluation.repository_functions.task_selection import Selection, TaskSelector, log
from scripts.evaluation.suites.repository_tests import RepositoryTasks, judge_of
from scripts.judge.sandbox import probe


def repository_tasks(
    archives: dict[str, Path], datasets: Path, train: list[str], settings: RepositoryTasks, out: Path
) -> dict:
    """Write the tasks to `out`; returns the manifest.

    Args:
        archives: source → its archive.
        datasets: folder of the composed datasets.
        train: names of those that stages train on.

    Raises:
        UserError: no source has a task, or there is no sandbox.
    """
    sandbox, counts, tasks = probe.sandbox(), {}, []
    for name, archive in sorted(archives.items()):
        with tempfile.TemporaryDirectory() as folder:
            judge = judge_of(name, archive, settings, sandbox, Path(folder))
            selection: Selection = TaskSelector(judge, judge.repository, settings).select(
                lambda tried: in_training(tried, datasets, train, "repository tasks") if tried else set()
            )
        log(name, selection)
        counts[name] = selection.counts()
        tasks += selection.kept
    if not tasks:
        causes = "; ".join(f"{name}: {cause_text(count)}" for name, count in counts.items())
        raise UserError(f"evaluation.repository_tests: no source has a task ({causes}); leave the suite out")
    write_jsonl(out / "tasks.jsonl.zst", map(asdict, tasks))
    places = {name: str(archive) for name, archive in sorted(archives.items())}
    return write_manifest(out, ["tasks.jsonl.zst"], counts=counts, archives=places)


def cause_text(count: dict) -> str:
    """Why a source has no task, in a few words."""
    if "cause" in count:
        return f"{count['cause']}: {' '.join(count['detail'].split())[:120]}"
    return ", ".join(f"{number} {cause}" for cause, number in count.items() if isinstance(number, int) and number)


def archive(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"must be SOURCE=ARCHIVE, not {text}")
    return name, Path(path)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--archives", type=archive, nargs="+", required=True, help="SOURCE=ARCHIVE of each source")
    p.add_argument("--datasets", type=Path, required=True, help="folder of the composed datasets")
    p.add_argument("--train", nargs="*", default=[], help="names of the datasets that stages train on")
    p.add_argument("--settings", type=RepositoryTasks.from_json, required=True, help="which tasks, as JSON")
    p.add_argument("--out", type=Path, required=True, help="folder for the tasks and their manifest")
    args = p.parse_args()
    repository_tasks(dict(args.archives), args.datasets, args.train, args.settings, args.out)


if __name__ == "__main__":
    run(main)
