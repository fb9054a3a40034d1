"""Read the eval.json of a run."""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.known_hashes import KnownHashes
from scripts.experiment.layout import Layout
from scripts.experiment.reruns.provenance import provenance_file, read_provenance

CONTAMINATED_EXAMPLES = 3  # shown per dataset
KEYS = {
    "experiment",
    "verdict",
    "question",
    "gates",
    "scores",
    "comparisons",
    "summary",
    "stages",
    "scoring",
    "latency",
    "human_ratings",
    "contamination",
    "baselines",
    "unit",
    "inputs",
}


def in_order(stages: dict[str, dict], train: dict[str, dict]) -> dict[str, dict]:
    """The stages in the order of training; eval.json sorts them by name. `train`: the experiment's `training.train`."""

    def before(stage: str) -> int:
        origin = train.get(stage, {}).get("from")
        if origin in train:
            return 1 + before(origin)
        return 0

    return dict(sorted(stages.items(), key=lambda item: before(item[0])))


def read_evaluation(results: Path) -> dict:
    """The eval.json that rule gate wrote below the results root, its stages in the order in which they are trained.
    Raises UserError: it is missing, or rule gate did not write it."""
    path = Layout(results).gate
    if not path.is_file():
        raise UserError(f"{path}: no such file; {results} is not the results folder of a run that ended")
    evaluation = read_json(path)
    if not isinstance(evaluation, dict) or not evaluation.keys() >= KEYS:
        raise UserError(f"{path}: not written by rule gate; delete it and run again")
    check_items(results, evaluation)
    train = evaluation["inputs"]["experiment"].get("training", {}).get("train", {})
    return evaluation | {"stages": in_order(evaluation["stages"], train)}


def check_items(results: Path, evaluation: dict) -> None:
    """Check that the items from which pages and comparisons are made are those that rule gate read. Raises UserError:
    one was edited."""
    record = provenance_file(Layout(results).gate)
    if not record.is_file():
        return
    made_in = evaluation["inputs"]["experiment"]["results"]  # the folder may have been moved since
    hashes = KnownHashes()  # the workflow has noted those of the files that it made
    for name, expected in read_provenance(record).inputs.items():
        if name.endswith("items.jsonl.zst"):
            path = results / Path(name).relative_to(made_in)
            if path.is_file() and hashes.sha256(path) != expected:  # one that is missing is missed by who needs it
                raise UserError(
                    f"{path}: not what {Layout(results).gate} was made from; run the workflow again, or pull the file"
                )


def contamination_rows(evaluation: dict) -> list[dict]:
    """Per suite and dataset the counts `problems`, `too_short`, `overlapping`, and `examples` with most overlap."""
    rows = []
    for suite, datasets in (evaluation["contamination"] or {"suites": {}})["suites"].items():
        for dataset, overlaps in datasets.items():
            runs = [{"id": identity, **run} for identity, run in overlaps["overlapping"].items()]
            longest_runs = sorted(runs, key=lambda run: (-run["share"], run["id"]))[:CONTAMINATED_EXAMPLES]
            counts = {key: overlaps[key] for key in ("problems", "too_short")} | {"overlapping": len(runs)}
            rows.append({"suite": suite, "dataset": dataset, **counts, "examples": longest_runs})
    return rows
