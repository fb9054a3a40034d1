"""One suite over all models: scores with intervals, and paired comparisons."""

import numpy as np

from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.intervals import (
    Resampled,
    content_seed,
    detectable,
    difference,
    direction,
    estimate,
    fewest_documents,
    mean_difference_interval,
    mean_interval,
    newcombe,
    resample,
    wilson,
)
from scripts.evaluation.results.items import Documents
from scripts.evaluation.results.significance import exchange_test, mcnemar

Place = tuple[str, str]  # (dataset, language)


class SuiteComparison:
    """The scores of all models in one suite, and the differences between models.

    Args:
        scored: the items of each dataset.
        models: in the order of their columns.
        confidence: level of the intervals.
        resamples: bootstrap resamples over documents.

    Attributes:
        places: every scored (dataset, language); the language `all` is among them.
    """

    def __init__(
        self, suite: Suite, scored: dict[str, Documents], models: list[str], confidence: float, resamples: int
    ):
        self.suite, self.models, self.confidence = suite, models, confidence
        self.columns: dict[Place, np.ndarray] = {}  # [documents, models * width]
        self.sums: dict[Place, Resampled] = {}
        for dataset, documents in scored.items():
            for language in ["all", *sorted(set(documents.languages.tolist()))]:
                chosen = np.flatnonzero((documents.languages == language) | (language == "all"))
                # `all` of a dataset with one language has that language's interval
                seed = content_seed(dataset, *(documents.ids[index] for index in chosen))
                columns = self.columns[dataset, language] = documents.columns[chosen]
                self.sums[dataset, language] = resample(columns, resamples, seed)
        self.places = list(self.sums)

    def columns_of(self, model: str) -> list[int]:
        """The numbers of a model's columns."""
        start = self.suite.width * self.models.index(model)
        return list(range(start, start + self.suite.width))

    def measured(self, place: Place, model: str) -> bool:
        """Whether nothing went wrong that was no fault of the model's."""
        return self.suite.measured(self.sums[place].totals[self.columns_of(model)])

    def pair(self, place: Place, model: str, against: str) -> Resampled:
        """The sums of two models side by side."""
        return self.sums[place].select(self.columns_of(model) + self.columns_of(against))

    def side_by_side(self, place: Place, model: str, against: str) -> np.ndarray:
        """float64 [documents, columns of both]."""
        return self.columns[place][:, self.columns_of(model) + self.columns_of(against)]

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
        return None if column is None else self.columns[place][:, self.columns_of(model)[column]]

    def correct(self, metric: str, place: Place, model: str) -> np.ndarray | None:
        """bool [documents]: on which documents the model is right; None if the metric is not 0 or 1 on each."""
        values = self.values(metric, place, model)
        return values == 1 if values is not None and np.isin(values, (0, 1)).all() else None

    def paired_counts(self, metric: str, place: Place, model: str, against: str) -> list[int] | None:
        """Number of documents on which both models are right, only the first, only the second, neither.

        None if `correct` is None for one of them.
        """
        first, second = (self.correct(metric, place, name) for name in (model, against))
        if first is None or second is None:
            return None
        return [int(np.sum((first == a) & (second == b))) for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]

    def measure(self, metric: str, place: Place, model: str, against: str | None = None) -> dict:
        """`{"value", "interval"}` of a metric, or of its paired difference model - against; None if not measured.

        Documents on which the models do not differ carry no information about a difference, so they do not count
        towards the fewest documents that an interval needs.
        """
        statistic = self.suite.metrics[metric].compute
        if not all(self.measured(place, name) for name in (model, against or model)):
            return {"value": None, "interval": None}
        if against:
            estimated = estimate(self.pair(place, model, against), difference(statistic), self.confidence)
            counts = self.paired_counts(metric, place, model, against)
            if counts is not None:
                return estimated | {"interval": newcombe(*counts, self.confidence)}
            columns, own_columns = self.columns[place], self.own_columns(metric)
            models = (columns[:, self.columns_of(name)][:, own_columns] for name in (model, against))
            if np.not_equal(*models).any(axis=1).sum() < fewest_documents(self.confidence):
                return estimated | {"interval": None}
            first, second = (self.values(metric, place, name) for name in (model, against))
            if first is None:
                return estimated
            return estimated | {"interval": mean_difference_interval(first, second, self.confidence)}
        estimated = estimate(self.sums[place].select(self.columns_of(model)), statistic, self.confidence)
        right, values = self.correct(metric, place, model), self.values(metric, place, model)
        if values is None:
            return estimated
        if right is None:
            return estimated | {"interval": mean_interval(values, self.confidence)}
        return estimated | {"interval": wilson(int(right.sum()), len(right), self.confidence)}

    def score(self, place: Place, model: str) -> dict:
        """Number of documents, the suite's counts, and each metric with its interval."""
        sums = self.sums[place].select(self.columns_of(model))
        counts = {name: int(sums.totals[self.suite.column(name)]) for name in self.suite.counts}
        metrics = {metric: self.measure(metric, place, model) for metric in self.suite.metrics}
        return {"documents": sums.documents, **counts, **metrics}

    def scores(self, model: str) -> dict:
        """dataset → language → `score` of a model."""
        result = {}
        for dataset, language in self.places:
            result.setdefault(dataset, {})[language] = self.score((dataset, language), model)
        return result

    def comparison(self, metric: str, place: Place, model: str, against: str) -> dict:
        """The paired difference model - against of a metric, what it shows, and the smallest difference detectable.

        If each document is right or wrong, `mcnemar` holds how many documents were gained and lost; fewer than
        `fewest_documents` changed ones cannot show anything. `p` is of McNemar's test there, else of an exchange test.
        """
        definition = self.suite.metrics[metric]
        estimated = self.measure(metric, place, model, against)
        dataset, language = place
        about = {"model": model, "against": against, "dataset": dataset, "language": language, "metric": metric}
        if estimated["value"] is None:
            return {**about, **estimated, "direction": "not measured", "detectable": None, "mcnemar": None, "p": None}
        pair, statistic = self.pair(place, model, against), difference(definition.compute)
        smallest = detectable(pair, statistic, self.confidence)
        counts, test = self.paired_counts(metric, place, model, against), None
        if counts is not None:
            _, gained, lost, _ = counts
            test = {"gained": gained, "lost": lost, "p": mcnemar(gained, lost)}
            smallest = max(smallest or 0, fewest_documents(self.confidence) / sum(counts))
        if definition.mean_column is not None and smallest is not None and smallest > 1:
            smallest = None  # no difference of shares is so large
        seed = content_seed(dataset, language, metric, model, against)
        return {
            **about,
            **estimated,
            "direction": direction(estimated["interval"], definition.better),
            "detectable": smallest,
            "mcnemar": test,
            "p": test["p"] if test else exchange_test(pair, self.side_by_side(place, model, against), statistic, seed),
        }
