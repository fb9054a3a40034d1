"""Retrieve, fine-tune, both, or neither: the conditions of suite `perplexity` on a team's own code, side by side.

    question = compare_conditions(experiment, layout, comparison, scored, compressors)
    question["sentence"]   # "On own code (own, 12 files): retrieval -0.07 [-0.09, -0.05], fine-tuning ... Do both."

All conditions are scored on the same characters of the same held-out files. p is corrected (Holm) over all differences
that the answer rests on; a difference whose corrected p does not pass is one that nobody can tell.
"""

import math
from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.common.text import enumeration
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.gates import GateResult, on_side
from scripts.evaluation.results.intervals import (
    cluster_values,
    clusters,
    correct,
    effective_number,
    estimate,
    fewest_clusters,
    sums_by_cluster,
)
from scripts.evaluation.results.items import AGAIN, Documents
from scripts.evaluation.suites.perplexity import BASELINES
from scripts.experiment.layout import Layout
from scripts.experiment.settings.experiment import Experiment

METRIC = "bits_per_byte"
COMPRESSORS = {"compressor": "compressor", "compressor_trained": "compressor + training data"}
RETRIEVAL = " + retrieval"  # behind the name of a model
ANSWERS = {  # by name, the advice in words
    "both": "Do both.",
    "retrieve": "Retrieve; fine-tuning is not shown to add to it.",
    "fine-tune": "Fine-tune; retrieval is not shown to add to it.",
    "neither": "Do neither: both make it worse.",
    "cannot tell": "So few files cannot tell which helps.",
    "fine-tuning helps": "Fine-tuning helps.",
    "fine-tuning harms": "Fine-tuning harms.",
}


def with_baselines(documents: Documents, items: dict[str, dict]) -> Documents:
    """The documents with the columns of each baseline behind those of the models."""
    rows = []
    for identity in documents.ids:
        item, row = items[identity], []
        for name in BASELINES:
            row += [item[name] * math.log(2), 1, item["bytes"], 1]  # nll, tokens, bytes, count of suite `perplexity`
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
    extended = {dataset: with_baselines(documents, items[dataset]) for dataset, documents in scored.items()}
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


def question_of(experiment: Experiment) -> tuple[str, str] | None:
    """(the dataset of own code, the last stage that is trained on it); None where no stage trains on scored code."""
    scored = experiment.evaluation.perplexity
    own = scored.retrieval.datasets if scored.retrieval else scored.datasets
    for dataset in own:
        stages = [name for name, stage in experiment.training.train.items() if stage.data == dataset]
        if stages and dataset in scored.datasets and experiment.corpus.compose[dataset].kind == "code":
            return dataset, stages[-1]
    return None


def with_retrieval(layout: Layout, dataset: str, documents: Documents, items: dict[str, list[dict]]) -> Documents:
    """The documents of a dataset with the columns of some models after retrieval behind those that are there."""
    blocks = [documents.columns]
    for model, scored in items.items():
        found, rows = {item["id"]: item for item in scored}, []
        for identity in documents.ids:
            item = found[identity]
            if "nll_retrieval" not in item:
                path = layout.suite("perplexity", model) / "items.jsonl.zst"
                raise UserError(f"{path}: {identity} of {dataset} was not scored with retrieval; {AGAIN}")
            rows.append([item["nll_retrieval"], item["tokens"], item["bytes"], 1])
        blocks.append(np.array(rows, dtype=np.float64))
    return documents._replace(columns=np.hstack(blocks))


def mean_of(ids: list[str], sums: list[list[float]], unit: str, confidence: float) -> dict | None:
    """The mean of a value from 0 to 1, with its interval over clusters of documents; None where there is none. `sums`:
    of each document, the sum of its values and their number."""
    if not ids:
        return None
    by_cluster = sums_by_cluster(np.array(sums, dtype=np.float64), clusters(ids, unit))
    value = float(by_cluster[:, 0].sum() / by_cluster[:, 1].sum())
    if len(by_cluster) < fewest_clusters(confidence):
        return {"value": value, "interval": None}
    values = cluster_values(by_cluster, lambda totals: totals[..., 0] / totals[..., 1])
    low, high = estimate(values, effective_number(by_cluster[:, 1]), confidence).interval
    return {"value": value, "interval": [max(low, 0.0), min(high, 1.0)]}


def names_right(items: list[dict], after_retrieval: bool, unit: str, confidence: float) -> dict | None:
    """The share of the names in these items of suite `perplexity` that a model would have written next."""
    key = "names_right"
    if after_retrieval:
        key = "names_right_retrieval"
    found = [item for item in items if item.get("names")]
    sums = [[item[key], item["names"]] for item in found]
    return mean_of([item["id"] for item in found], sums, unit, confidence)


def similarity_written(items: list[dict], after_retrieval: bool, unit: str, confidence: float) -> dict | None:
    """How similar to the files' own code (edit similarity) a model's answers are in these items of `completion`."""
    sums = [[item["edit_similarity"], 1] for item in items]
    if after_retrieval:
        items = [item for item in items if "retrieval" in item]
        sums = [[item["retrieval"]["figures"]["edit_similarity"], 1] for item in items]
    return mean_of([item["id"] for item in items], sums, unit, confidence)


