"""One suite over all models: scores with intervals, and paired comparisons."""

import numpy as np

from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.clusters import effective_number, sums_by_cluster
from scripts.evaluation.results.intervals import (
    Estimate,
    cluster_values,
    detectable,
    direction,
    estimate,
    fewest_clusters,
    mcnemar,
    mean_interval,
    tango,
    wilson,
)
from scripts.evaluation.results.items import Documents

Place = tuple[str, str]  # (dataset, language)


class SuiteComparison:
    """The scores of all models in one suite, and the differences between models.

    Args:
        scored: the items of each dataset.
        models: in the order of their columns.
        confidence: level of the intervals.

    Attributes:
        places: every scored (dataset, language); the language `all` is among them.
    """

    def __init__(self, suite: Suite, scored: dict[str, Documents], models: list[str], confidence: float):
        self.suite, self.models, self.confidence = suite, models, confidence
        self.columns: dict[Place, np.ndarray] = {}  # float64 [documents, models * width]
        self.clusters: dict[Place, np.ndarray] = {}  # int [documents]: the cluster of each, counted from 0
        for dataset, documents in scored.items():
            for language in ["all", *sorted(set(documents.languages.tolist()))]:
                chosen = (documents.languages == language) | (language == "all")
                self.columns[dataset, language] = documents.columns[chosen]
                self.clusters[dataset, language] = np.unique(documents.clusters[chosen], return_inverse=True)[1]
        self.places = list(self.columns)

    def figures(self, place: Place, model: str) -> np.ndarray:
        """float64 [documents, width]: the figures of one model."""
        start = self.suite.width * self.models.index(model)
        return self.columns[place][:, start : start + self.suite.width]

    def measured(self, place: Place, model: str) -> bool:
        """Whether nothing went wrong that was no fault of the model's."""
        return self.suite.measured(self.figures(place, model).sum(axis=0))

    def sizes(self, metric: str, place: Place, model: str) -> np.ndarray:
        """float64 [clusters]: how much each cluster weighs in a metric."""
        sizes = self.figures(place, model)[:, [self.suite.metrics[metric].size_column]]
        return sums_by_cluster(sizes, self.clusters[place])[:, 0]

    def effective(self, metric: str, place: Place, model: str) -> float:
        """For how many clusters of equal weight in the metric the place's clusters count."""
        return effective_number(self.sizes(metric, place, model))

    def enough(self, metric: str, place: Place, *models: str) -> bool:
        """Whether so many clusters weigh something in the metric that an interval can be given."""
        fewest = fewest_clusters(self.confidence)
        return all(np.count_nonzero(self.sizes(metric, place, model)) >= fewest for model in models)

    def in_clusters(self, metric: str, place: Place, model: str) -> np.ndarray:
        """float64 [clusters]: what each cluster adds to a metric of one model."""
        sums = sums_by_cluster(self.figures(place, model), self.clusters[place])
        return cluster_values(sums, self.suite.metrics[metric].compute)

    def differing(self, metric: str, place: Place, models: list[str], others: list[str]) -> int:
        """The number of clusters on which any of the first models differs from its partner among the others."""
        own_columns, differ = self.own_columns(metric), np.zeros(len(self.columns[place]), dtype=bool)
        for model, other in zip(models, others, strict=True):
            figures, of_other = self.figures(place, model), self.figures(place, other)
            differ |= (figures[:, own_columns] != of_other[:, own_columns]).any(axis=1)
        return len(set(self.clusters[place][differ].tolist()))

    def own_columns(self, metric: str) -> list[int]:
        """The numbers of a model's columns that a metric is made of; counts of kinds of outcome are not among them."""
        column = self.suite.metrics[metric].mean_column
        if column is not None:
            return [column]
        counted = {self.suite.column(name) for name in self.suite.counts} - {
            self.suite.column(name) for name in self.suite.data_figures
        }
        return [number for number in range(self.suite.width) if number not in counted]

    def values(self, metric: str, place: Place, model: str) -> np.ndarray | None:
        """float64 [documents]: the values from 0 to 1 whose mean the metric is; None if it is not a mean."""
        column = self.suite.metrics[metric].mean_column
        return None if column is None else self.figures(place, model)[:, column]

    def correct(self, metric: str, place: Place, model: str) -> np.ndarray | None:
        """bool [documents]: on which documents the model is right; None if the metric is not 0 or 1 on each."""
        values = self.values(metric, place, model)
        return values == 1 if values is not None and np.isin(values, (0, 1)).all() else None

    def gained_and_lost(self, metric: str, place: Place, model: str, against: str) -> tuple[int, int] | None:
        """The number of documents on which only the first model is right, and only the second.

        None if one of them is not right or wrong on each, or if documents share clusters.
        """
        first, second = (self.correct(metric, place, name) for name in (model, against))
        alone = self.clusters[place].max() + 1 == len(self.clusters[place])
        if first is None or second is None or not alone:
            return None
        return int((first & ~second).sum()), int((second & ~first).sum())

    def difference(self, metric: str, place: Place, model: str, against: str) -> Estimate | None:
        """The paired difference model - against with its interval and p; None if too few clusters tell of any.

        Clusters on which the models do not differ say little about how much a difference varies, so they count neither
        towards the fewest that an interval needs nor as degrees of freedom.
        """
        changed = self.gained_and_lost(metric, place, model, against)
        if changed is not None:
            count = len(self.columns[place])
            value = (changed[0] - changed[1]) / count
            return Estimate(value, tango(*changed, count, self.confidence), mcnemar(*changed))
        differing = self.differing(metric, place, [model], [against])
        if differing < fewest_clusters(self.confidence) or not self.enough(metric, place, model, against):
            return None
        gap = self.in_clusters(metric, place, model) - self.in_clusters(metric, place, against)
        return estimate(gap, min(self.effective(metric, place, model), differing), self.confidence)

    def measure(self, metric: str, place: Place, model: str, against: str | None = None) -> dict:
        """`{"value", "interval"}` of a metric, or of its paired difference model - against; None if not measured."""
        models = [model, against] if against else [model]
        found = [self.suite.value(metric, self.figures(place, name).sum(axis=0)) for name in models]
        if None in found or not all(self.measured(place, name) for name in models):
            return {"value": None, "interval": None}
        value = found[0]
        if against:
            value -= found[1]
            estimated = self.difference(metric, place, model, against)
            interval = estimated and estimated.interval
        else:
            interval = self.interval(metric, place, model)
        return {"value": value, "interval": self.suite.metrics[metric].within(interval, against is not None)}

    def interval(self, metric: str, place: Place, model: str) -> list[float] | None:
        """The interval of one model's metric; None if too few clusters tell of it."""
        values, right = self.values(metric, place, model), self.correct(metric, place, model)
        clusters = self.clusters[place]
        if right is not None and clusters.max() + 1 == len(right):
            return wilson(int(right.sum()), len(right), self.confidence)
        if values is not None:
            return mean_interval(values, clusters, self.confidence)
        if not self.enough(metric, place, model):
            return None
        effective = self.effective(metric, place, model)
        return estimate(self.in_clusters(metric, place, model), effective, self.confidence).interval

    def score(self, place: Place, model: str) -> dict:
        """Number of documents and of clusters, the suite's counts, and each metric with its interval."""
        totals = self.figures(place, model).sum(axis=0)
        counts = {name: int(totals[self.suite.column(name)]) for name in self.suite.counts}
        metrics = {metric: self.measure(metric, place, model) for metric in self.suite.metrics}
        clusters = int(self.clusters[place].max()) + 1
        return {"documents": len(self.columns[place]), "clusters": clusters, **counts, **metrics}

    def scores(self, model: str) -> dict:
        """dataset → language → `score` of a model."""
        result = {}
        for dataset, language in self.places:
            result.setdefault(dataset, {})[language] = self.score((dataset, language), model)
        return result

    def comparison(self, metric: str, place: Place, model: str, against: str) -> dict:
        """The paired difference model - against of a metric, what it shows, and the smallest difference detectable.

        `effective` is for how many equal clusters the documents count. If each document is right or wrong, `mcnemar`
        holds how many were gained and lost.
        """
        definition = self.suite.metrics[metric]
        dataset, language = place
        row = {"model": model, "against": against, "dataset": dataset, "language": language, "metric": metric}
        row |= self.measure(metric, place, model, against)
        if row["value"] is None:
            return row | {
                "direction": "not measured",
                **dict.fromkeys(("clusters", "effective", "detectable", "mcnemar", "p")),
            }
        row["direction"] = direction(row["interval"], definition.better)
        row["clusters"] = int(self.clusters[place].max()) + 1
        row["effective"] = round(self.effective(metric, place, model), 1)
        return row | self.shown(metric, place, model, against)

    def shown(self, metric: str, place: Place, model: str, against: str) -> dict:
        """`detectable`, `mcnemar` and `p` of a comparison; `p` is None where there is no interval."""
        changed, smallest = self.gained_and_lost(metric, place, model, against), None
        if row := self.difference(metric, place, model, against):
            gap = self.in_clusters(metric, place, model) - self.in_clusters(metric, place, against)
            smallest = detectable(gap, self.effective(metric, place, model), self.confidence)
        if changed is not None:
            smallest = max(smallest or 0, fewest_clusters(self.confidence) / len(self.columns[place]))
        if self.suite.metrics[metric].mean_column is not None and smallest is not None and smallest > 1:
            smallest = None  # no difference of shares is so large
        p = row and row.p
        test = changed and {"gained": changed[0], "lost": changed[1], "p": p}
        return {"detectable": smallest, "mcnemar": test, "p": p}
