"""Scores with intervals, paired comparisons and gates over all models, with everything that made them: eval.json.

    python -m scripts.evaluation.gate --experiment "$(cat experiment.json)" --sources '{"click": {...}}' \
        --codes '{"corpus.filter": "..."}' --out results/evaluation/gate/eval.json

What the numbers mean stands in docs/evaluation.md.
"""

from pathlib import Path

from scripts.common.agreement import ENGINE
from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import read_json, write_json
from scripts.common.suites import ASKING, scored_on
from scripts.evaluation.inputs import gather, model_folder
from scripts.evaluation.measured import Measured
from scripts.evaluation.scores import read_scored, read_scoring
from scripts.evaluation.suites import suites
from scripts.evaluation.summary import summarize
from scripts.evaluation.without import contaminated


def on_side(value: float, side: str, bound: float) -> bool:
    """Whether a value lies on the `side` (`below` or `above`) of `bound` where it is to lie."""
    return value < bound if side == "below" else value > bound


def outcome(value: float, interval: list[float] | None, side: str, bound: float) -> str:
    """`met` or `not met`, followed by `, not secured` where the interval crosses the bound or there is none."""
    met = on_side(value, side, bound)
    secured = interval and all(on_side(end, side, bound) == met for end in interval)
    return f"{'met' if met else 'not met'}{'' if secured else ', not secured'}"


def sides(gate: dict) -> dict:
    """Where a gate's value is to lie: `{"side": "below" or "above", "bound": number}`."""
    side = "below" if "below" in gate else "above"
    return {"side": side, "bound": gate[side]}


def engine_gate(gate: dict, summary: dict) -> dict:
    """A gate on a figure in a stage's summary: no document was drawn, so it is met, not met, or not measured."""
    value = summary.get({"loss": "eval_loss"}.get(gate["metric"], gate["metric"]))
    judged = "not measured" if value is None else "met" if on_side(value, **sides(gate)) else "not met"
    nothing = dict.fromkeys(("dataset", "language", "against", "interval"))
    facts = {key: gate[key] for key in ("name", "model", "metric")}
    return facts | nothing | {"value": value} | sides(gate) | {"outcome": judged}


def suite_gate(gate: dict, measured: Measured, key: str) -> dict:
    """A gate on a metric of a suite.

    Raises:
        UserError: it names a language that has no documents.
    """
    place = gate["dataset"], gate["language"]
    if place not in measured.places:
        known = ", ".join(language for dataset, language in measured.places if dataset == place[0])
        raise UserError(f"{key}.language: {place[0]} has no test documents of {place[1]!r}; it has: {known}")
    estimated = measured.measure(gate["metric"], place, gate["model"], gate.get("against"))
    facts = {key: gate.get(key) for key in ("name", "dataset", "language", "model", "against", "metric")}
    return facts | estimated | sides(gate) | {"outcome": outcome(**estimated, **sides(gate))}


def scores(measured: Measured, model: str) -> dict:
    """dataset → language → what a suite says of a model."""
    found = {}
    for dataset, language in measured.places:
        found.setdefault(dataset, {})[language] = measured.score((dataset, language), model)
    return found


def verdict(outcomes: list[str]) -> str:
    """The weakest of the outcomes: one gate that is not met decides, else one that was not measured."""
    if not outcomes:
        return "no gates"
    if any(one.startswith("not met") for one in outcomes):
        return "not met"
    if "not measured" in outcomes:
        return "not measured"
    return "met" if all(one == "met" for one in outcomes) else "met, not secured"


def evaluate(experiment: dict, results: Path) -> dict:
    """Everything in eval.json but `inputs`.

    Raises:
        UserError: scores are missing, malformed or not comparable, or a gate names a language that has no documents.
    """
    config, stages = experiment["evaluation"]["gate"], experiment["training"]["train"]
    models, scored, found = ["base", *stages], {}, {}
    for name, suite in suites(experiment["evaluation"]).items():
        folder = results / "evaluation" / name
        scored[name] = read_scored(folder, suite, models, scored_on(experiment["evaluation"][name]))
        found[name] = Measured(suite, scored[name], models, config)

    summaries = {stage: read_json(results / f"training/train/{stage}/summary.json") for stage in stages}
    gates = []
    for number, gate in enumerate(config["gates"]):
        if gate["metric"] in ENGINE:
            gates.append(engine_gate(gate, summaries[gate["model"]]))
        else:
            measured = next(suite for suite in found.values() if gate["metric"] in suite.suite.metrics)
            gates.append(suite_gate(gate, measured, f"evaluation.gate.gates.{number}"))

    evaluation = {
        "verdict": verdict([gate["outcome"] for gate in gates]),
        "confidence": config["confidence"],
        "resamples": config["resamples"],
        "gates": gates,
        "scores": {model: {name: scores(measured, model) for name, measured in found.items()} for model in models},
        "comparisons": [
            {"suite": name, **measured.comparison(metric, place, stage, against)}
            for name, measured in found.items()
            for stage in stages
            for against in dict.fromkeys([stages[stage]["from"], "base"])
            for place in measured.places
            for metric in measured.suite.compared
        ],
        "summary": summarize(stages, found["perplexity"]),
        "stages": {
            stage: {
                "summary": summaries[stage],
                "environment": read_json(results / f"training/train/{stage}/environment.json"),
            }
            for stage in stages
        },
        "scoring": {
            model: {
                name: read_scoring(results / f"evaluation/{name}/{model}/scores.json", results / model_folder(model))
                for name in found
            }
            for model in models
        },
    }
    if asking := {name: measured for name, measured in found.items() if name in ASKING}:
        path, problems = results / "evaluation/contamination/overlaps.json", {name: scored[name] for name in asking}
        evaluation["contamination"] = contaminated(path, asking, problems, evaluation, config)
    return evaluation


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
