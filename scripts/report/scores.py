"""Write all scores of a run as one tidy table: results/scores.csv.

    python -m scripts.report.scores --results results

In a notebook: `pd.read_csv("results/scores.csv")`. Columns: model, suite, dataset, language (or `all`), metric, value,
interval_low, interval_high, items. Latency has neither dataset nor language, and its items are timed runs. Interval
ends are empty if there are too few items.
"""

from pathlib import Path

import pandas as pd

from scripts.common.cli import parser, run
from scripts.common.files import atomic
from scripts.experiment.layout import Layout
from scripts.experiment.suites import METRICS
from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.scores_table import COLUMNS, scores_table


def latency_table(evaluation: dict) -> pd.DataFrame:
    """The medians over timed runs of the models whose latency was measured, in the columns of `scores_table`."""
    rows = []
    for model, timed in (evaluation["latency"] or {}).items():
        if "not_applicable" not in timed:
            runs = evaluation["inputs"]["experiment"]["evaluation"]["latency"]["runs"]
            for metric in METRICS["latency"]:
                interval = timed[metric]["interval"] or (None, None)
                rows.append((model, "latency", None, None, metric, timed[metric]["value"], *interval, runs))
    return pd.DataFrame(rows, columns=COLUMNS)


def write_scores(results: Path) -> None:
    """Write scores.csv to the results root.

    Raises:
        UserError: eval.json is missing or malformed.
    """
    evaluation = read_evaluation(results)
    tables = [table for table in (scores_table(evaluation), latency_table(evaluation)) if len(table)]
    with atomic(Layout(results).scores) as temporary:
        pd.concat(tables).to_csv(temporary, index=False)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--results", type=Path, required=True, help="the results root")
    write_scores(arguments.parse_args().results)


if __name__ == "__main__":
    run(main)
