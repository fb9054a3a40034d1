"""The scores and comparisons of a suite where stages were trained with several seeds: over seeds and documents.

    comparison = ComparisonOverSeeds(suite, scored, models, 0.95, 2000, {"sft": ["sft", "sft.seed2", "sft.seed3"]})
    comparison.measure("bits_per_byte", ("code", "all"), "sft", "base")
    # {"value": -0.71, "interval": [-0.78, -0.64], "seeds": [-0.70, -0.73, -0.70], "documents": 118}

A stage's own name then stands for all its models. Whatever is of one model each is as in `SuiteComparison`.
"""

import numpy as np

from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.comparison import Place, SuiteComparison
from scripts.evaluation.results.intervals import (
    direction,
    fewest_documents,
    mean_difference_interval,
    mean_interval,
)
from scripts.evaluation.results.items import Documents
from scripts.evaluation.results.seeds_and_documents import compare_seeds, detectable_with_seeds, document_values


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
        resamples: int,
        seeds: dict[str, list[str]],
    ):
        super().__init__(suite, scored, models, confidence, resamples)
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
        """float64 [seeds, documents]: what each document adds to a metric, or to the difference of two sides.

        Where only one side has several seeds, the other is the same for all of them.
        """
        compute, columns = self.suite.metrics[metric].compute, self.columns[place]
        values = []
        for side in sides:
            values.append(np.stack([document_values(columns[:, self.columns_of(name)], compute) for name in side]))
        return values[0] - values[1] if len(values) == 2 else values[0]

    def informative(self, metric: str, place: Place, sides: list[list[str]]) -> int:
        """The number of documents; of two sides, of those on which some models differ."""
        columns, own_columns = self.columns[place], self.own_columns(metric)
        if len(sides) == 1:
            return len(columns)
        values = []
        for side in sides:
            values.append(np.stack([columns[:, self.columns_of(name)][:, own_columns] for name in side]))
        return int((values[0] != values[1]).any(axis=(0, 2)).sum())

    def measure(self, metric: str, place: Place, model: str, against: str | None = None) -> dict:
        """As of `SuiteComparison`; over several seeds their mean, with its interval for other seeds and other
        documents, and beside them `seeds`, the value with each, and `documents`, their number.

        Of a mean of values from 0 to 1 the interval is at least that for other documents alone, which does not shrink
        to a point where all seeds are right on all documents.
        """
        sides = self.sides(model, against)
        if sides is None or not all(self.measured(place, name) for name in (model, against or model)):
            return super().measure(metric, place, model, against)
        definition, columns = self.suite.metrics[metric], self.columns[place]
        values = []
        for side in sides:
            sums = [columns[:, self.columns_of(name)].sum(axis=0) for name in side]
            values.append(np.array([float(definition.compute(sum_of_seed)) for sum_of_seed in sums]))
        seeds = values[0] - values[1] if against else values[0]
        about = {"seeds": seeds.tolist(), "documents": len(columns)}
        estimated = {"value": float(seeds.mean()), "interval": None, **about}
        if self.informative(metric, place, sides) < fewest_documents(self.confidence):
            return estimated
        low, high = compare_seeds(self.by_seed(metric, place, sides), self.confidence).interval
        if definition.mean_column is not None:
            means = []
            for side in sides:
                means.append(np.mean([self.values(metric, place, name) for name in side], axis=0))
            documents = (mean_difference_interval if against else mean_interval)(*means, self.confidence)
            low, high = max(min(low, documents[0]), -1 if against else 0), min(max(high, documents[1]), 1)
        return estimated | {"interval": [low, high]}

    def score(self, place: Place, model: str) -> dict:
        """Number of documents, the suite's counts (means over the seeds), and each metric with its interval."""
        scores = [super(ComparisonOverSeeds, self).score(place, score) for score in self.with_seeds(model)]
        means = {name: sum(score[name] for score in scores) / len(scores) for name in self.suite.counts}
        counts = {name: int(mean) if mean.is_integer() else round(mean, 1) for name, mean in means.items()}
        metrics = {metric: self.measure(metric, place, model) for metric in self.suite.metrics}
        return scores[0] | ({**counts, **metrics} if len(scores) > 1 else {})

    def comparison(self, metric: str, place: Place, model: str, against: str) -> dict:
        """As of `SuiteComparison`; over several seeds p is for other seeds and other documents, and there is no
        `mcnemar`."""
        sides = self.sides(model, against)
        if sides is None or not all(self.measured(place, name) for name in (model, against)):
            return super().comparison(metric, place, model, against)
        estimated, (dataset, language) = self.measure(metric, place, model, against), place
        by_seed = None if estimated["interval"] is None else self.by_seed(metric, place, sides)
        return {
            **{"model": model, "against": against, "dataset": dataset, "language": language, "metric": metric},
            **estimated,
            "direction": direction(estimated["interval"], self.suite.metrics[metric].better),
            "detectable": None if by_seed is None else detectable_with_seeds(by_seed, self.confidence),
            "mcnemar": None,
            "p": None if by_seed is None else compare_seeds(by_seed, self.confidence).p,
        }
