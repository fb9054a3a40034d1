"""Retrieve, fine-tune, both, or neither: the conditions of suite `perplexity` on a team's own code, side by side.

    question = compare_conditions(experiment, layout, comparison, scored, compressors, summaries)
    question["sentence"]   # "On your code (own, 1,020 lines of 24 files): bits per byte retrieval -0.02 [...], ..."

All conditions are scored on the same characters of the same held-out files, and a stage that was trained with several
seeds counts with all of them. p is corrected (Holm) over all differences, on bits per byte and on lines as they stand;
a difference whose corrected p does not pass is one that nobody can tell. What follows from them: answer.py.
"""

import math
from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.common.manifest import NAME as MANIFEST
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.answer import FEW, UNKNOWN, carried_by, choice, effect_of, sentence, visible
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.gates import GateResult, on_side
from scripts.evaluation.results.intervals import correct
from scripts.evaluation.results.items import AGAIN, Documents
from scripts.evaluation.suites.perplexity import BASELINES, RETRIEVAL, after
from scripts.experiment.layout import Layout
from scripts.experiment.model_folder import short_name
from scripts.experiment.settings.experiment import Experiment
from scripts.training.model.snapshots import snapshots_in

METRIC, LINES = "bits_per_byte", "lines"
COMPRESSORS = {"compressor": "compressor", "compressor_trained": "compressor + training data"}


def with_baselines(suite: Suite, documents: Documents, items: dict[str, dict]) -> Documents:
    """The documents with the columns of each baseline behind those of the models. `suite`: `perplexity`."""
    rows, nothing = [], dict.fromkeys(suite.figures, 0)
    for identity in documents.ids:
        item, row = items[identity], []
        for name in BASELINES:
            row += suite.columns(nothing | {"nll": item[name] * math.log(2), "tokens": 1, "bytes": item["bytes"]})
        rows.append(row)
    return documents._replace(columns=np.hstack([documents.columns, np.array(rows, dtype=np.float64)]))


def beside_baselines(
    folder: Path, comparison: SuiteComparison, scored: dict[str, Documents], data: dict[str, str]
) -> dict:
    """The `baselines` of eval.json: what the compressor is, its scores, and each model's difference from them.

    Args:
        folder: where rule baselines wrote.
        comparison: of suite `perplexity`.
        scored: its documents by dataset.
        data: the sha256 of each dataset's test file, as the models were scored.

    Raises:
        UserError: the baselines are of other examples than the models' scores.
    """
    facts, items = read_json(folder / "scores.json"), {}
    for item in read_jsonl(folder / "items.jsonl.zst"):
        items.setdefault(item["dataset"], {})[item["id"]] = item
    for dataset, documents in scored.items():
        if facts["data"].get(dataset) != data[dataset] or not set(documents.ids) <= items.get(dataset, {}).keys():
            raise UserError(f"{folder}: not of the examples of {dataset} that perplexity scored; {AGAIN}")
    extended = {}
    for dataset, documents in scored.items():
        extended[dataset] = with_baselines(comparison.suite, documents, items[dataset])
    models = [*comparison.models, *BASELINES]
    beside = SuiteComparison(comparison.suite, extended, models, comparison.confidence, comparison.seeds)
    rows, scores = [], {}
    for dataset in scored:
        place = dataset, "all"
        scores[dataset] = {name: beside.measure(METRIC, place, name) for name in BASELINES}
        for model in comparison.named:
            rows += [beside.comparison(METRIC, place, model, name) for name in BASELINES]
    return {"compressor": facts["compressor"], "scores": scores, "rows": rows}


def also_met_by(gate: GateResult, baselines: dict) -> dict[str, list[str]]:
    """`{"also_met_by": names}` of a gate on bits per byte that baselines would meet as well, else nothing.

    A gate on a difference is about models alone.
    """
    scores = baselines["scores"].get(gate.dataset, {})
    if gate.metric != METRIC or gate.against is not None or gate.language != "all":
        return {}
    names = [name for name, score in scores.items() if on_side(score["value"], gate.side, gate.bound)]
    return {"also_met_by": names} if names else {}


def held_by(experiment: Experiment, stage: str) -> set[str]:
    """The datasets whose rows a stage reads: its data, or all parts of its mixture."""
    data = experiment.training.train[stage].data
    mixture = experiment.tokens.mix.get(data)
    return set(mixture.parts) if mixture else {data}


