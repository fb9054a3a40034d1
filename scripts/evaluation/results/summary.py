"""A summary of all datasets: for each, the base model against the stage that was trained on it."""

from scripts.evaluation.metrics.perplexity import SUITE
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.intervals import direction
from scripts.experiment.settings.training import Stage


def summarize(stages: dict[str, Stage], perplexity: SuiteComparison) -> dict:
    """The `summary` of eval.json: a row per dataset that is scored and that a stage is trained on.

    There is no average over datasets: it would belong to no model, as each dataset has another stage.

    Args:
        stages: if several are trained on a dataset, the last one counts.
    """
    tuned = {stage.data: name for name, stage in stages.items() if (stage.data, "all") in perplexity.places}
    rows = []
    for dataset, model in tuned.items():
        place, metric = (dataset, "all"), "bits_per_byte"
        base, fine_tuned = (perplexity.measure(metric, place, name)["value"] for name in ("base", model))
        change = perplexity.measure(metric, place, model, "base")
        rows.append(
            {
                "dataset": dataset,
                "model": model,
                "documents": len(perplexity.columns[place]),
                "base": base,
                "tuned": fine_tuned,
                **change,
                "direction": direction(change["interval"], SUITE.metrics[metric].better),
            }
        )
    return {"metric": "bits_per_byte", "datasets": rows}