def compare_conditions(
    experiment: Experiment,
    layout: Layout,
    comparison: SuiteComparison,
    scored: dict[str, Documents],
    compressors: dict[str, dict],
) -> dict | None:
    """The `question` of eval.json; None where no stage is trained on code that is scored.

    Args:
        comparison: of suite `perplexity`.
        scored: its documents by dataset.
        compressors: dataset → name of a compressor → its score.
    """
    named = question_of(experiment)
    if named is None:
        return None
    own, tuned = named
    place, retrieval = (own, "all"), experiment.evaluation.perplexity.retrieval
    completion = experiment.evaluation.completion
    items, answers = {}, {}  # of suites perplexity and completion, by model
    for model in ("base", tuned):
        of_all = read_jsonl(layout.suite("perplexity", model) / "items.jsonl.zst")
        items[model] = [item for item in of_all if item["dataset"] == own]
        answers[model] = []
        if completion and completion.dataset == own:
            answers[model] = list(read_jsonl(layout.suite("completion", model) / "items.jsonl.zst"))
    pairs = {"fine-tuning": (tuned, "base")}
    if retrieval and own in retrieval.datasets:
        documents = with_retrieval(layout, own, scored[own], items)
        models = [*comparison.models, f"base{RETRIEVAL}", f"{tuned}{RETRIEVAL}"]
        beside = SuiteComparison(comparison.suite, {own: documents}, models, comparison.confidence)
        pairs = {
            "retrieval": (f"base{RETRIEVAL}", "base"),
            "fine-tuning": (tuned, "base"),
            "both": (f"{tuned}{RETRIEVAL}", "base"),
            "both beside retrieval": (f"{tuned}{RETRIEVAL}", f"base{RETRIEVAL}"),
            "both beside fine-tuning": (f"{tuned}{RETRIEVAL}", tuned),
        }
    else:
        beside = comparison
    trained = {stage.data for stage in experiment.training.train.values()}
    rows = [{"name": name, **beside.comparison(METRIC, place, *pair)} for name, pair in pairs.items()]
    for dataset in scored:
        if dataset not in trained:
            rows.append({"name": "elsewhere", **comparison.comparison(METRIC, (dataset, "all"), tuned, "base")})
    correct(rows, comparison.confidence, "cannot tell")
    for row in rows:
        if row["holm"] is None:
            row["direction"] = "cannot tell"
    conditions = [{"name": COMPRESSORS[name], **score} for name, score in compressors[own].items()]
    for model in dict.fromkeys(name for pair in pairs.values() for name in reversed(pair)):
        alone, after_retrieval = model.removesuffix(RETRIEVAL), model.endswith(RETRIEVAL)
        about = after_retrieval, experiment.corpus.split.unit, beside.confidence
        names, written = names_right(items[alone], *about), similarity_written(answers[alone], *about)
        conditions.append({"name": model, **beside.measure(METRIC, place, model), "names": names, "written": written})
    result = {"dataset": own, "model": tuned, "documents": len(scored[own].ids), "conditions": conditions, "rows": rows}
    result["answer"] = answer({row["name"]: row["direction"] for row in rows if row["name"] != "elsewhere"})
    result["advice"] = ANSWERS[result["answer"]]
    return result | {"sentence": sentence(result)}


def answer(directions: dict[str, str]) -> str:
    """One of `ANSWERS`. `directions`: by name of the difference: `better`, `worse` or `cannot tell`."""
    if "retrieval" not in directions:
        return {"better": "fine-tuning helps", "worse": "fine-tuning harms"}.get(
            directions["fine-tuning"], "cannot tell"
        )
    adds_to_retrieval = directions["both beside retrieval"] == "better"
    adds_to_tuning = directions["both beside fine-tuning"] == "better"
    if directions["both"] == "better" and adds_to_retrieval and adds_to_tuning:
        return "both"
    if directions["retrieval"] == "better" and not adds_to_retrieval:
        return "retrieve"
    if directions["fine-tuning"] == "better" and not adds_to_tuning:
        return "fine-tune"
    if directions["retrieval"] == directions["fine-tuning"] == "worse":
        return "neither"
    return "cannot tell"


def stated(row: dict) -> str:
    """A difference with its interval, as `-0.07 [-0.09, -0.05]`."""
    if row["value"] is None:
        return "not measured"
    if row["interval"] is None:
        return f"{row['value']:+.3f}, too few files for an interval"
    low, high = row["interval"]
    unknown, beyond_zero = "", low > 0 or high < 0
    if row["direction"] == "cannot tell":
        unknown = ", cannot tell"
        if beyond_zero and row["holm"] is not None:  # alone it could be told; among so many comparisons it cannot
            unknown += f" (corrected p {row['holm']:.2f})"
    return f"{row['value']:+.3f} [{low:+.3f}, {high:+.3f}]{unknown}"


def sentence(question: dict) -> str:
    """The answer in words."""
    rows = {row["name"]: row for row in question["rows"] if row["name"] != "elsewhere"}
    names = [name for name in ("retrieval", "fine-tuning", "both") if name in rows]
    parts = [f"{name} {stated(rows[name])}" for name in names]
    count = f"{question['documents']} files"
    first = f"On your code ({question['dataset']}, {count}): {', '.join(parts)} bits per byte"
    elsewhere = [row for row in question["rows"] if row["name"] == "elsewhere"]
    if elsewhere:
        costs = [f"{row['dataset']} {stated(row)}" for row in elsewhere]
        first += f"; on other code fine-tuning changes {enumeration(costs)}"
    return f"{first}. {question['advice']}"
