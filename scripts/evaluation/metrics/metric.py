"""What a suite measures: figures of each item, and metrics as functions of the summed figures.

    SUITE = means("exact_match", "f1")
    summarize(SUITE, items)  # {"documents": 200, "exact_match": 0.31, "f1": 0.52}

A metric sees only sums over items: a mean is a sum over a count, perplexity and corpus BLEU are functions of summed
figures. So one way to make intervals serves all metrics (scripts/evaluation/results/intervals.py).
"""

import math
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # sums [..., columns] → metric [...]


class Metric(NamedTuple):
    """A number that models are compared by."""

    compute: Statistic
    better: str  # "below" or "above": which side is better
    mean_column: int | None = None  # the column, values 0 to 1, whose mean the metric is; None if it is not a mean
    size_column: int = -1  # the column that says how much a document weighs in the metric: its bytes, or by default 1
    lowest: float = 0.0  # no score is below it
    highest: float = math.inf  # no score is above it

    def within(self, interval: list[float] | None, difference: bool) -> list[float] | None:
        """An interval cut to what a score, or a difference of two scores, can be: t knows nothing of such limits."""
        if interval is None:
            return None
        lowest, highest = self.lowest, self.highest
        if difference:
            lowest, highest = self.lowest - self.highest, self.highest - self.lowest
        return [min(max(end, lowest), highest) for end in interval]


class Suite(NamedTuple):
    """The figures and metrics of a suite.

    An item becomes one row of numbers: its figures in order, a list spread over several columns, and a count of 1.
    """

    figures: dict[str, int]  # key of an item → how many numbers it holds; 1 is a plain number
    metrics: dict[str, Metric]
    compared: tuple[str, ...]  # metrics by which models are compared
    counts: tuple[str, ...] = ()  # figures reported as sums beside the metrics
    data_figures: tuple[str, ...] = ()  # figures that depend on the data alone, so are equal for all models
    faults: tuple[str, ...] = ()  # figures that are no fault of the model's: if one is above 0, nothing was measured
    paired: bool = True  # whether all models have the same items, so that they are compared item by item
    graded: str = ""  # the metric from 0 to 1 by which the report orders items; by default the first that is compared

    @property
    def width(self) -> int:
        return sum(self.figures.values()) + 1

    def columns(self, item: dict) -> list[float]:
        """The numbers of an item, [width].

        Raises:
            KeyError: the item lacks a figure.
            ValueError: a figure does not have as many numbers as it should.
        """
        values = [item[name] if size > 1 else [item[name]] for name, size in self.figures.items()]
        for (name, size), value in zip(self.figures.items(), values, strict=True):
            if not isinstance(value, list) or len(value) != size:
                raise ValueError(f"{name} is not a list of {size} numbers")
        return [*chain(*values), 1]

    def measured(self, sums: np.ndarray) -> bool:
        """Whether nothing went wrong that was no fault of the model's; `sums` are [width] sums over its items."""
        return not any(sums[self.column(name)] for name in self.faults)

    def value(self, metric: str, sums: np.ndarray) -> float | None:
        """A metric of [width] sums; None if it was not measured, or is a share of nothing."""
        value = float(self.metrics[metric].compute(sums))
        if self.measured(sums) and not math.isnan(value):
            return value
        return None

    def column(self, figure: str) -> int:
        """The number of a figure's first column."""
        names = list(self.figures)
        return sum(self.figures[name] for name in names[: names.index(figure)])


def means(*figures: str) -> Suite:
    """A suite whose metrics are the means of its figures, each from 0 to 1, higher being better."""

    def mean(column: int) -> Metric:
        return Metric(lambda sums: sums[..., column] / sums[..., -1], "above", column, highest=1.0)

    return Suite(dict.fromkeys(figures, 1), {name: mean(column) for column, name in enumerate(figures)}, figures)


def summarize(suite: Suite, items: list[dict]) -> dict:
    """`{"documents": number of items, **counts, **metrics}`; a metric that was not measured is None."""
    sums = np.sum([suite.columns(item) for item in items], axis=0, dtype=np.float64)
    counts = {name: int(sums[suite.column(name)]) for name in suite.counts}
    return {"documents": len(items), **counts} | {name: suite.value(name, sums) for name in suite.metrics}


def by_language(items: list[dict], summary: Callable[[list[dict]], dict]) -> dict[str, dict]:
    """`summary` over all items of a dataset, and over those of each language."""
    languages = sorted({item["language"] for item in items})
    chosen = {}
    for language in languages:
        chosen[language] = [item for item in items if item["language"] == language]
    return {"all": summary(items)} | {language: summary(subset) for language, subset in chosen.items()}


def score_line(name: str, dataset: str, suite: Suite, score: dict) -> str:
    """A log line for one dataset, as `qa instruct: exact match 0.310, f1 0.520 over 200 documents`. `name`: of the
    suite; `score`: what `summarize` returns."""
    values = {metric: score[metric] for metric in suite.metrics}
    if any(value is not None for value in values.values()):  # a chat has bits per byte, but no lines
        values = {metric: value for metric, value in values.items() if value is not None}
    metrics = ", ".join(
        f"{metric.replace('_', ' ')} {'not measured' if value is None else f'{value:.3f}'}"
        for metric, value in values.items()
    )
    counts = "".join(f", {score[count]:,} {count}" for count in suite.counts if score[count])
    return f"{name} {dataset}: {metrics} over {score['documents']:,} documents{counts}"
