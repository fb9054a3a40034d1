"""The scores of an eval.json as a tidy table: a row per model, suite, dataset, language and metric.

table = scores_table(evaluation)
table[(table.suite == "qa") & (table.language == "all")]

The same with the latency is results/scores.csv: in a notebook, `pd.read_csv("results/scores.csv")`. Latency has neither
dataset nor language, and its items are timed runs. Interval ends are empty if there are too few items.
"""

import pandas as pd

from scripts.evaluation.suites import abouts
from scripts.evaluation.suites.latency import METRICS, RUNS

COLUMNS = ["model", "suite", "dataset", "language", "metric", "value", "interval_low", "interval_high", "items"]


def scores_table(evaluation: dict) -> pd.DataFrame:
    """All metrics with their intervals; suites in their fixed order, the base before other models.

    Columns: model, suite, dataset, language (or `all`), metric, value, interval_low and interval_high (NaN if there are
    too few items), items (how many were scored).
    """
    scores = evaluation["scores"]
    rows = [
        (
            model,
            suite,
            dataset,
            language,
            metric,
            score["value"],
            *(score["interval"] or (None, None)),
            row["documents"],
        )
        for suite in abouts()
        for model in sorted(scores, key=lambda model: model != "base")
        for dataset, languages in scores[model].get(suite, {}).items()
        for language, row in languages.items()
        for metric, score in row.items()
        if isinstance(score, dict)  # other entries are counts
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({"value": float, "interval_low": float, "interval_high": float})


def compared_scores(evaluation: dict) -> pd.DataFrame:
    """The scores by metrics that models are compared by; all scores of a suite without comparisons."""
    table = scores_table(evaluation)
    compared = {}
    for row in evaluation["comparisons"]:
        compared.setdefault(row["suite"], set()).add(row["metric"])
    return table[
        [metric in compared.get(suite, [metric]) for suite, metric in zip(table.suite, table.metric, strict=True)]
    ]


def latency_table(evaluation: dict) -> pd.DataFrame:
    """The medians over timed runs of the models whose latency was measured, in the columns of `scores_table`."""
    rows = []
    for model, timed in (evaluation["latency"] or {}).items():
        if "not_applicable" not in timed:
            for metric in METRICS:
                interval = timed[metric]["interval"] or (None, None)
                rows.append((model, "latency", None, None, metric, timed[metric]["value"], *interval, RUNS))
    return pd.DataFrame(rows, columns=COLUMNS)


def scores_csv(evaluation: dict) -> str:
    """The content of scores.csv."""
    tables = [table for table in (scores_table(evaluation), latency_table(evaluation)) if len(table)]
    return pd.concat(tables).to_csv(index=False)
