"""Scores with intervals, paired comparisons and gates over all models, with everything that made them: eval.json.

    python -m scripts.evaluation.gate --experiment "$(cat experiment.json)" --sources '{"click": {...}}' \
        --codes '{"corpus.filter": "..."}' --out results/evaluation/gate/eval.json

docs/evaluation.md explains the numbers.
"""

import logging
from collections import Counter
from pathlib import Path

import numpy as np

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.options import command
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.conditions import also_met_by, beside_baselines, compare_conditions
from scripts.evaluation.results.gates import GateResult, latency_gate, stage_gate, suite_gate, verdict
from scripts.evaluation.results.inputs import check_made_with, gather
from scripts.evaluation.results.intervals import correct
from scripts.evaluation.results.items import AGAIN, Documents, read_scored, read_scoring
from scripts.evaluation.suites import configured, prompts_of, scored_datasets, scored_models, suites_of
from scripts.evaluation.suites.latency import METRICS as TIMED
from scripts.evaluation.suites.latency import read_latency
from scripts.experiment.checks import STAGE_METRICS
from scripts.experiment.layout import Layout
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.suites import Gate
from scripts.experiment.settings.training import Stage, further_models, models_by_seed


def read_overlaps(path: Path, scored: dict[str, dict[str, Documents]], data: dict[str, dict[str, str]]) -> dict:
    """Read overlaps.json, and check that it is about the problems that were scored. `scored`: suite → dataset → scored
    documents; `data`: suite → dataset → sha256 of its file, as in scores.json."""
    overlaps = read_json(path)
    try:
        rows = {(suite, dataset): overlaps["suites"][suite][dataset] for suite in scored for dataset in scored[suite]}
        facts = {place: (row["data"], row["problems"]) for place, row in rows.items()}
        runs = {place: dict(row["overlapping"]) for place, row in rows.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not what rule contamination writes: {error!r}; {AGAIN}") from error
    for (suite, dataset), fact in facts.items():
        ids = scored[suite][dataset].ids
        if fact != (data[suite][dataset], len(ids)) or runs[suite, dataset].keys() - set(ids):
            raise UserError(f"{path}: not about the problems of {dataset} that {suite} scored; {AGAIN}")
    return overlaps


def without_overlaps(documents: Documents, overlapping: dict) -> Documents:
    """The documents whose ids are not in `overlapping`."""
    kept = np.array([identity not in overlapping for identity in documents.ids])
    ids = [identity for identity in documents.ids if identity not in overlapping]
    return Documents(ids, documents.languages[kept], documents.columns[kept], documents.clusters[kept])


def decontaminate(
    path: Path,
    comparisons: dict[str, SuiteComparison],
    scored: dict[str, dict[str, Documents]],
    data: dict[str, dict[str, str]],
) -> dict:
    """The `contamination` of eval.json: the content of overlaps.json, and `without`, the scores without what overlaps.

    `without` has the form of `scores`, for the suites with prompts; a score over no problem is None.

    Args:
        path: overlaps.json.
        comparisons: the suites with prompts.
        scored, data: suite → dataset → the scored documents, and the sha256 of the dataset's file.

    Raises:
        UserError: overlaps.json is missing or malformed, or about other problems.
    """
    overlaps = read_overlaps(path, {suite: scored[suite] for suite in comparisons}, data)
    result = {}
    for suite, comparison in comparisons.items():
        for dataset, documents in scored[suite].items():
            kept = without_overlaps(documents, overlaps["suites"][suite][dataset]["overlapping"])
            left = {dataset: kept} if kept.ids else {}
            rest = SuiteComparison(comparison.suite, left, comparison.models, comparison.confidence, comparison.seeds)
            languages = [language for name, language in comparison.places if name == dataset]
            for model in comparison.named:
                result.setdefault(model, {}).setdefault(suite, {})[dataset] = {
                    language: rest.score((dataset, language), model) if (dataset, language) in rest.places else None
                    for language in languages
                }
    return overlaps | {"without": result}


def judge_gates(
    gates: list[Gate], comparisons: dict[str, SuiteComparison], latency: dict | None, summaries: dict[str, list[dict]]
) -> list[GateResult]:
    """The result of each gate.

    Args:
        comparisons: of each suite that has scores.
        latency: model → figures; None if the experiment does not configure suite `latency`.
        summaries: stage → summary.json with each seed."""
    results = []
    for number, gate in enumerate(gates):
        if gate.metric in STAGE_METRICS:
            results.append(stage_gate(gate, summaries[gate.model]))
        elif gate.metric in TIMED:
            results.append(latency_gate(gate, latency[gate.model]))
        else:
            measuring = [comparison for comparison in comparisons.values() if gate.metric in comparison.suite.metrics]
            comparison = measuring[0] if measuring else None
            results.append(suite_gate(gate, comparison, f"evaluation.gate.gates.{number}"))
    return results


def compare_stages(stages: dict[str, Stage], comparisons: dict[str, SuiteComparison], confidence: float) -> list[dict]:
    """The `comparisons` of eval.json: each stage against the model it starts from, and against the base.

    p is corrected for the number of comparisons over all languages; those of one language are exploratory. What the
    corrected p does not show is no difference shown, whatever the interval of the one comparison says.

    Args:
        confidence: of the experiment's intervals.
    """
    rows = []
    for name, comparison in comparisons.items():
        for stage, settings in stages.items():
            for against in dict.fromkeys([settings.origin, "base"]):
                if {stage, against} <= set(comparison.models):
                    for place in comparison.places:
                        for metric in comparison.suite.compared:
                            rows.append({"suite": name, **comparison.comparison(metric, place, stage, against)})
    correct([row for row in rows if row["language"] == "all"], confidence, "no difference shown")
    return [{"holm": None} | row for row in rows]


def evaluate(experiment: Experiment, results: Path) -> dict:
    """Everything in eval.json except `inputs`. Raises UserError: scores are missing, malformed or not comparable, or a
    gate names a language that has no documents."""
    evaluation, stages, settings = experiment.evaluation, experiment.training.train, experiment.evaluation.gate
    seeds, further = models_by_seed(stages), further_models(stages)
    layout, models, models_of = Layout(results), ["base", *stages], scored_models(evaluation, list(stages), further)
    scored, comparisons, unit = {}, {}, experiment.corpus.split.unit
    for name, suite in suites_of({name: to_dict(configured(evaluation)[name]) for name in models_of}).items():
        datasets = scored_datasets(evaluation, name)
        scored[name] = read_scored(layout.suite(name, ""), suite, models_of[name], datasets, unit)
        comparisons[name] = SuiteComparison(suite, scored[name], models_of[name], settings.confidence, seeds)
    latency = None
    if evaluation.latency:
        tokens, latency = evaluation.latency.new_tokens, {}
        for model in models:
            latency[model] = read_latency(layout.suite("latency", model), tokens, settings.confidence)
    facts = {}
    for model in (*stages, *further):
        facts[model] = {file: read_json(layout.model(model) / f"{file}.json") for file in ("summary", "environment")}
    summaries = {}
    for stage in stages:
        summaries[stage] = [facts[model]["summary"] for model in seeds.get(stage, [stage])]
    gates = judge_gates(settings.gates, comparisons, latency, summaries)
    scoring = {model: {} for model in (*models, *further)}
    for name, scored_by in models_of.items():
        for model in scored_by:
            scoring[model][name] = read_scoring(layout.suite(name, model) / "scores.json", layout.model(model))
    contamination = None
    prompted = {name: comparisons[name] for name in prompts_of(configured(evaluation))}
    if prompted:
        data = {name: scoring["base"][name]["data"] for name in prompted}
        contamination = decontaminate(layout.overlaps, prompted, scored, data)
    scores = {model: {} for model in models}
    for name, comparison in comparisons.items():
        for model in set(models).intersection(comparison.models):
            scores[model][name] = comparison.scores(model)
    of_stages = {stage: dict(facts[stage]) for stage in stages}
    for stage, of_seeds in seeds.items():
        of_stages[stage]["seeds"] = {model: facts[model] for model in of_seeds}
    perplexity_data = scoring["base"]["perplexity"]["data"]
    baselines = beside_baselines(layout.baselines, comparisons["perplexity"], scored["perplexity"], perplexity_data)
    perplexity = comparisons["perplexity"], scored["perplexity"]
    first_seeds = {stage: of_stage[0] for stage, of_stage in summaries.items()}
    question = compare_conditions(experiment, layout, *perplexity, baselines["scores"], first_seeds)
    compared = compare_stages(stages, comparisons, settings.confidence)
    return {
        "verdict": verdict([gate.outcome for gate in gates]),
        "question": question,
        "confidence": settings.confidence,
        "unit": unit,
        "gates": [gate._asdict() | also_met_by(gate, baselines) for gate in gates],
        "scores": scores,
        "comparisons": compared,
        "summary": summarize(stages, comparisons["perplexity"], compared),
        "latency": latency,
        "human_ratings": read_json(layout.agreement) if evaluation.human_ratings else None,
        "contamination": contamination,
        "baselines": baselines,
        "stages": of_stages,
        "scoring": scoring,
    }


def summarize(stages: dict[str, Stage], perplexity: SuiteComparison, compared: list[dict]) -> dict:
    """The `summary` of eval.json: a row per dataset that is scored and that a stage is trained on.

    There is no average over datasets: it would belong to no model, as each dataset has another stage.

    Args:
        stages: if several are trained on a dataset, the last one counts.
        compared: the `comparisons` of eval.json, which say what each difference shows.
    """
    tuned = {stage.data: name for name, stage in stages.items() if (stage.data, "all") in perplexity.places}
    rows = []
    for dataset, model in tuned.items():
        place, metric = (dataset, "all"), "bits_per_byte"
        base, fine_tuned = (perplexity.measure(metric, place, name)["value"] for name in ("base", model))
        about = {"suite": "perplexity", "model": model, "against": "base", "metric": metric, "dataset": dataset}
        row = next(row for row in compared if row["language"] == "all" and about.items() <= row.items())
        change = {key: row[key] for key in ("value", "interval", "seeds", "documents", "direction") if key in row}
        rows.append(
            {
                "dataset": dataset,
                "model": model,
                "documents": len(perplexity.columns[place]),
                "base": base,
                "tuned": fine_tuned,
                **change,
            }
        )
    return {"metric": "bits_per_byte", "datasets": rows}


def gate(
    experiment: Experiment,
    sources: dict[str, dict],
    codes: dict[str, str],
    out: Path,
    by_workflow: bool = False,
    raw: Path = Path("data/raw"),
) -> None:
    """Write eval.json, the file `out`.

    Args:
        sources: rows of the table of sources by name.
        codes: a fingerprint per rule.
        by_workflow: whether each result must have its provenance.
        raw: folder with the manifest of each archive.
    """
    results = Path(experiment.results)
    made_by = check_made_with(experiment, by_workflow)
    inputs = gather(experiment, sources, codes, results, raw) | {"made_by": made_by}
    evaluation = evaluate(experiment, results)
    result = {"experiment": experiment.experiment, **evaluation, "inputs": inputs}
    write_json(out, result, first=("verdict", "question"))
    outcomes = Counter(judged["outcome"] for judged in evaluation["gates"])
    counts = ", ".join(f"{count} {name}" for name, count in outcomes.items())
    logging.info(f"gates: {evaluation['verdict']}{f' ({counts})' if counts else ''}")


if __name__ == "__main__":
    run(command(gate))
