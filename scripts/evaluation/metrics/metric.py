"""What a suite measures: figures of each item, and metrics as functions of their sums.

    SUITE = means("exact_match", "f1")
    summarize(SUITE, items)  # {"documents": 200, "exact_match": 0.31, "f1": 0.52}

A metric knows its items only through sums over them: a mean is a sum over a count, perplexity and corpus BLEU are
functions of summed figures. So one bootstrap over items serves all of them (scripts/evaluation/results/intervals.py).
"""

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # sums [..., columns] → metric [...]


class Metric(NamedTuple):
    """A number that a model is judged by."""

    of: Statistic
    better: str  # "below" or "above": the side where a better model's value lies
    mean: int | None = None  # the column, values 0 to 1, of which it is the mean; None where it is no mean


class Suite(NamedTuple):
    """The columns of a suite are its figures in order, a list spread over as many as it holds, and a count of 1."""

    figures: dict[str, int]  # key of an item → how many numbers stand there; 1 is a number by itself
    metrics: dict[str, Metric]
    compared: tuple[str, ...]  # metrics that say how models differ
    counts: tuple[str, ...] = ()  # figures that are told beside the metrics, as sums
    same: tuple[str, ...] = ()  # figures of the data, not of the model

    @property
    def width(self) -> int:
        return sum(self.figures.values()) + 1

    def columns(self, item: dict) -> list[float]:
        """The numbers of an item, [width].

        Raises:
            KeyError: the item lacks a figure.
            ValueError: a figure is not as many numbers as it should be.
        """
        values = [item[name] if size > 1 else [item[name]] for name, size in self.figures.items()]
        for (name, size), found in zip(self.figures.items(), values, strict=True):
            if not isinstance(found, list) or len(found) != size:
                raise ValueError(f"{name} is no list of {size} numbers")
        return [*chain(*values), 1]

    def column(self, figure: str) -> int:
        """The number of a figure's first column."""
        names = list(self.figures)
        return sum(self.figures[name] for name in names[: names.index(figure)])


def means(*figures: str) -> Suite:
    """A suite whose metrics are the means of its figures, each 0 to 1, more being better."""

    def mean(column: int) -> Metric:
        return Metric(lambda sums: sums[..., column] / sums[..., -1], "above", column)

    return Suite(dict.fromkeys(figures, 1), {name: mean(place) for place, name in enumerate(figures)}, figures)


def summarize(suite: Suite, items: list[dict]) -> dict:
    """`{"documents": how many, **counts, **metrics}` of some items."""
    sums = np.sum([suite.columns(item) for item in items], axis=0, dtype=np.float64)
    counts = {name: int(sums[suite.column(name)]) for name in suite.counts}
    return {"documents": len(items), **counts} | {
        name: float(metric.of(sums)) for name, metric in suite.metrics.items()
    }


def by_language(items: list[dict], summary: Callable[[list[dict]], dict]) -> dict[str, dict]:
    """`summary` of all items of a dataset, and of those of each language."""
    languages = sorted({item["language"] for item in items})
    chosen = {language: [item for item in items if item["language"] == language] for language in languages}
    return {"all": summary(items)} | {language: summary(some) for language, some in chosen.items()}
