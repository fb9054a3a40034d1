"""What the report reads, gathered for pictures and page: eval.json, funnel counts, training metrics."""

import json
from collections import Counter
from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import MANIFEST, Layout
from scripts.experiment.suites import METRICS

OVERLAPS = 3  # shown per dataset as evidence


def read_evaluation(results: Path) -> dict:
    """The eval.json that rule gate wrote below `results`.

    Raises:
        UserError: it is missing or is not one.
    """
    path = Layout(results).gate
    evaluation = read_json(path)
    wanted = {
        "experiment",
        "verdict",
        "gates",
        "scores",
        "comparisons",
        "summary",
        "stages",
        "scoring",
        "latency",
        "human",
        "contamination",
        "inputs",
    }
    if not isinstance(evaluation, dict) or not wanted <= evaluation.keys():
        raise UserError(f"{path}: not what rule gate writes; delete it and run again")
    return evaluation


def read_scores(evaluation: dict) -> dict[str, dict]:
    """suite → model that it scores → dataset → language → score; suites in their order, the base first."""
    scores = evaluation["scores"]
    models = sorted(scores, key=lambda model: model != "base")
    found = {suite: {model: scores[model][suite] for model in models if suite in scores[model]} for suite in METRICS}
    return {suite: models for suite, models in found.items() if models}


def read_metric_names(evaluation: dict) -> dict[str, list[str]]:
    """The metrics of each suite: what has an interval."""
    names = {}
    for suite, models in read_scores(evaluation).items():
        score = next(iter(next(iter(models.values())).values()))["all"]
        names[suite] = [name for name, value in score.items() if isinstance(value, dict)]
    return names


def read_compared(evaluation: dict) -> dict[str, list[str]]:
    """The suites in their order, each with the metrics that models are compared by, or all where no two models are."""
    compared = {(row["suite"], row["metric"]) for row in evaluation["comparisons"]}
    return {
        suite: [name for name in names if (suite, name) in compared] or names
        for suite, names in read_metric_names(evaluation).items()
    }


def read_contaminated(evaluation: dict) -> list[dict]:
    """Per suite and dataset the counts `problems`, `too_short`, `overlapping`, and `examples` of what overlaps most."""
    rows = []
    for suite, datasets in (evaluation["contamination"] or {"suites": {}})["suites"].items():
        for dataset, found in datasets.items():
            runs = [{"id": identity, **run} for identity, run in found["overlapping"].items()]
            most = sorted(runs, key=lambda run: (-run["share"], run["id"]))[:OVERLAPS]
            counts = {key: found[key] for key in ("problems", "too_short")} | {"overlapping": len(runs)}
            rows.append({"suite": suite, "dataset": dataset, **counts, "examples": most})
    return rows


def read_funnel(results: Path, sources: list[str]) -> dict:
    """What became of the files of all sources, after filters and deduplication.

    Returns:
        `seen`, `kept`, `dropped` {reason: files, most first}, `splits` {split: documents},
        `languages` {language: {`kept`, `bytes`, `filtered`, `duplicate`}} by falling number of files,
        `sources` {source: {`seen`, `kept`}}; seen = kept + sum(dropped). A file of no language is in none's counts.

    Raises:
        UserError: a manifest is missing, malformed, or its counts do not add up.
    """
    if not sources:  # all datasets are the user's own: there is no funnel
        return {"seen": 0, "kept": 0, "dropped": {}, "splits": {}, "languages": {}, "sources": {}}
    layout = Layout(results)
    paths = [layout.filtered(source) / MANIFEST for source in sources]
    filtered, deduplicated = (
        [read_counts(path) for path in paths],
        read_counts(layout.deduplicated / MANIFEST),
    )
    dropped, languages = Counter(), {}
    for manifest in [*filtered, deduplicated]:
        dropped.update(manifest["dropped"])
    for manifest in filtered:
        for language, counts in manifest["languages"].items():
            languages.setdefault(language, Counter())["filtered"] += sum(counts["dropped"].values())
    for language, counts in deduplicated["languages"].items():
        duplicates = sum(counts["dropped"].values())
        languages[language].update(kept=counts["kept"], bytes=counts["bytes"], duplicate=duplicates)
    files = ("kept", "duplicate", "filtered")
    return {
        "seen": sum(manifest["seen"] for manifest in filtered),
        "kept": deduplicated["kept"],
        "dropped": dict(sorted(dropped.items(), key=lambda item: (-item[1], item[0]))),
        "splits": read_json(layout.split / MANIFEST)["documents"],
        "languages": {
            name: {key: counts[key] for key in (*files, "bytes")}
            for name, counts in sorted(
                languages.items(), key=lambda item: (-sum(item[1][key] for key in files), item[0])
            )
        },
        "sources": {
            source: {"seen": manifest["seen"], "kept": manifest["kept"]}
            for source, manifest in zip(sources, filtered, strict=True)
        },
    }


def read_counts(path: Path) -> dict:
    """A manifest of `filter` or `deduplicate`.

    Raises:
        UserError: it is missing, holds no counts, or they do not add up.
    """
    manifest = read_json(path)
    try:
        total = manifest["kept"] + sum(manifest["dropped"].values())
        languages, seen = manifest["languages"], manifest["seen"]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: no funnel counts in it ({error}); delete it and run again") from error
    if total != seen or not isinstance(languages, dict):
        raise UserError(f"{path}: kept and dropped are {total} files, seen are {seen}; delete it and run again")
    return manifest


def read_metrics(path: Path) -> list[dict]:
    """The logged steps of a stage.

    Raises:
        UserError: the file is missing or a line is no JSON object with a `step`.
    """
    steps = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in lines:
            step = json.loads(line)
            step["step"] + 0  # raises where it is no number
            steps.append(step)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: line {len(steps) + 1}: no logged step ({error})") from error
    return steps
