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

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

from benchmarks.own_code.repositories import write_repositories
from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.evaluation.metrics.registry import suites
from scripts.evaluation.results.items import read_scored
from scripts.evaluation.results.seeds_and_documents import compare_seeds, difference_in_differences, document_values
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


def changes(results: Path, suite_name: str, metric: str) -> dict[str, dict[str, np.ndarray]]:
    """dataset → arm → float64 [seeds, documents]: what each document adds to the change of a metric since START."""
    experiment = load_experiment(read_yaml(EXPERIMENT), str(EXPERIMENT))
    chosen = arm_scores(ExperimentView(experiment, {}, Layout(results)))
    suite = suites([suite_name])[suite_name]
    models = list(dict.fromkeys([START, *(model for names in chosen.models.values() for model in names)]))
    scored = read_scored(Layout(results).suite(suite_name, ""), suite, models, chosen.datasets[suite_name])
    changes_of_dataset = {}
    for dataset, documents in scored.items():
        columns = dict(zip(models, np.split(documents.columns, len(models), axis=1), strict=True))
        values = {model: document_values(own, suite.metrics[metric].compute) for model, own in columns.items()}
        changes_of_dataset[dataset] = {
            arm: np.stack([values[model] - values[START] for model in names]) for arm, names in chosen.models.items()
        }
    return changes_of_dataset


def rows_of(results: Path) -> list[dict]:
    """The rows of the table: changes, differences in differences, and the arms against each other."""
    rows = []

    def add(name: str, arm: str, compared, documents: int) -> None:
        rows.append({"what": name, "arm": NAMES.get(arm, arm), "documents": documents, **compared._asdict()})

    perplexity = changes(results, "perplexity", "bits_per_byte")
    for dataset, arms in perplexity.items():
        for arm, table_of in arms.items():
            add(f"bits per byte, {TITLES[dataset]}", arm, compare_seeds(table_of, CONFIDENCE), table_of.shape[1])
    for dataset in FROM:
        for arm in NAMES:
            own, general = perplexity[dataset][arm], perplexity[GENERAL][arm]
            compared = difference_in_differences(own, general, CONFIDENCE)
            name = f"{TITLES[dataset]}, beyond general"
            add(name, arm, compared, own.shape[1] + general.shape[1])
    for dataset in FROM:
        own, general = (arms["reference"] - arms["other"] for arms in (perplexity[dataset], perplexity[GENERAL]))
        add(f"{TITLES[dataset]}", "own - placebo", compare_seeds(own, CONFIDENCE), own.shape[1])
        compared = difference_in_differences(own, general, CONFIDENCE)
        add(f"{TITLES[dataset]}, beyond general", "own - placebo", compared, own.shape[1] + general.shape[1])
    for metric in ("answer_bits_per_byte", "edit_similarity"):
        for size, arms in changes(results, "completion", metric).items():
            for arm, table_of in arms.items():
                name = f"{metric.replace('_', ' ')}, {size} of networkx"
                add(name, arm, compare_seeds(table_of, CONFIDENCE), table_of.shape[1])
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
