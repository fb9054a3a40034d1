"""What overlaps.json of rule contamination says of the scored problems, and the scores without those that overlap."""

from pathlib import Path

import numpy as np

from scripts.common.cli import UserError
from scripts.common.files import read_json
from scripts.evaluation.results.comparison import Measured
from scripts.evaluation.results.items import AGAIN, Documents

EVIDENCE = {"share": (int, float), "length": int, "dataset": str, "document": str, "words": str}


def read_overlaps(path: Path, scored: dict[str, dict[str, Documents]], data: dict[str, dict[str, str]]) -> dict:
    """An overlaps.json that is about the problems that were scored.

    Args:
        scored: suite → dataset → what was scored.
        data: suite → dataset → sha256 of its file, as scores.json has it.

    Raises:
        UserError: it is missing or malformed, or about others.
    """
    found = read_json(path)
    try:
        rows = {(suite, dataset): found["suites"][suite][dataset] for suite in scored for dataset in scored[suite]}
        facts = {place: (row["data"], row["problems"]) for place, row in rows.items()}
        runs = {place: dict(row["overlapping"]) for place, row in rows.items()}
        typed = [(found["words"], int), (found["common"], (int, float)), (found["train"], dict)]
        typed += [(row["too_short"], int) for row in rows.values()]
        typed += [(run[key], EVIDENCE[key]) for some in runs.values() for run in some.values() for key in EVIDENCE]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not what rule contamination writes: {error!r}; {AGAIN}") from error
    if wrong := [value for value, kind in typed if not isinstance(value, kind)]:
        raise UserError(f"{path}: not what rule contamination writes: {str(wrong[0])[:40]!r} somewhere; {AGAIN}")
    for (suite, dataset), fact in facts.items():
        ids = scored[suite][dataset].ids
        if fact != (data[suite][dataset], len(ids)) or runs[suite, dataset].keys() - set(ids):
            raise UserError(f"{path}: of other problems than {suite} scored of {dataset}; {AGAIN}")
    return found


def rest_of(documents: Documents, left_out: dict) -> Documents:
    """The documents whose ids are not in `left_out`."""
    kept = np.array([identity not in left_out for identity in documents.ids])
    ids = [identity for identity in documents.ids if identity not in left_out]
    return Documents(ids, documents.languages[kept], documents.columns[kept])


def contaminated(
    path: Path,
    found: dict[str, Measured],
    scored: dict[str, dict[str, Documents]],
    data: dict[str, dict[str, str]],
    config: dict,
) -> dict:
    """The `contamination` of eval.json: what overlaps.json holds, and `without`, the scores without what overlaps.

    `without` has the form of `scores`, suites that ask nothing left out; a score over no problem is None.

    Args:
        path: overlaps.json.
        found: what the asking suites say.
        scored, data: suite → dataset → what was scored, and the sha256 of its file.
        config: `confidence` and `resamples`.

    Raises:
        UserError: overlaps.json is missing or malformed, or about other problems.
    """
    overlaps = read_overlaps(path, {suite: scored[suite] for suite in found}, data)
    result = {}
    for suite, measured in found.items():
        for dataset, documents in scored[suite].items():
            kept = rest_of(documents, overlaps["suites"][suite][dataset]["overlapping"])
            rest = Measured(measured.suite, {dataset: kept} if kept.ids else {}, measured.models, config)
            languages = [language for one, language in measured.places if one == dataset]
            for model in measured.models:
                result.setdefault(model, {}).setdefault(suite, {})[dataset] = {
                    language: rest.score((dataset, language), model) if (dataset, language) in rest.places else None
                    for language in languages
                }
    return overlaps | {"without": result}
