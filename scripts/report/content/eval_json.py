"""Read the eval.json of a run."""

from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import Layout

CONTAMINATED_EXAMPLES = 3  # shown per dataset
KEYS = {
    "experiment",
    "verdict",
    "gates",
    "scores",
    "comparisons",
    "summary",
    "stages",
    "scoring",
    "latency",
    "human",
    "contamination",
    "inputs",
}


def read_evaluation(results: Path) -> dict:
    """The eval.json that rule gate wrote below the results root.

    Raises:
        UserError: it is missing, or rule gate did not write it.
    """
    path = Layout(results).gate
    evaluation = read_json(path)
    if not isinstance(evaluation, dict) or not evaluation.keys() >= KEYS:
        raise UserError(f"{path}: not written by rule gate; delete it and run again")
    return evaluation


def contamination_rows(evaluation: dict) -> list[dict]:
    """Per suite and dataset the counts `problems`, `too_short`, `overlapping`, and `examples` with most overlap."""
    rows = []
    for suite, datasets in (evaluation["contamination"] or {"suites": {}})["suites"].items():
        for dataset, overlaps in datasets.items():
            runs = [{"id": identity, **run} for identity, run in overlaps["overlapping"].items()]
            most = sorted(runs, key=lambda run: (-run["share"], run["id"]))[:CONTAMINATED_EXAMPLES]
            counts = {key: overlaps[key] for key in ("problems", "too_short")} | {"overlapping": len(runs)}
            rows.append({"suite": suite, "dataset": dataset, **counts, "examples": most})
    return rows
