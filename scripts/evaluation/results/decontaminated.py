"""Scores without the problems that overlap with the training data, which overlaps.json of rule contamination lists."""

from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.items import AGAIN, Documents


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
