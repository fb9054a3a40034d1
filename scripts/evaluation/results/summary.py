"""All datasets at a glance: on each the base against the stage trained on it, and the average over datasets."""

import numpy as np

from scripts.evaluation.metrics.perplexity import SUITE
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.intervals import Resampled, estimate, reading
from scripts.experiment.settings.training import Stage

bits_per_byte = SUITE.metrics["bits_per_byte"].compute


def row(pairs: list[Resampled], confidence: float) -> dict:
    """Bits per byte of base and tuned models, averaged over datasets, and their paired difference.

    Each dataset has the same weight, however many documents it has. Datasets are resampled independently of each other;
    the average has an interval if the smallest of them has one.

    Args:
        pairs: per dataset, sums of the tuned model and of the base.
    """
    together = Resampled(
        min(sums.documents for sums in pairs),
        np.concatenate([sums.totals for sums in pairs]),
        np.concatenate([sums.replicates for sums in pairs], axis=1),
    )

    def average(sums: np.ndarray, side: int) -> np.ndarray:
        models = np.split(sums, 2 * len(pairs), axis=-1)  # tuned, base, tuned, base ...
        return np.mean([bits_per_byte(model) for model in models[side::2]], axis=0)

    change = estimate(together, lambda sums: average(sums, 0) - average(sums, 1), confidence)
    base, tuned = (float(average(together.totals, side)) for side in (1, 0))
    return {"base": base, "tuned": tuned, **change, "reading": reading(change["interval"])}


def summarize(stages: dict[str, Stage], perplexity: SuiteComparison) -> dict:
    """The `summary` of eval.json: a row per dataset that is scored and that a stage is trained on, and their average.

    Args:
        stages: if several are trained on a dataset, the last one counts.
    """
    tuned = {stage.data: name for name, stage in stages.items() if (stage.data, "all") in perplexity.places}
    pairs = {dataset: perplexity.pair((dataset, "all"), model, "base") for dataset, model in tuned.items()}
    return {
        "metric": "bits_per_byte",
        "datasets": [
            {
                "dataset": dataset,
                "model": tuned[dataset],
                "documents": sums.documents,
                **row([sums], perplexity.confidence),
            }
            for dataset, sums in pairs.items()
        ],
        "average": row(list(pairs.values()), perplexity.confidence) if pairs else None,
    }
