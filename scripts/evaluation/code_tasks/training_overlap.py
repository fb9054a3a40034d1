"""Find the tasks whose answers occur in the training data.

in_training(tasks, Path("results/corpus/compose"), ["code"], "completion tasks")     # {0, 7}
"""

from pathlib import Path

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.evaluation.code_tasks.occurrences import Answers
from scripts.evaluation.code_tasks.task import Task
from scripts.evaluation.generation.examples import text_of
from scripts.experiment.layout import split_file


def in_training(tasks: list[Task], datasets: Path, train: list[str], label: str) -> set[int]:
    """The indices of the tasks whose answers occur in a training document.

    Raises:
        UserError: a dataset does not match its manifest.
    """
    answers, overlapping = Answers({number: task.answer for number, task in enumerate(tasks)}), set()
    counts = {dataset: read_manifest(datasets / dataset)["examples"]["train"] for dataset in train}
    progress = Progress(label, "training examples", sum(counts.values()))
    for dataset in train:
        for example in read_jsonl(split_file(datasets / dataset, "train")):
            overlapping |= answers.occurring_in(text_of(example))
            progress.add()
    progress.end()
    return overlapping
