"""Scores with intervals, paired comparisons and gates over all models, with everything that made them: eval.json.

    python -m scripts.evaluation.gate --experiment "$(cat experiment.json)" --sources '{"click": {...}}' \
        --codes '{"corpus.filter": "..."}' --out results/evaluation/gate/eval.json

What the numbers mean stands in docs/evaluation.md.
"""

from pathlib import Path

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import read_json, write_json
from scripts.evaluation.metrics.registry import suites
from scripts.evaluation.results.comparison import Measured
from scripts.evaluation.results.decontaminated import contaminated
from scripts.evaluation.results.inputs import gather
from scripts.evaluation.results.items import read_scored, read_scoring
from scripts.evaluation.results.latency_runs import read_timed
from scripts.evaluation.results.summary import summarize
from scripts.experiment.checks.gates import STAGE_METRICS
from scripts.experiment.layout import Layout
from scripts.experiment.settings.evaluation import Evaluation
from scripts.experiment.suites import METRICS, PROMPTED, scored_datasets, scored_models


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


def judged_gate(gate: dict, estimated: dict, judged: str) -> dict:
    """A gate as it stands in eval.json; one on a model itself has no dataset, no language and no other model."""
    facts = {key: gate.get(key) for key in ("name", "dataset", "language", "model", "against", "metric")}
    if facts["dataset"] is None:
        facts["language"] = None  # the schema's default says "all"
    return facts | estimated | sides(gate) | {"outcome": judged}


def engine_gate(gate: dict, summary: dict) -> dict:
    """A gate on a figure in a stage's summary: no document was drawn, so it is met, not met, or not measured."""
    value = summary.get({"loss": "eval_loss"}.get(gate["metric"], gate["metric"]))
    judged = "not measured" if value is None else "met" if on_side(value, **sides(gate)) else "not met"
    return judged_gate(gate, {"value": value, "interval": None}, judged)


def latency_gate(gate: dict, timed: dict) -> dict:
    """A gate on a figure of a model's latency; off the target hardware there is none, and it is not measured."""
    figure = timed.get(gate["metric"])
    estimated = {key: figure and figure[key] for key in ("value", "interval")}
    judged = outcome(**estimated, **sides(gate)) if figure else "not measured"
    return judged_gate(gate, estimated, judged)


def suite_gate(gate: dict, measured: Measured | None, key: str) -> dict:
    """A gate on a metric of a suite; None is a suite that has not scored yet.

    Raises:
        UserError: it names a language that has no documents.
    """
    if measured is None:
        return judged_gate(gate, {"value": None, "interval": None}, "not measured")
    place = gate["dataset"], gate["language"]
    if place not in measured.places:
        known = ", ".join(language for dataset, language in measured.places if dataset == place[0])
        raise UserError(f"{key}.language: {place[0]} has no test documents of {place[1]!r}; it has: {known}")
    estimated = measured.measure(gate["metric"], place, gate["model"], gate.get("against"))
    return judged_gate(gate, estimated, outcome(**estimated, **sides(gate)))


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
    evaluation = Evaluation.parse(experiment["evaluation"], "evaluation")
    layout = Layout(results)
    models, compared = ["base", *stages], scored_models(evaluation, stages)
    scored, found = {}, {}
    for name, suite in suites(experiment["evaluation"]).items():
        if name in compared:
            folder, datasets = layout.suite(name, ""), scored_datasets(getattr(evaluation, name))
            scored[name] = read_scored(folder, suite, compared[name], datasets)
            found[name] = Measured(suite, scored[name], compared[name], config)

    latency = None
    if wanted := experiment["evaluation"].get("latency"):
        folder, wanted = layout.suite("latency", ""), wanted | {"seed": experiment["seed"]}
        latency = {model: read_timed(folder / model, wanted, config["confidence"]) for model in models}

    summaries = {stage: read_json(layout.model(stage) / "summary.json") for stage in stages}
    gates = []
    for number, gate in enumerate(config["gates"]):
        if gate["metric"] in STAGE_METRICS:
            gates.append(engine_gate(gate, summaries[gate["model"]]))
        elif gate["metric"] in METRICS["latency"]:
            gates.append(latency_gate(gate, latency[gate["model"]]))
        else:
            measured = next((suite for suite in found.values() if gate["metric"] in suite.suite.metrics), None)
            gates.append(suite_gate(gate, measured, f"evaluation.gate.gates.{number}"))

    scoring = {
        model: {
            name: read_scoring(layout.suite(name, model) / "scores.json", layout.model(model))
            for name, scoring_models in compared.items()
            if model in scoring_models
        }
        for model in models
    }
    asking = {name: measured for name, measured in found.items() if name in PROMPTED}
    overlaps = None
    if asking:
        data = {name: scoring["base"][name]["data"] for name in asking}
        overlaps = contaminated(layout.overlaps, asking, scored, data, config)
    people = layout.agreement if "human" in experiment["evaluation"] else None

    return {
        "verdict": verdict([gate["outcome"] for gate in gates]),
        "confidence": config["confidence"],
        "resamples": config["resamples"],
        "gates": gates,
        "scores": {
            model: {name: scores(measured, model) for name, measured in found.items() if model in measured.models}
            for model in models
        },
        "comparisons": [
            {"suite": name, **measured.comparison(metric, place, stage, against)}
            for name, measured in found.items()
            for stage in stages
            for against in dict.fromkeys([stages[stage]["from"], "base"])
            if {stage, against} <= set(measured.models)
            for place in measured.places
            for metric in measured.suite.compared
        ],
        "summary": summarize(stages, found["perplexity"]),
        "latency": latency,
        "human": people and read_json(people),
        "contamination": overlaps,
        "stages": {
            stage: {
                "summary": summaries[stage],
                "environment": read_json(layout.model(stage) / "environment.json"),
            }
            for stage in stages
        },
        "scoring": scoring,
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