def lineage(experiment: Experiment, stage: str) -> list[str]:
    """A stage and those before it, the newest first."""
    found = []
    while stage in experiment.training.train:
        found.append(stage)
        stage = experiment.training.train[stage].origin
    return found


def question_of(experiment: Experiment) -> tuple[str, str] | None:
    """(The dataset of own code, the last stage that is trained on it); None where no stage trains on scored code.

    A control is trained on other code on purpose, so its data is not the team's own.
    """
    scored, controls = experiment.evaluation.perplexity, experiment.evaluation.gate.controls.values()
    own = scored.retrieval.datasets if scored.retrieval else scored.datasets
    for dataset in own:
        stages = [name for name in experiment.training.train if dataset in held_by(experiment, name)]
        stages = [name for name in stages if name not in controls]
        if stages and dataset in scored.datasets and experiment.corpus.compose[dataset].kind == "code":
            return dataset, stages[-1]
    return None


def with_variants(
    layout: Layout, comparison: SuiteComparison, dataset: str, documents: Documents, variants: dict[str, list[str]]
) -> SuiteComparison:
    """The comparison of a dataset with the variants of some models behind the models that are there.

    Args:
        variants: of each model the names of its variants; each becomes a model named as by `named`.

    Raises:
        UserError: a model was scored without one of its variants.
    """
    blocks, models = [documents.columns], list(comparison.models)
    for model, names in variants.items():
        path = layout.suite("perplexity", model) / "items.jsonl.zst"
        found = {item["id"]: item for item in read_jsonl(path) if item["dataset"] == dataset}
        for name in names:
            rows = []
            for identity in documents.ids:
                figures = found[identity].get("variants", {}).get(name)
                if figures is None:
                    raise UserError(f"{path}: {identity} of {dataset} was not scored with {name}; {AGAIN}")
                rows.append(comparison.suite.columns(figures))
            blocks.append(np.array(rows, dtype=np.float64))
            models.append(named(model, name))
    seeds = dict(comparison.seeds)
    for stage, of_seeds in comparison.seeds.items():
        for name in variants.get(stage, []):
            seeds[named(stage, name)] = [named(model, name) for model in of_seeds]
    extended = documents._replace(columns=np.hstack(blocks))
    return SuiteComparison(comparison.suite, {dataset: extended}, models, comparison.confidence, seeds)


def named(model: str, variant: str) -> str:
    """The name of a model's variant, as `own + retrieval`."""
    return f"{model} + {variant}"


def steps_kept(layout: Layout, model: str) -> list[int]:
    """The steps after which a stage kept its weights, in order."""
    return list(snapshots_in(list(read_json(layout.model(model) / MANIFEST)["files"])))


