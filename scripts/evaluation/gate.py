"""Scores with intervals, paired comparisons and gates over all models, with everything that made them: eval.json.

    python -m scripts.evaluation.gate --experiment "$(cat experiment.json)" --sources '{"click": {...}}' \
        --codes '{"corpus.filter": "..."}' --out results/evaluation/gate/eval.json

What the numbers mean stands in docs/evaluation.md.
"""

from pathlib import Path

import numpy as np

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import read_json, write_json
from scripts.evaluation.inputs import gather, model_folder
from scripts.evaluation.scores import read_scored, read_scoring
from scripts.evaluation.statistics import METRICS, Resampled, content_seed, difference, estimate, resample


def outcome(value: float, interval: list[float] | None, side: str, bound: float) -> str:
    """`met` or `not met`, followed by `, not secured` where the interval crosses the bound or there is none.

    Args:
        side: `below` or `above`, where the value is to lie.
    """
    sign = 1 if side == "below" else -1
    met = sign * value < sign * bound
    secured = interval and all((sign * end < sign * bound) == met for end in interval)
    return f"{'met' if met else 'not met'}{'' if secured else ', not secured'}"


def verdict(outcomes: list[str]) -> str:
    """The weakest of the outcomes: one gate that is not met decides."""
    if not outcomes:
        return "no gates"
    if any(one.startswith("not met") for one in outcomes):
        return "not met"
    return "met" if all(one == "met" for one in outcomes) else "met, not secured"


def reading(interval: list[float] | None) -> str:
    """What a difference in bits per byte shows, less being better."""
    if interval and interval[1] < 0:
        return "better"
    return "worse" if interval and interval[0] > 0 else "no difference shown"


def evaluate(experiment: dict, results: Path) -> dict:
    """Everything in eval.json but `inputs`.

    Raises:
        UserError: scores are missing, malformed or not comparable, or a gate names a language that has no documents.
    """
    config, stages = experiment["evaluation"]["gate"], experiment["training"]["train"]
    models = ["base", *stages]
    scored = read_scored(results, models, experiment["evaluation"]["perplexity"]["datasets"])
    sums: dict[tuple[str, str], Resampled] = {}
    for dataset, documents in scored.items():
        for language in ["all", *sorted(set(documents.languages.tolist()))]:
            chosen = np.flatnonzero((documents.languages == language) | (language == "all"))
            seed = content_seed(dataset, language, *(documents.ids[index] for index in chosen))
            sums[dataset, language] = resample(documents.columns[chosen], config["resamples"], seed)

    def measure(metric: str, dataset: str, language: str, model: str, against: str | None = None) -> dict:
        pair = [models.index(name) for name in (model, against) if name]
        columns = [3 * index + column for index in pair for column in range(3)]
        statistic = difference(metric) if against else METRICS[metric]
        return estimate(sums[dataset, language].select(columns), statistic, config["confidence"])

    gates = []
    for number, gate in enumerate(config["gates"]):
        place = gate["dataset"], gate["language"]
        if place not in sums:
            known = ", ".join(language for dataset, language in sums if dataset == place[0])
            key = f"evaluation.gate.gates.{number}.language"
            raise UserError(f"{key}: {place[0]} has no test documents of {place[1]!r}; it has: {known}")
        estimated = measure(gate["metric"], *place, gate["model"], gate.get("against"))
        side = "below" if "below" in gate else "above"
        facts = {key: gate.get(key) for key in ("name", "dataset", "language", "model", "against", "metric")}
        judged = {"side": side, "bound": gate[side], "outcome": outcome(**estimated, side=side, bound=gate[side])}
        gates.append(facts | estimated | judged)

    def score(model: str, dataset: str, language: str) -> dict:
        index = 3 * models.index(model)
        resampled = sums[dataset, language]
        _, tokens, size = resampled.totals[index : index + 3].tolist()
        counts = {"documents": resampled.documents, "tokens": int(tokens), "bytes": int(size)}
        return counts | {metric: measure(metric, dataset, language, model) for metric in METRICS}

    def comparison(model: str, against: str, dataset: str, language: str) -> dict:
        estimated = measure("bits_per_byte", dataset, language, model, against)
        place = {
            "model": model,
            "against": against,
            "dataset": dataset,
            "language": language,
            "metric": "bits_per_byte",
        }
        return place | estimated | {"reading": reading(estimated["interval"])}

    return {
        "verdict": verdict([gate["outcome"] for gate in gates]),
        "confidence": config["confidence"],
        "resamples": config["resamples"],
        "gates": gates,
        "scores": {
            model: {
                dataset: {language: score(model, dataset, language) for name, language in sums if name == dataset}
                for dataset in scored
            }
            for model in models
        },
        "comparisons": [
            comparison(stage, against, dataset, language)
            for stage in stages
            for against in dict.fromkeys([stages[stage]["from"], "base"])
            for dataset, language in sums
        ],
        "stages": {
            stage: {
                name: read_json(results / f"training/train/{stage}/{name}.json") for name in ("summary", "environment")
            }
            for stage in stages
        },
        "scoring": {model: read_scoring(results, model, results / model_folder(model)) for model in models},
    }


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--experiment", type=settings, required=True, help="the checked experiment, as JSON")
    p.add_argument("--sources", type=settings, required=True, help="rows of the source table by name, as JSON")
    p.add_argument("--codes", type=settings, required=True, help="a fingerprint per rule, as JSON")
    p.add_argument("--raw", type=Path, default=Path("data/raw"), help="folder with the manifest of each archive")
    p.add_argument("--out", type=Path, required=True, help="eval.json")
    args = p.parse_args()
    results = Path(args.experiment["results"])
    inputs = gather(args.experiment, args.sources, args.codes, results, args.raw)
    write_json(
        args.out, {"experiment": args.experiment["experiment"], **evaluate(args.experiment, results), "inputs": inputs}
    )


if __name__ == "__main__":
    run(main)
