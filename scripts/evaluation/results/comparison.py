"""One suite over all models: scores with intervals, and paired comparisons."""

import numpy as np

from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.intervals import (
    Resampled,
    content_seed,
    detectable,
    difference,
    estimate,
    fewest_documents,
    mcnemar,
    newcombe,
    reading,
    resample,
    wilson,
)
from scripts.evaluation.results.items import Documents


class Measured:
    """What a suite says of the models.

    Args:
        scored: the items of each dataset.
        models: in the order of their columns.
        config: `confidence` and `resamples`.

    Attributes:
        places: (dataset, language) of all that is measured, the language `all` among them.
    """

    def __init__(self, suite: Suite, scored: dict[str, Documents], models: list[str], config: dict):
        self.suite, self.models, self.confidence = suite, models, config["confidence"]
        self.columns: dict[tuple[str, str], np.ndarray] = {}  # [documents, models * width]
        self.sums: dict[tuple[str, str], Resampled] = {}
        for dataset, documents in scored.items():
            for language in ["all", *sorted(set(documents.languages.tolist()))]:
                chosen = np.flatnonzero((documents.languages == language) | (language == "all"))
                seed = content_seed(dataset, language, *(documents.ids[index] for index in chosen))
                columns = self.columns[dataset, language] = documents.columns[chosen]
                self.sums[dataset, language] = resample(columns, config["resamples"], seed)
        self.places = list(self.sums)

    def of(self, model: str) -> list[int]:
        """The columns of a model."""
        start = self.suite.width * self.models.index(model)
        return list(range(start, start + self.suite.width))

    def pair(self, place: tuple[str, str], model: str, against: str) -> Resampled:
        """The sums of two models side by side."""
        return self.sums[place].select(self.of(model) + self.of(against))

    def shares(self, metric: str, place: tuple[str, str], model: str) -> np.ndarray | None:
        """bool [documents]: where the model is right; None unless it is right or wrong on each document."""
        column = self.suite.metrics[metric].mean
        if column is None:
            return None
        values = self.columns[place][:, self.of(model)[column]]
        return values == 1 if np.isin(values, (0, 1)).all() else None

    def changes(self, metric: str, place: tuple[str, str], model: str, against: str) -> list[int] | None:
        """Documents on which both models are right, only the first, only the second, none; None where `shares` is."""
        ours, theirs = (self.shares(metric, place, name) for name in (model, against))
        if ours is None or theirs is None:
            return None
        return [int(np.sum((ours == one) & (theirs == other))) for one, other in ((1, 1), (1, 0), (0, 1), (0, 0))]

    def measure(self, metric: str, place: tuple[str, str], model: str, against: str | None = None) -> dict:
        """`{"value", "interval"}` of a metric, or of its paired difference model - against.

        Documents on which the models do not differ say nothing of a difference: they do not count towards the fewest
        that carry an interval.
        """
        statistic = self.suite.metrics[metric].of
        if against:
            estimated = estimate(self.pair(place, model, against), difference(statistic), self.confidence)
            changes = self.changes(metric, place, model, against)
            if changes is not None:
                return estimated | {"interval": newcombe(*changes, self.confidence)}
            columns = self.columns[place]
            differ = (columns[:, self.of(model)] != columns[:, self.of(against)]).any(axis=1)
            return estimated if differ.sum() >= fewest_documents(self.confidence) else estimated | {"interval": None}
        estimated = estimate(self.sums[place].select(self.of(model)), statistic, self.confidence)
        right = self.shares(metric, place, model)
        if right is None:
            return estimated
        return estimated | {"interval": wilson(int(right.sum()), len(right), self.confidence)}

    def score(self, place: tuple[str, str], model: str) -> dict:
        """How many documents, the suite's counts, and each metric with its interval."""
        sums = self.sums[place].select(self.of(model))
        counts = {name: int(sums.totals[self.suite.column(name)]) for name in self.suite.counts}
        metrics = {metric: self.measure(metric, place, model) for metric in self.suite.metrics}
        return {"documents": sums.documents, **counts, **metrics}

    def comparison(self, metric: str, place: tuple[str, str], model: str, against: str) -> dict:
        """The paired difference model - against of a metric, what it shows, and what this many documents could show.

        Where both models are right or wrong on each document, `mcnemar` says how many were gained and lost; fewer than
        `fewest_documents` changed ones could not show anything.
        """
        asked = self.suite.metrics[metric]
        estimated = self.measure(metric, place, model, against)
        least = detectable(self.pair(place, model, against), difference(asked.of), self.confidence)
        changes, tested = self.changes(metric, place, model, against), None
        if changes is not None:
            _, gained, lost, _ = changes
            tested = {"gained": gained, "lost": lost, "p": mcnemar(gained, lost)}
            least = max(least or 0, fewest_documents(self.confidence) / sum(changes))
        shown = {"reading": reading(estimated["interval"], asked.better), "detectable": least, "mcnemar": tested}
        dataset, language = place
        names = {"model": model, "against": against, "dataset": dataset, "language": language, "metric": metric}
        return names | estimated | shown
