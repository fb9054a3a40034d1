"""One suite over all models: scores with intervals, and paired comparisons, over documents and seeds.

    comparison = SuiteComparison(suite, scored, models, 0.95, {"sft": ["sft", "sft.seed2", "sft.seed3"]})
    comparison.measure("bits_per_byte", ("code", "all"), "sft", "base")
    # {"value": -0.71, "interval": [-0.78, -0.64], "seeds": [-0.70, -0.73, -0.70], "documents": 118}

The name of a stage that was trained with several seeds stands for all its models: a value is then their mean, and its
interval is for other seeds and other documents.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.intervals import (
    EQUAL,
    POWER,
    Estimate,
    cluster_values,
    degrees_of_freedom,
    detectable,
    direction,
    effective_number,
    estimate,
    fewest_clusters,
    mcnemar,
    mean_interval,
    special,
    standard_error,
    sums_by_cluster,
    tango,
    wilson,
)
from scripts.evaluation.results.items import Documents


class Parts(NamedTuple):
    """The two parts of the squared standard error of a mean over seeds and documents."""

    seeds: float  # shrinks with each seed
    documents: float  # does not
    freedom: tuple[float, float]  # of both


def parts_of(differences: np.ndarray, effective: float) -> Parts:
    """The variance of the mean of a table [seeds, documents], from its mean squares.

    Without any spread the documents add what `standard_error` says.
    """
    seeds, documents = differences.shape
    mean, rows, columns = differences.mean(), differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - rows[:, None] - columns + mean
    of_seeds = documents * float(((rows - mean) ** 2).sum()) / (seeds - 1)
    of_documents = seeds * float(((columns - mean) ** 2).sum()) / (documents - 1)
    of_rest = float((rest**2).sum()) / ((seeds - 1) * (documents - 1))
    count, freedom = seeds * documents, degrees_of_freedom(effective)
    if np.ptp(differences) <= EQUAL * abs(mean):
        return Parts(0.0, standard_error(columns, freedom) ** 2, (seeds - 1, freedom))
    return Parts(of_seeds / count, max(of_documents - of_rest, 0.0) / count, (seeds - 1, freedom))


def half_width(parts: Parts, alpha: float) -> float:
    """Half of the interval that misses the truth with a probability of at most `alpha`."""
    seeds, documents = (float(special().stdtrit(freedom, 1 - alpha / 2)) for freedom in parts.freedom)
    return math.sqrt(seeds**2 * parts.seeds + documents**2 * parts.documents)


def p_value(value: float, parts: Parts) -> float:
    """The alpha whose interval ends at zero; the interval shrinks as alpha grows, so halving finds it."""
    if value == 0:
        return 1.0
    if parts.seeds + parts.documents == 0:
        return 0.0
    errors = abs(value) / math.sqrt(parts.seeds + parts.documents)
    low, high = sorted(2 * float(special().stdtr(freedom, -errors)) for freedom in parts.freedom)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if half_width(parts, middle) > abs(value) else (low, middle)
    return high


def compare_seeds(differences: np.ndarray, effective: float, confidence: float) -> Estimate:
    """The mean of paired differences over seeds and documents, for other seeds and other documents. `differences`:
    float64 [seeds, documents], at least 2 of each; `effective`: for how many equal ones the documents count."""
    value, parts = float(differences.mean()), parts_of(differences, effective)
    half = half_width(parts, 1 - confidence)
    return Estimate(value, [value - half, value + half], p_value(value, parts))


def detectable_with_seeds(differences: np.ndarray, effective: float, confidence: float) -> float | None:
    """The smallest true difference that as many seeds and documents would show, in a share `POWER` of comparisons."""
    parts = parts_of(differences, effective)
    error = math.sqrt(parts.seeds + parts.documents)
    return half_width(parts, 1 - confidence) + float(special().stdtrit(len(differences) - 1, POWER)) * error or None


Place = tuple[str, str]  # (dataset, language)
Sides = list[list[str]]  # of one or of two models to compare, the model of each seed


class SuiteComparison:
    """The scores of all models in one suite, and the differences between models.

    Args:
        scored: the items of each dataset.
        models: in the order of their columns, those of all seeds among them.
        confidence: level of the intervals.
        seeds: a stage that was trained with several seeds → its model of each.

    Attributes:
        places: every scored (dataset, language); the language `all` is among them.
        named: the models that have scores of their own: all but those of further seeds.
    """

    def __init__(
        self,
        suite: Suite,
        scored: dict[str, Documents],
        models: list[str],
        confidence: float,
        seeds: Mapping[str, list[str]] | None = None,
    ):
        self.suite, self.models, self.confidence, self.seeds = suite, models, confidence, seeds or {}
        self.columns: dict[Place, np.ndarray] = {}  # float64 [documents, models * width]
        self.clusters: dict[Place, np.ndarray] = {}  # int [documents]: the cluster of each, counted from 0
        self.cluster_names: dict[Place, list[str]] = {}  # of each cluster its first document
        for dataset, documents in scored.items():
            for language in ["all", *sorted(set(documents.languages.tolist()))]:
                chosen = (documents.languages == language) | (language == "all")
                self.columns[dataset, language] = documents.columns[chosen]
                place, ids = (dataset, language), np.array(documents.ids)[chosen]
                _, first, self.clusters[place] = np.unique(
                    documents.clusters[chosen], return_index=True, return_inverse=True
                )
                self.cluster_names[place] = ids[first].tolist()
        self.places = list(self.columns)
        further = set()
        for names in self.seeds.values():
            further.update(names[1:])
        self.named = [model for model in models if model not in further]

    def with_seeds(self, model: str) -> list[str]:
        """The models of a stage, one for each seed; of suite `human_ratings`, whose raters saw one, that one."""
        return [name for name in self.seeds.get(model, [model]) if name in self.models]

    def figures(self, place: Place, model: str) -> np.ndarray:
        """float64 [documents, width]: the figures of one model."""
        start = self.suite.width * self.models.index(model)
        return self.columns[place][:, start : start + self.suite.width]

    def sizes(self, metric: str, place: Place, model: str) -> np.ndarray:
        """float64 [clusters]: how much each cluster weighs in a metric."""
        sizes = self.figures(place, model)[:, [self.suite.metrics[metric].size_column]]
        return sums_by_cluster(sizes, self.clusters[place])[:, 0]

    def effective(self, metric: str, place: Place, model: str) -> float:
        """For how many clusters of equal weight in the metric the place's clusters count."""
        return effective_number(self.sizes(metric, place, model))

    def number_of_clusters(self, place: Place) -> int:
        return int(self.clusters[place].max()) + 1

    def table(self, metric: str, place: Place, sides: Sides) -> np.ndarray:
        """float64 [seeds, clusters]: what each cluster adds to a metric, or to the difference of two sides.

        Where only one side has several seeds, the other is the same for all of them.
        """
        values = []
        for side in sides:
            rows = []
            for model in side:
                sums = sums_by_cluster(self.figures(place, model), self.clusters[place])
                rows.append(cluster_values(sums, self.suite.metrics[metric].compute))
            values.append(np.stack(rows))
        if len(values) == 2:
            return values[0] - values[1]
        return values[0]

    def informative(self, metric: str, place: Place, sides: Sides) -> int:
        """The number of clusters; of two sides, of those on which a model differs from its partner.

        Clusters on which the models do not differ say little about how much a difference varies, so they count neither
        towards the fewest that an interval needs nor as degrees of freedom.
        """
        if len(sides) == 1:
            return self.number_of_clusters(place)
        own_columns, differ = self.own_columns(metric), np.zeros(len(self.columns[place]), dtype=bool)
        seeds = max(map(len, sides))
        models, others = (side if len(side) == seeds else side * seeds for side in sides)
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

    def values(self, metric: str, place: Place, side: Sequence[str]) -> np.ndarray | None:
        """float64 [documents]: the values from 0 to 1, means over seeds, whose mean the metric is; None if it is no
        mean."""
        column = self.suite.metrics[metric].mean_column
        if column is None:
            return None
        return np.mean([self.figures(place, name)[:, column] for name in side], axis=0)

    def correct(self, metric: str, place: Place, side: Sequence[str]) -> np.ndarray | None:
        """bool [documents]: on which documents a model of one seed is right.

        None if the metric is not 0 or 1 on each document, or if documents share clusters.
        """
        values, alone = self.values(metric, place, side), self.number_of_clusters(place) == len(self.clusters[place])
        if len(side) > 1 or not alone or values is None or not np.isin(values, (0, 1)).all():
            return None
        return values == 1

    def gained_and_lost(self, metric: str, place: Place, sides: Sides) -> tuple[int, int] | None:
        """The number of documents on which only the first model is right, and only the second; None as `correct`."""
        first, second = (self.correct(metric, place, side) for side in sides)
        if first is None or second is None:
            return None
        return int((first & ~second).sum()), int((second & ~first).sum())

    def over_clusters(self, metric: str, place: Place, sides: Sides) -> Estimate | None:
        """A metric, or its difference, with interval and p; None if too few clusters tell of it."""
        informative, fewest = self.informative(metric, place, sides), fewest_clusters(self.confidence)
        weighing = []
        for side in sides:
            for name in side:
                weighing.append(np.count_nonzero(self.sizes(metric, place, name)))
        if min(informative, *weighing) < fewest:
            return None
        table, effective = self.table(metric, place, sides), self.effective(metric, place, sides[0][0])
        return self.over_seeds(table, min(effective, informative))

    def over_seeds(self, table: np.ndarray, effective: float) -> Estimate:
        """The mean of float64 [seeds, clusters] with interval and p. `effective`: for how many equal clusters they
        count."""
        if len(table) == 1:
            return estimate(table[0], effective, self.confidence)
        return compare_seeds(table, effective, self.confidence)

    def difference(self, metric: str, place: Place, sides: Sides) -> Estimate | None:
        """The paired difference of two models with its interval and p; None if too few clusters tell of any."""
        changed, count = self.gained_and_lost(metric, place, sides), len(self.columns[place])
        if changed is None:
            return self.over_clusters(metric, place, sides)
        if count < fewest_clusters(self.confidence):
            return None
        value = (changed[0] - changed[1]) / count
        return Estimate(value, tango(*changed, count, self.confidence), mcnemar(*changed))

    def combination(self, metric: str, place: Place, weights: Mapping[str, int]) -> dict:
        """The weighted sum of a metric of several models, as `{"both": 1, "one": -1, ...}`, with interval, p and what
        it shows; nothing is said of fewer clusters than an interval needs."""
        parts, value = [], 0.0
        for model, weight in weights.items():
            side = self.with_seeds(model)
            parts.append(weight * self.table(metric, place, [side]))
            sums = [self.figures(place, name).sum(axis=0) for name in side]
            value += weight * float(np.mean([self.suite.value(metric, of_one) or 0.0 for of_one in sums]))
        table = sum(parts)
        first = next(iter(weights))
        row = {"dataset": place[0], "language": place[1], "metric": metric, "value": value}
        row |= {"interval": None, "p": None, "clusters": self.number_of_clusters(place), "direction": direction(None)}
        if self.number_of_clusters(place) < fewest_clusters(self.confidence) or not np.isfinite(table).all():
            return row
        estimated = self.over_seeds(table, self.effective(metric, place, self.with_seeds(first)[0]))
        row |= {"interval": estimated.interval, "p": estimated.p}
        return row | {"direction": direction(estimated.interval, self.suite.metrics[metric].better)}

    def interval(self, metric: str, place: Place, side: list[str]) -> list[float] | None:
        """The interval of one model's metric; None if too few clusters tell of it.

        Over several seeds that of a mean of values from 0 to 1 is at least the one for other documents alone, which is
        no point where all seeds are right on all documents.
        """
        values, right = self.values(metric, place, side), self.correct(metric, place, side)
        if len(self.columns[place]) < fewest_clusters(self.confidence):
            return None
        if right is not None:
            return wilson(int(right.sum()), len(right), self.confidence)
        if values is not None and len(side) == 1:
            return mean_interval(values, self.clusters[place], self.confidence)
        estimated = self.over_clusters(metric, place, [side])
        if estimated is None:
            return None
        if values is None:
            low, high = estimated.interval
            if low == high and self.suite.metrics[metric].highest == 1:  # all clusters have the same share
                effective = self.effective(metric, place, side[0])
                return wilson(low * effective, effective, self.confidence)
            return [low, high]
        low, high = mean_interval(values, self.clusters[place], self.confidence)
        return [min(estimated.interval[0], low), max(estimated.interval[1], high)]

    def measure(self, metric: str, place: Place, model: str, against: str | None = None) -> dict:
        """`{"value", "interval"}` of a metric, or of its paired difference model - against; None if not measured.

        Over several seeds also `seeds`, the value with each, and `documents`, their number.
        """
        sides, values = [self.with_seeds(name) for name in (model, against) if name], []
        for side in sides:
            sums = [self.figures(place, name).sum(axis=0) for name in side]
            values.append([self.suite.value(metric, of_one) for of_one in sums])
            if None in values[-1] or not all(self.suite.measured(of_one) for of_one in sums):
                return {"value": None, "interval": None}
        seeds = np.array(values[0]) - np.array(values[1]) if against else np.array(values[0])
        if against:
            estimated = self.difference(metric, place, sides)
            interval = estimated and estimated.interval
        else:
            interval = self.interval(metric, place, sides[0])
        interval = self.suite.metrics[metric].within(interval, against is not None)
        about = {}
        if len(seeds) > 1:
            about = {"seeds": seeds.tolist(), "documents": len(self.columns[place])}
        return {"value": float(seeds.mean()), "interval": interval, **about}

    def score(self, place: Place, model: str) -> dict:
        """Number of documents and of clusters, the suite's counts (means over the seeds), and each metric with its
        interval."""
        side, counts = self.with_seeds(model), {}
        for name in self.suite.counts:
            mean = sum(float(self.figures(place, of)[:, self.suite.column(name)].sum()) for of in side) / len(side)
            counts[name] = int(mean) if mean.is_integer() else round(mean, 1)
        metrics = {}
        for metric, facts in self.suite.metrics.items():
            of_data = facts.size_column in map(self.suite.column, self.suite.data_figures)
            if not of_data or self.sizes(metric, place, model).any():  # a chat has no lines
                metrics[metric] = self.measure(metric, place, model)
        return {"documents": len(self.columns[place]), "clusters": self.number_of_clusters(place), **counts, **metrics}

    def scores(self, model: str) -> dict:
        """dataset → language → `score` of a model."""
        result = {}
        for dataset, language in self.places:
            result.setdefault(dataset, {})[language] = self.score((dataset, language), model)
        return result

    def comparison(self, metric: str, place: Place, model: str, against: str) -> dict:
        """The paired difference model - against of a metric, what it shows, and the smallest difference detectable.

        `effective` is for how many equal clusters the documents count. If each document is right or wrong, `mcnemar`
        holds how many were gained and lost; `p` is None where there is no interval.
        """
        dataset, language = place
        row = {"model": model, "against": against, "dataset": dataset, "language": language, "metric": metric}
        row |= self.measure(metric, place, model, against)
        if row["value"] is None:
            unknown = dict.fromkeys(("clusters", "effective", "detectable", "mcnemar", "p"))
            return row | {"direction": "not measured", **unknown}
        sides = [self.with_seeds(model), self.with_seeds(against)]
        effective = self.effective(metric, place, sides[0][0])
        row["direction"] = direction(row["interval"], self.suite.metrics[metric].better)
        row["clusters"], row["effective"] = self.number_of_clusters(place), round(effective, 1)
        estimated, smallest, test = self.difference(metric, place, sides), None, None
        if estimated:
            table = self.table(metric, place, sides)
            if len(table) == 1:
                smallest = detectable(table[0], effective, self.confidence)
            else:
                smallest = detectable_with_seeds(table, effective, self.confidence)
        changed, p = self.gained_and_lost(metric, place, sides), estimated and estimated.p
        if changed is not None:
            smallest = max(smallest or 0, fewest_clusters(self.confidence) / len(self.columns[place]))
            test = {"gained": changed[0], "lost": changed[1], "p": p}
        if self.suite.metrics[metric].mean_column is not None and smallest is not None and smallest > 1:
            smallest = None  # no difference of shares is so large
        return row | {"detectable": smallest, "mcnemar": test, "p": p}