def compare_conditions(
    experiment: Experiment,
    layout: Layout,
    comparison: SuiteComparison,
    scored: dict[str, Documents],
    compressors: dict[str, dict],
    summaries: dict[str, dict],
) -> dict | None:
    """The `question` of eval.json; None where no stage is trained on code that is scored.

    Args:
        comparison: of suite `perplexity`.
        scored: its documents by dataset.
        compressors: dataset → name of a compressor → its score.
        summaries: summary.json of each stage.
    """
    asked = question_of(experiment)
    if asked is None:
        return None
    own, tuned = asked
    place, gate = (own, "all"), experiment.evaluation.gate
    retrieval = experiment.evaluation.perplexity.retrieval
    retrieves = retrieval is not None and own in retrieval.datasets
    steps = steps_kept(layout, tuned) if retrieves else []
    of_tuned = [RETRIEVAL, *map(after, steps)] if retrieves else []
    variants = {"base": [RETRIEVAL] if retrieves else []}
    variants |= dict.fromkeys(comparison.with_seeds(tuned), of_tuned)
    beside = with_variants(layout, comparison, own, scored[own], variants)

    # each difference on bits per byte, and those of the conditions on lines, too
    pairs = {"fine-tuning": (tuned, "base")}
    if retrieves:
        base_retrieval, tuned_retrieval = named("base", RETRIEVAL), named(tuned, RETRIEVAL)
        pairs = {
            "retrieval": (base_retrieval, "base"),
            "fine-tuning": (tuned, "base"),
            "both": (tuned_retrieval, "base"),
            "both beside retrieval": (tuned_retrieval, base_retrieval),
            "both beside fine-tuning": (tuned_retrieval, tuned),
            "fine-tuning beside retrieval": (tuned, base_retrieval),
        }
    rows = [{"name": name, **beside.comparison(METRIC, place, *pair)} for name, pair in pairs.items()]
    if retrieves:
        weights = {tuned_retrieval: 1, base_retrieval: -1, tuned: -1, "base": 1}
        rows.append({"name": "both beyond the sum of the two", **beside.combination(METRIC, place, weights)})
    control = gate.controls.get(tuned)
    if control:
        row = comparison.comparison(METRIC, place, tuned, control)
        rows.append({"name": "your code rather than any code", **row})
    half = [kept for kept in steps if kept <= summaries[tuned]["steps"] / 2]
    if half:
        row = beside.comparison(METRIC, place, tuned, named(tuned, after(half[-1])))
        rows.append({"name": "last half of the steps", **row})
    read = set().union(*(held_by(experiment, stage) for stage in lineage(experiment, tuned)))
    for dataset in scored:
        if dataset not in read and dataset != own:
            rows.append({"name": "elsewhere", **comparison.comparison(METRIC, (dataset, "all"), tuned, "base")})
    counted = beside.figures(place, "base")[:, beside.suite.column("lines")].sum()
    if counted:
        for name, pair in pairs.items():
            rows.append({"name": name, **beside.comparison(LINES, place, *pair)})
    correct(rows, comparison.confidence, UNKNOWN)
    for row in rows:
        margin = gate.smallest_gain.lines if row["metric"] == LINES else gate.smallest_gain.bits_per_byte
        row["effect"] = effect_of(row, margin)

    # the level of each condition, and of the tuned model on its way
    conditions = []
    for model in dict.fromkeys(name for pair in pairs.values() for name in reversed(pair)):
        measured = {"name": model, **beside.measure(METRIC, place, model)}
        if counted:
            measured |= {"lines": beside.measure(LINES, place, model)}
            measured |= {"typing_saved": beside.measure("typing_saved", place, model)}
        conditions.append(measured)
    curve = [{"steps": 0, **beside.measure(METRIC, place, "base")}] if steps else []
    for kept in steps:
        curve.append({"steps": kept, **beside.measure(METRIC, place, named(tuned, after(kept)))})
    if steps:
        curve.append({"steps": summaries[tuned]["steps"], **beside.measure(METRIC, place, tuned)})

    stages = [name for name in lineage(experiment, tuned) if own in held_by(experiment, name)]
    result = {
        "dataset": own,
        "model": tuned,
        "base": short_name(experiment.training.base),
        "documents": len(scored[own].ids),
        "lines": int(counted),
        "steps": sum(summaries[name]["steps"] for name in stages),
        "tokens_read": sum(summaries[name]["tokens"] for name in stages),
        "tokens": summaries[tuned].get("data_tokens"),
        "conditions": conditions,
        "compressors": [{"name": COMPRESSORS[name], **score} for name, score in compressors[own].items()],
        "curve": curve,
        "rows": rows,
    }
    return result | advice(result, beside, pairs, gate.smallest_gain.bits_per_byte)


def advice(question: dict, beside: SuiteComparison, pairs: dict, margin: float) -> dict:
    """What follows from the rows: what to do, the advice, its heading, the files that carry it, the sentence."""
    effects = {row["name"]: row["effect"] for row in question["rows"] if row["metric"] == METRIC}
    on_lines = {row["name"]: row["effect"] for row in question["rows"] if row["metric"] == LINES}
    chosen, words = choice(effects)
    few = question["documents"] < FEW
    words = words.format(margin=margin, which="So few files" if few else "These files")
    unseen = visible(chosen, on_lines)
    place = question["dataset"], "all"
    shown = {"either": "fine-tuning"}.get(chosen, chosen)
    carriers = []
    if shown in pairs:
        table = beside.table(METRIC, place, [beside.with_seeds(model) for model in pairs[shown]])
        carriers = carried_by(table.mean(axis=0).tolist(), beside.cluster_names[place])
    found = {
        "answer": chosen,
        "advice": unseen + words,
        "heading": unseen.partition(":")[0] or words.removesuffix("."),
        "carried_by": carriers,
    }
    return found | {"sentence": sentence(question | found)}
