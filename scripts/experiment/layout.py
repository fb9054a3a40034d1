"""The paths of all files below the results root and of the raw archives; they are defined nowhere else.

    layout = Layout(Path("results"))
    layout.dataset("instruct") / MANIFEST      # results/corpus/compose/instruct/manifest.json

A folder is named after its area and rule. Rules give a wildcard as a name (`{source}`), scripts the name itself.
"""

from dataclasses import dataclass
from pathlib import Path

from scripts.common import manifest

MANIFEST = manifest.NAME
SPLITS = ("train", "validation", "test")
PACKED_SPLITS = ("train", "validation")  # a test split is read as text
SHARD_FILES = ("tokens.bin", "flags.bin", "pieces.npy", "documents.txt")  # of each packed split
FIRST_COMMITS = "first_commits.jsonl.zst"  # of the files of a git source


def raw_name(source: str, pin: str) -> str:
    """The name of a source's archive: with its pin, so that experiments with other pins of it live side by side."""
    return f"{source}-{pin[:12]}"


def raw_archive(name: str) -> Path:
    """The archive of this `raw_name`; its DVC pointer, where it is published, has `.dvc` behind its name."""
    return Path(f"data/raw/{name}.tar.zst")


def is_published(name: str) -> bool:
    """Whether DVC has the archive of this `raw_name`."""
    return Path(f"{raw_archive(name)}.dvc").is_file()


def raw_manifest(name: str) -> Path:
    """The manifest of this `raw_name`: kind, location and pin of the source, hash and counts of the archive."""
    return Path(f"data/raw/{name}.json")


def split_file(folder: Path, split: str) -> Path:
    """The documents of a split, of the whole corpus or of a dataset."""
    return folder / f"{split}.jsonl.zst"


def shard_files(folder: Path) -> list[Path]:
    """The big files of a folder of shards."""
    found = []
    for split in PACKED_SPLITS:
        for file in SHARD_FILES:
            found.append(folder / f"{split}.{file}")
    return found


def architecture_file(key: str) -> Path:
    """What a model's architecture can be trained with; named by its content, so that all experiments share it."""
    return Path("results/work/architectures") / f"{key}.json"


@dataclass(frozen=True)
class Layout:
    """The paths below a results root. With `Path()` they are relative to the root."""

    results: Path

    def log(self, area: str, rule: str, name: str = "") -> Path:
        """The log of a job; `name` holds its wildcards. Raw archives serve all experiments, so their logs lie apart."""
        folder = Path("logs") if area == "sources" else self.results / "logs"
        return folder / area / (f"{rule}/{name}.log" if name else f"{rule}.log")

    def fetched(self, shard: str) -> Path:
        """What was fetched of a shard of several sources; the archives lie in data/raw as always."""
        return self.results / "sources/fetch" / shard

    def history(self, name: str) -> Path:
        """The first commits of a git source's files, for a split by time; of a shard the list of its sources' files."""
        return self.results / "sources/history" / name

    def filtered(self, name: str) -> Path:
        """The documents and rejects of a source; of a shard the list of its sources' files."""
        return self.results / "corpus/filter" / name

    def signatures(self, shard: str) -> Path:
        """The signatures of a shard of the sources."""
        return self.results / "corpus/signatures" / shard

    @property
    def deduplicated(self) -> Path:
        return self.results / "corpus/deduplicate"

    @property
    def split(self) -> Path:
        return self.results / "corpus/split"

    def dataset(self, name: str) -> Path:
        return self.results / "corpus/compose" / name

    @property
    def tokenizer(self) -> Path:
        return self.results / "tokens/tokenizer"

    def shards(self, dataset: str, length: int | str) -> Path:
        """The packed rows of a dataset, `length` tokens each."""
        return self.results / "tokens/pack" / f"{dataset}-{length}"

    def mixture(self, name: str, length: int | str) -> Path:
        """The rows of a mixture of packed datasets."""
        return self.results / "tokens/mix" / f"{name}-{length}"

    def model(self, name: str) -> Path:
        """The model of a stage, or `base`."""
        return self.results / "training" / ("base" if name == "base" else f"train/{name}")

    def plan(self, stage: str) -> Path:
        return self.results / "training/plan" / f"{stage}.json"

    def work(self, stage: str) -> Path:
        """The folder of a stage's checkpoints, one below it for each fingerprint of settings and inputs."""
        return self.results / "work/train" / stage

    def suite(self, suite: str, model: str) -> Path:
        """The folder of a suite's `scores.json` and `items.jsonl.zst` for a model."""
        return self.results / "evaluation" / suite / model

    def problems(self, file: str) -> Path:
        """A benchmark file out of a pinned repository."""
        return self.results / "evaluation/problems" / file

    def tasks(self, rule: str) -> Path:
        """The folder of the tasks that a rule makes for its suite, and their manifest."""
        return self.results / "evaluation" / rule

    @property
    def agreement(self) -> Path:
        return self.results / "evaluation/human_ratings/agreement.json"

    @property
    def baselines(self) -> Path:
        """What a compressor makes of the examples that suite `perplexity` scores."""
        return self.results / "evaluation/baselines"

    @property
    def overlaps(self) -> Path:
        return self.results / "evaluation/contamination/overlaps.json"

    @property
    def gate(self) -> Path:
        """eval.json before the verdict."""
        return self.results / "evaluation/gate/eval.json"

    @property
    def code_records(self) -> Path:
        """The folder of the records of code, one for each fingerprint (scripts/experiment/reruns/causes.py)."""
        return self.results / "code"

    @property
    def cards(self) -> Path:
        """The folder of the data cards, a Markdown page for each dataset."""
        return self.results / "report/cards"

    @property
    def page(self) -> Path:
        return self.results / "report.html"

    @property
    def scores(self) -> Path:
        """All scores as one tidy table."""
        return self.results / "scores.csv"

    @property
    def evaluation(self) -> Path:
        """eval.json, the last file of a run."""
        return self.results / "eval.json"

    def release(self, stage: str) -> Path:
        """The folder of a stage's model as others get it."""
        return self.results / "release" / stage

    @property
    def owner(self) -> Path:
        """The name of the experiment whose results these are."""
        return self.results / "work/experiment"

    @property
    def run(self) -> Path:
        """The run that works on these results, which holds a lock on this file."""
        return self.results / "work/run.json"

    @property
    def jobs(self) -> Path:
        """The jobs of the experiment, as Snakemake knows them (scripts/hosts/job_graph.py)."""
        return self.results / "work/jobs.json"

    @property
    def served(self) -> Path:
        """The note of a running `stagecraft serve`."""
        return self.results / "work/serve.json"

    @property
    def arguments(self) -> Path:
        """The folder of values that are too long for a command line (scripts/experiment/arguments.py)."""
        return self.results / "work/arguments"
