"""Which evaluation problems stand, in part, in the training data: runs of 10 words that both hold.

    python -m scripts.evaluation.contamination --datasets results/corpus/compose --train code instruct \\
        --settings '{"words": 10, "common": 0.05, "suites": {"qa": {"datasets": ["instruct"], "documents": 200}}}' \\
        --out results/evaluation/contamination/overlaps.json

A problem is its prompt and its reference or published solution. The problems are those that the suites score; the
training data are all turns of all examples in the train splits. Runs that many problems of a dataset share are their
form (a system prompt, a list of includes) and say nothing of any one of them: those are left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.common.cli import parser, run, settings
from scripts.common.files import read_jsonl, sha256_file, write_json
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.ngrams import NGrams
from scripts.evaluation.generation.examples import pick, question, read_cases, test_hashes
from scripts.experiment.suites import dataset_of

SHOWN = 1000  # characters of a run that are told as evidence


class Problem(NamedTuple):
    """What a suite asks, and the text that is looked for."""

    suite: str
    dataset: str
    id: str
    language: str
    text: str

    @property
    def groups(self) -> list[tuple[str, str, str]]:
        """What problems of one form are: those of a dataset, and those of a language in it."""
        return [(self.suite, self.dataset, language) for language in ("all", self.language)]


class Run(NamedTuple):
    """Consecutive words of a problem that stand in a training document, at least `words` of them."""

    length: int
    dataset: str
    document: str
    words: str


def of_chat(messages: list[dict]) -> str:
    """All that is said in a chat."""
    return "\n".join(message["content"] for message in messages)


def files_of(wanted: dict) -> list[str]:
    """The files of cases or problems that `wanted` names."""
    return [wanted["cases"]] if "cases" in wanted else [one["path"] for one in wanted["benchmarks"]]


def asked(suite: str, wanted: dict, datasets: Path) -> Iterator[Problem]:
    """The problems of a suite.

    Args:
        wanted: what `prompts_from` of scripts/experiment/suites.py leaves of its settings.

    Raises:
        UserError: they cannot be read.
    """
    for place, dataset in enumerate(wanted.get("datasets") or map(dataset_of, files_of(wanted))):
        if "datasets" in wanted:
            for chat in pick(datasets / dataset / "test.jsonl.zst", wanted["documents"]):
                prompt, reference = question(chat)
                yield Problem(suite, dataset, chat["id"], chat["language"], f"{of_chat(prompt)}\n{reference}")
        elif "cases" in wanted:
            for case in read_cases(Path(wanted["cases"])):
                yield Problem(suite, dataset, case["id"], case["language"], case["prompt"])
        else:
            for problem in formats.read(Path(wanted["benchmarks"][place]["path"])):
                solved = problem.prompt + (problem.canonical or "")
                yield Problem(suite, dataset, problem.id, problem.language, solved)


def data_of(suite: str, wanted: dict, datasets: Path) -> dict[str, str]:
    """The sha256 of each dataset's file, as the suite's scores.json has it.

    Raises:
        UserError: a dataset is not there, or not what its manifest says.
    """
    if "datasets" in wanted:
        return test_hashes(datasets, wanted["datasets"], suite)
    return {dataset_of(file): sha256_file(Path(file)) for file in files_of(wanted)}


def text_of(example: dict) -> str:
    """The text of a training example; a document that was parted for fill-in-the-middle is put together again."""
    if "messages" in example:
        return of_chat(example["messages"])
    return example["text"] if "text" in example else example["prefix"] + example["middle"] + example["suffix"]


class Search:
    """Which problems share n-grams with the training documents.

    Attributes:
        shared: of each problem, how many of its n-grams were found that are not common.
        longest: of each problem, the longest run seen around such an n-gram; none where nothing overlaps.
    """

    def __init__(self, problems: list[Problem], words: int, common: float):
        self.problems, self.grams = problems, NGrams([problem.text for problem in problems], words)
        sizes = Counter(group for problem in problems for group in set(problem.groups))
        self.most = {group: max(1, common * size) for group, size in sizes.items()}
        self.shared, self.longest = Counter(), {}

    def distinct(self, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Of the places of one n-gram those in datasets where it is not common."""
        holders = defaultdict(set)
        for problem, _ in places:
            for group in self.problems[problem].groups:
                holders[group].add(problem)
        return [
            (problem, start)
            for problem, start in places
            if all(len(holders[group]) <= self.most[group] for group in self.problems[problem].groups)
        ]

    def look(self, dataset: str, document: str, text: str) -> None:
        """Look for what was not found yet in a training document."""
        ends = {}  # (problem, how much further on its words stand here) → where the last run seen ends
        for there, at, places in self.grams.new_in(text):
            for problem, start in self.distinct(places):
                self.shared[problem] += 1
                line = problem, at - start
                if start < ends.get(line, 0):
                    continue
                ours, size = self.grams.words[problem], self.grams.size
                first, last, shift = start, start + size, at - start
                while first and first + shift and ours[first - 1] == there[first - 1 + shift]:
                    first -= 1
                while last < len(ours) and last + shift < len(there) and ours[last] == there[last + shift]:
                    last += 1
                ends[line] = last
                if problem not in self.longest or last - first > self.longest[problem].length:
                    shown = " ".join(ours[first:last])[:SHOWN]
                    self.longest[problem] = Run(last - first, dataset, document, shown)


def contamination(datasets: Path, train: list[str], wanted: dict) -> dict:
    """What overlaps.json holds.

    Args:
        datasets: folder of the composed datasets.
        train: names of those that stages train on.
        wanted: `words`, `common`, and `suites`: of each what `asks` leaves of its settings.

    Raises:
        UserError: problems or training data cannot be read, or are not what their manifest says.
    """
    problems = [problem for suite, asks in wanted["suites"].items() for problem in asked(suite, asks, datasets)]
    search = Search(problems, wanted["words"], wanted["common"])
    manifests = {dataset: read_manifest(datasets / dataset) for dataset in train}
    progress = Progress("contamination", "examples", sum(one["examples"]["train"] for one in manifests.values()))
    for dataset in train:
        for example in read_jsonl(datasets / dataset / "train.jsonl.zst"):
            search.look(dataset, example["id"], text_of(example))
            progress.add()
    progress.end()
    found = {
        suite: {
            dataset: {"data": data, "problems": 0, "too_short": 0, "overlapping": {}}
            for dataset, data in data_of(suite, asks, datasets).items()
        }
        for suite, asks in wanted["suites"].items()
    }
    for number, (problem, grams) in enumerate(zip(problems, search.grams.sizes.tolist(), strict=True)):
        row = found[problem.suite][problem.dataset]
        row["problems"] += 1
        row["too_short"] += not grams
        if number in search.longest:
            share = search.shared[number] / grams
            row["overlapping"][problem.id] = {"share": share} | search.longest[number]._asdict()
    return {
        "words": wanted["words"],
        "common": wanted["common"],
        "train": {dataset: manifest["files"]["train.jsonl.zst"]["sha256"] for dataset, manifest in manifests.items()},
        "suites": found,
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--datasets", type=Path, required=True, help="folder of the composed datasets")
    arguments.add_argument("--train", nargs="+", required=True, help="names of the datasets that stages train on")
    arguments.add_argument("--settings", type=settings, required=True, help="words, common, and what suites ask")
    arguments.add_argument("--out", type=Path, required=True, help="overlaps.json")
    given = arguments.parse_args()
    write_json(given.out, contamination(given.datasets, given.train, given.settings))


if __name__ == "__main__":
    run(main)
