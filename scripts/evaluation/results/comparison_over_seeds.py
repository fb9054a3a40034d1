"""The scores and comparisons of a suite where stages were trained with several seeds: over seeds and documents.

    comparison = ComparisonOverSeeds(suite, scored, models, 0.95, {"sft": ["sft", "sft.seed2", "sft.seed3"]})
    comparison.measure("bits_per_byte", ("code", "all"), "sft", "base")
    # {"value": -0.71, "interval": [-0.78, -0.64], "seeds": [-0.70, -0.73, -0.70], "documents": 118}

A stage's own name then stands for all its models. Whatever is of one model each is as in `SuiteComparison`.
"""

import numpy as np

from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.comparison import Place, SuiteComparison
from scripts.evaluation.results.intervals import Estimate, fewest_clusters, mean_interval
from scripts.evaluation.results.items import Documents
from scripts.evaluation.results.seeds_and_documents import (
    compare_seeds,
    detectable_with_seeds,
    difference_in_differences,
)


class ComparisonOverSeeds(SuiteComparison):
    """The scores of all models in one suite, and the differences between models.

    Args:
        seeds: a stage that was trained with several seeds → its model of each.
        (the others as of `SuiteComparison`)

    Attributes:
        named: the models that have scores of their own: all but those of further seeds.
    """

    def __init__(
        self,
        suite: Suite,
        scored: dict[str, Documents],
        models: list[str],
        confidence: float,
        seeds: dict[str, list[str]],
    ):
        super().__init__(suite, scored, models, confidence)
        self.seeds, further = seeds, {model for names in seeds.values() for model in names[1:]}
        self.named = [model for model in models if model not in further]

    def with_seeds(self, model: str) -> list[str]:
        """The models of a stage, one for each seed; of suite `human`, whose raters saw one of them, that one."""
        return [name for name in self.seeds.get(model, [model]) if name in self.models]

    def measured(self, place: Place, model: str) -> bool:
        """Whether nothing went wrong that was no fault of the model's, with any seed."""
        return all(super(ComparisonOverSeeds, self).measured(place, name) for name in self.with_seeds(model))

    def sides(self, model: str, against: str | None) -> list[list[str]] | None:
        """The models of each seed, of one or two stages; None if neither was trained with several."""
        models = [self.with_seeds(name) for name in (model, against) if name]
        return models if max(map(len, models)) > 1 else None

    def by_seed(self, metric: str, place: Place, sides: list[list[str]]) -> np.ndarray:
        """float64 [seeds, clusters]: what each cluster adds to a metric, or to the difference of two sides.

        Where only one side has several seeds, the other is the same for all of them.
        """
        values = []
        for side in sides:
            values.append(np.stack([self.in_clusters(metric, place, name) for name in side]))
        return values[0] - values[1] if len(values) == 2 else values[0]

    def informative(self, metric: str, place: Place, sides: list[list[str]]) -> int:
        """The number of clusters; of two sides, of those on which some models differ."""
        if len(sides) == 1:
            return int(self.clusters[place].max()) + 1
        seeds = max(map(len, sides))
        models, others = (side if len(side) == seeds else side * seeds for side in sides)
        return self.differing(metric, place, models, others)

    def over_seeds(self, metric: str, place: Place, sides: list[list[str]]) -> Estimate | None:
        """The metric, or its difference, for other seeds and other documents; None if too few clusters tell of it."""
        informative = self.informative(metric, place, sides)
        models = [name for side in sides for name in side]
        if informative < fewest_clusters(self.confidence) or not self.enough(metric, place, *models):
            return None
        effective = min(self.effective(metric, place, sides[0][0]), informative)
        return compare_seeds(self.by_seed(metric, place, sides), effective, self.confidence)

    def measure(self, metric: str, place: Place, model: str, against: str | None = None) -> dict:
        """As of `SuiteComparison`; over several seeds their mean, with its interval for other seeds and other
        documents, and beside them `seeds`, the value with each, and `documents`, their number.

        The interval of a mean of values from 0 to 1 is at least that for other documents alone, which is no point where
        all seeds are right on all documents.
        """
        sides = self.sides(model, against)
        if sides is None or not all(self.measured(place, name) for name in (model, against or model)):
            return super().measure(metric, place, model, against)
        definition = self.suite.metrics[metric]
        values = []
        for side in sides:
            values.append([self.suite.value(metric, self.figures(place, name).sum(axis=0)) for name in side])
        if any(None in side for side in values):
            return {"value": None, "interval": None}
        seeds = np.array(values[0]) - np.array(values[1]) if against else np.array(values[0])
        about = {"seeds": seeds.tolist(), "documents": len(self.columns[place])}
        estimated = self.over_seeds(metric, place, sides)
        interval = estimated and estimated.interval
        if interval and not against and definition.mean_column is not None:
            means = np.mean([self.values(metric, place, name) for name in sides[0]], axis=0)
            low, high = mean_interval(means, self.clusters[place], self.confidence)
            interval = [min(interval[0], low), max(interval[1], high)]
        return {"value": float(seeds.mean()), "interval": definition.within(interval, against is not None), **about}

    def beyond(self, metric: str, place: Place, other: Place, model: str, against: str) -> dict:
        """`{"value", "interval"}`: how much more a metric changed from `against` to `model` on one place than on
        another; with several seeds `seeds` and `documents`, as of `measure`."""
        changes = [self.measure(metric, each, model, against) for each in (place, other)]
        if any(change["value"] is None for change in changes):
            return {"value": None, "interval": None}
        result = {"value": changes[0]["value"] - changes[1]["value"], "interval": None}
        if "seeds" in changes[0]:
            seeds = np.array(changes[0]["seeds"]) - np.array(changes[1]["seeds"])
            result |= {"seeds": seeds.tolist(), "documents": sum(change["documents"] for change in changes)}
        sides = self.sides(model, against) or [[model], [against]]
        models, fewest = [name for side in sides for name in side], fewest_clusters(self.confidence)
        if all(
            self.informative(metric, at, sides) >= fewest and self.enough(metric, at, *models) for at in (place, other)
        ):
            tables = [self.by_seed(metric, at, sides) for at in (place, other)]
            effective = tuple(self.effective(metric, at, sides[0][0]) for at in (place, other))
            result["interval"] = difference_in_differences(*tables, effective, self.confidence).interval
        return result

    def score(self, place: Place, model: str) -> dict:
        """Number of documents, the suite's counts (means over the seeds), and each metric with its interval."""
        scores = [super(ComparisonOverSeeds, self).score(place, score) for score in self.with_seeds(model)]
        means = {name: sum(score[name] for score in scores) / len(scores) for name in self.suite.counts}
        counts = {name: int(mean) if mean.is_integer() else round(mean, 1) for name, mean in means.items()}
        metrics = {metric: self.measure(metric, place, model) for metric in self.suite.metrics}
        return scores[0] | ({**counts, **metrics} if len(scores) > 1 else {})

    def shown(self, metric: str, place: Place, model: str, against: str) -> dict:
        """As of `SuiteComparison`; over several seeds p is for other seeds and other documents, and there is no
        `mcnemar`."""
        sides = self.sides(model, against)
        if sides is None:
            return super().shown(metric, place, model, against)
        estimated, smallest = self.over_seeds(metric, place, sides), None
        if estimated:
            effective = self.effective(metric, place, sides[0][0])
            smallest = detectable_with_seeds(self.by_seed(metric, place, sides), effective, self.confidence)
        return {"detectable": smallest, "mcnemar": None, "p": estimated and estimated.p}
