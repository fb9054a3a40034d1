"""Models beside a compressor on the same examples: a score means little where the compressor's is better.

beside_baselines(Path("results/evaluation/baselines"), comparison, scored, data)
# {"compressor": {...}, "scores": {"code": {"compressor": {"value": 2.0, ...}}}, "rows": [{"model": "sft", ...}]}
"""

import math
from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.gates import GateResult, on_side
from scripts.evaluation.results.items import AGAIN, Documents
from scripts.evaluation.suites.perplexity import BASELINES

METRIC = "bits_per_byte"


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
