"""Find evaluation problems that overlap with the training data: both contain the same 10 consecutive words.

    python -m scripts.evaluation.contamination --datasets results/corpus/compose --train code instruct \\
        --settings '{"words": 10, "common": 0.05, "suites": {"qa": {"datasets": ["instruct"], "documents": 200}}}' \\
        --out results/evaluation/contamination/overlaps.json

A problem is its prompt and its reference or published solution. The problems are those that the suites score; the
training data are all turns of all examples in the train splits. What counts as an overlap:
scripts/corpus/similarity/overlaps.py.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from scripts.common.cli import run
from scripts.common.files import read_jsonl, sha256_file, write_json
from scripts.common.manifest import read_manifest
from scripts.common.options import command
from scripts.common.progress import Progress
from scripts.corpus.similarity.overlaps import OverlapSearch, ProblemText
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.generation.examples import (
    chat_text,
    pick_examples,
    read_cases,
    split_chat,
    test_hashes,
    text_of,
)
from scripts.evaluation.suites import dataset_of
from scripts.experiment.settings.record import Record
from scripts.experiment.settings.suites import Benchmark


class Prompts(Record):
    """The settings that decide a suite's prompts (`prompts` of its file).

    Either `datasets`, `documents` and `few_shot`, or `cases`, or `benchmarks`.
    """

    datasets: list[str] | None = None
    documents: int | None = None
    few_shot: list[str] | None = None
    cases: str | None = None
    benchmarks: list[Benchmark] | None = None


class ContaminationSettings(Record):
    """What is searched for; rule `contamination` names the suites alone.

    Attributes:
        suites: the prompts of each suite, by its name.
        words: a problem overlaps with a training document if they share this many consecutive words.
        common: word sequences in more than this share of a dataset's problems are ignored as boilerplate.
    """

    suites: dict[str, Prompts]
    words: int = 10
    common: float = 0.05


def read_problems(suite: str, prompts: Prompts, datasets: Path) -> Iterator[ProblemText]:
    """The problems of a suite. Raises UserError: they cannot be read."""
    for dataset in prompts.datasets or ():
        path = datasets / dataset / "test.jsonl.zst"
        for chat in pick_examples(path, prompts.documents, prompts.few_shot):
            prompt, reference = split_chat(chat)
            yield ProblemText(suite, dataset, chat["id"], chat["language"], f"{chat_text(prompt)}\n{reference}")
    if prompts.cases:
        for case in read_cases(Path(prompts.cases)):
            yield ProblemText(suite, dataset_of(prompts.cases), case.id, case.language, case.prompt)
    for benchmark in prompts.benchmarks or ():
        for problem in formats.problems_of(benchmark):
            text = problem.prompt + (problem.canonical or "")
            yield ProblemText(suite, dataset_of(benchmark.path), problem.id, problem.language, text)


def data_of(suite: str, prompts: Prompts, datasets: Path) -> dict[str, str]:
    """The sha256 of each dataset's file, as in the suite's scores.json."""
    if prompts.datasets:
        return test_hashes(datasets, prompts.datasets, suite)
    files = [prompts.cases] if prompts.cases else [benchmark.path for benchmark in prompts.benchmarks]
    return {dataset_of(file): sha256_file(Path(file)) for file in files}


def contamination(datasets: Path, train: list[str], settings: ContaminationSettings, out: Path) -> dict:
    """Write overlaps.json, the file `out`, and return its content.

    Args:
        datasets: folder of the composed datasets.
        train: names of those that stages train on.

    Raises:
        UserError: problems or training data cannot be read, or do not match their manifest.
    """
    problems = []
    for suite, prompts in settings.suites.items():
        problems += read_problems(suite, prompts, datasets)
    search = OverlapSearch(problems, settings.words, settings.common)
    manifests = {dataset: read_manifest(datasets / dataset) for dataset in train}
    progress = Progress(
        "contamination", "examples", sum(manifest["examples"]["train"] for manifest in manifests.values())
    )
    for dataset in train:
        for example in read_jsonl(datasets / dataset / "train.jsonl.zst"):
            search.add(dataset, example["id"], text_of(example))
            progress.add()
    progress.end()
    suites = {}
    for suite, prompts in settings.suites.items():
        suites[suite] = {}
        for dataset, data in data_of(suite, prompts, datasets).items():
            suites[suite][dataset] = {"data": data, "problems": 0, "too_short": 0, "overlapping": {}}
    for number, (problem, grams) in enumerate(zip(problems, search.grams.sizes.tolist(), strict=True)):
        row = suites[problem.suite][problem.dataset]
        row["problems"] += 1
        row["too_short"] += not grams
        if number in search.longest:
            share = search.shared[number] / grams
            row["overlapping"][problem.id] = {"share": share} | search.longest[number]._asdict()
    for suite, rows in suites.items():
        for dataset, row in rows.items():
            logging.info(f"{suite} {dataset}: {len(row['overlapping'])} of {row['problems']} problems overlap")
    overlaps = {
        "words": settings.words,
        "common": settings.common,
        "train": {dataset: manifest["files"]["train.jsonl.zst"]["sha256"] for dataset, manifest in manifests.items()},
        "suites": suites,
    }
    write_json(out, overlaps)
    return overlaps


if __name__ == "__main__":
    run(command(contamination))
