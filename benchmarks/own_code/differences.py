"""Does it know our code? The differences in differences of config/examples/own-code.yaml.

    stagecraft proof

Of each arm, trained with several seeds from one pretrained model: how bits per byte changed on files that were added to
each repository after the date, and how much more on the own repository's than on those of general ones. An arm that
knows a repository moved further there than elsewhere; the placebo did not. Prints the table, writes differences.json
and differences.svg.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

from benchmarks.own_code.repositories import write_repositories
from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.evaluation.metrics.registry import suites
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.intervals import Estimate
from scripts.evaluation.results.items import read_scored
from scripts.evaluation.results.seeds_and_documents import compare_seeds, difference_in_differences
from scripts.experiment.ablation_files import arm_scores
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.report.content.drawing import BLUE, GREY, WIDTH, save
from scripts.report.content.formatting import interval, number, table

EXPERIMENT = Path("config/examples/own-code.yaml")
START, CONFIDENCE = "pretrain", 0.95
FROM, GENERAL = ("ours_new", "other_new"), "general_new"
NAMES = {"reference": "own (networkx)", "other": "placebo (sqlalchemy)"}
TITLES = {"ours_new": "networkx, new files", "other_new": "sqlalchemy, new files", "general_new": "general, new files"}


class Changes(NamedTuple):
    """How much each arm's models changed on the documents of a dataset since START."""

    by_arm: dict[str, np.ndarray]  # float64 [seeds, clusters]: what each cluster adds to the change of a metric
    documents: int
    effective: float  # for how many equal clusters they count


def changes(results: Path, suite_name: str, metric: str) -> dict[str, Changes]:
    """The changes on each dataset."""
    experiment = load_experiment(read_yaml(EXPERIMENT), str(EXPERIMENT))
    chosen = arm_scores(ExperimentView(experiment, {}, Layout(results)))
    suite = suites([suite_name])[suite_name]
    models = list(dict.fromkeys([START, *(model for names in chosen.models.values() for model in names)]))
    folder, datasets = Layout(results).suite(suite_name, ""), chosen.datasets[suite_name]
    scored = read_scored(folder, suite, models, datasets, chosen.unit)
    comparison, found = SuiteComparison(suite, scored, models, CONFIDENCE), {}
    for dataset, documents in scored.items():
        place = dataset, "all"
        values = {model: comparison.in_clusters(metric, place, model) for model in models}
        by_arm = {}
        for arm, names in chosen.models.items():
            by_arm[arm] = np.stack([values[model] - values[START] for model in names])
        found[dataset] = Changes(by_arm, len(documents.ids), comparison.effective(metric, place, START))
    return found


def rows_of(results: Path) -> list[dict]:
    """The rows of the table: changes, differences in differences, and the arms against each other."""
    rows = []

    def add(name: str, arm: str, compared: Estimate, *datasets: Changes) -> None:
        documents = sum(dataset.documents for dataset in datasets)
        rows.append({"what": name, "arm": NAMES.get(arm, arm), "documents": documents, **compared._asdict()})

    perplexity = changes(results, "perplexity", "bits_per_byte")
    general = perplexity[GENERAL]
    for dataset, changed in perplexity.items():
        for arm, table_of in changed.by_arm.items():
            add(
                f"bits per byte, {TITLES[dataset]}",
                arm,
                compare_seeds(table_of, changed.effective, CONFIDENCE),
                changed,
            )
    for dataset in FROM:
        own, effective = perplexity[dataset], (perplexity[dataset].effective, general.effective)
        for arm in NAMES:
            compared = difference_in_differences(own.by_arm[arm], general.by_arm[arm], effective, CONFIDENCE)
            add(f"{TITLES[dataset]}, beyond general", arm, compared, own, general)
    for dataset in FROM:
        own, effective = perplexity[dataset], (perplexity[dataset].effective, general.effective)
        gaps = [side.by_arm["reference"] - side.by_arm["other"] for side in (own, general)]
        add(TITLES[dataset], "own - placebo", compare_seeds(gaps[0], own.effective, CONFIDENCE), own)
        compared = difference_in_differences(*gaps, effective, CONFIDENCE)
        add(f"{TITLES[dataset]}, beyond general", "own - placebo", compared, own, general)
    for metric in ("answer_bits_per_byte", "edit_similarity"):
        for size, changed in changes(results, "completion", metric).items():
            for arm, table_of in changed.by_arm.items():
                name = f"{metric.replace('_', ' ')}, {size} of networkx"
                add(name, arm, compare_seeds(table_of, changed.effective, CONFIDENCE), changed)
    return rows


def lines(rows: list[dict]) -> list[str]:
    """The table for a terminal."""
    head = ("change since pretraining", "arm", "documents", "change", f"{CONFIDENCE:.0%} interval")
    return table(
        [
            head,
            *(
                (
                    row["what"],
                    row["arm"],
                    str(row["documents"]),
                    number(row["value"], True),
                    interval(row["interval"], True),
                )
                for row in rows
            ),
        ]
    )


def picture(rows: list[dict]) -> Figure:
    """The differences in differences: a bar for each arm and repository, and zero."""
    chosen = [row for row in rows if row["what"].endswith("beyond general")]
    figure, axes = pyplot.subplots(figsize=(WIDTH, 2.2), layout="constrained")
    axes.axvline(0, color=GREY, linewidth=1)
    for height, row in enumerate(chosen):
        color = GREY if row["interval"][0] <= 0 <= row["interval"][1] else BLUE
        axes.plot(row["interval"], [height, height], color=color, linewidth=5, alpha=0.4)
        axes.plot(row["value"], height, "o", color=color, markersize=6)
    axes.set_yticks(range(len(chosen)), [f"{row['what'].partition(',')[0]} by {row['arm']}" for row in chosen])
    axes.set_ylim(len(chosen) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_title("bits per byte beyond the change in general")
    return figure


def prove(profile: str) -> None:
    """Make the repositories, run the experiment, and print the table; it is written with its picture, too.

    Raises:
        UserError: a package is not to be had, or a job failed.
    """
    experiment = load_experiment(read_yaml(EXPERIMENT), str(EXPERIMENT))
    results = Path(experiment.results)
    write_repositories(results / "repositories")
    command = [sys.executable, "-m", "snakemake", str(results / "eval.json"), "--profile", profile]
    if subprocess.run([*command, "--configfile", str(EXPERIMENT)], check=False).returncode:
        raise UserError(f"{EXPERIMENT}: a job failed; the lines above say why")
    rows, out = rows_of(results), results / "differences"
    write_json(out / "differences.json", {"confidence": CONFIDENCE, "rows": rows})
    save(picture, rows, out / "differences.svg")
    print("\n".join([*lines(rows), f"picture: {out / 'differences.svg'}"]))
