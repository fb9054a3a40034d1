"""The report's headline and comparison sentences: what the model of the last stage gained and lost.

final_comparisons(evaluation)      # {"pretrain": {"better": [...], "worse": [...], ...}, "base": {...}}
"""

from itertools import chain
from typing import NamedTuple

from scripts.common.text import enumeration
from scripts.report.content.formatting import interval, number, over

HEADLINES = {
    "met": "All gates are met",
    "met, not secured": "Met, but not secured",
    "not measured": "Met as far as it was measured",
    "not met": "Not met",
    "no gates": "No gates, no verdict",
}
DIRECTIONS = {"better": "better", "worse": "worse", "no difference shown": "not known", "not measured": "not measured"}


def final_model(evaluation: dict) -> str:
    """The last stage; its model is what the run produces."""
    return list(evaluation["stages"])[-1]


def final_comparisons(evaluation: dict) -> dict[str, dict[str, list[dict]]]:
    """Model that the final model was compared with → direction (`better`, ...) → comparisons over all languages."""
    model, against = final_model(evaluation), {}
    for row in evaluation["comparisons"]:
        if row["model"] == model and row["language"] == "all":
            by_direction = against.setdefault(row["against"], {name: [] for name in DIRECTIONS.values()})
            by_direction[DIRECTIONS[row["direction"]]].append(row)
    return against


def subject(row: dict) -> str:
    """What a comparison is about: a dataset, such as `code`; for suite `completion` a size, as `line completion`."""
    if row.get("suite") == "completion":
        return f"{row['dataset']} completion"
    return row["dataset"]


def metric_name(row: dict) -> str:
    return row["metric"].replace("_", " ")


def difference(row: dict) -> str:
    """A difference, as `code (bits per byte +0.7012, 0.6350 to 0.7610)`."""
    ends = f"{interval(row['interval'], True)}{over(row)}"
    return f"{subject(row)} ({metric_name(row)} {number(row['value'], True)}, {ends})"


def amount(row: dict) -> str:
    """A difference, as `by 0.5489 bits per byte [0.4839, 0.6208] on code`."""
    low, high = sorted(map(abs, row["interval"]))
    scored_on = f"{subject(row)}{over(row)}"
    return f"by {number(abs(row['value']))} {metric_name(row)} [{number(low)}, {number(high)}] on {scored_on}"


def metrics_by_subject(rows: list[dict]) -> list[str]:
    """The metrics of each dataset, as `line completion (completion match, edit similarity)`."""
    metrics = {}
    for row in rows:
        metrics.setdefault(subject(row), []).append(metric_name(row))
    return [f"{name} ({', '.join(subjects)})" for name, subjects in metrics.items()]


class Change(NamedTuple):
    """What the final model gained and lost against another one.

    Attributes:
        against: e.g. `sft against base`.
        readings: e.g. `better on` → differences in words.
    """

    against: str
    readings: dict[str, list[str]]

    def __str__(self) -> str:
        """The clear differences in a line for the terminal; the page has the others, too."""
        clear = [name for name in self.readings if not name.endswith(":")]
        parts = [f"{name} {', '.join(self.readings[name])}" for name in clear]
        return f"{self.against}: {'; '.join(parts) or 'no difference is shown'}."


def changes(evaluation: dict) -> list[Change]:
    """A record for each model that the final one was compared with; general datasets are kept apart from the others."""
    result, model = [], final_model(evaluation)
    general = evaluation["inputs"]["experiment"]["evaluation"].get("general")
    if general:
        groups, phrase = [(" on ours", False), (" in general", True)], amount
    else:
        groups, phrase = [("", False)], difference
    for other, by_direction in final_comparisons(evaluation).items():
        clear, unclear = {}, {}
        for suffix, is_general in groups:
            for name, rows in by_direction.items():
                selected = [row for row in rows if not general or (row["dataset"] in general) == is_general]
                if selected and name in ("better", "worse"):
                    clear[f"{name}{suffix}" if general else f"{name} on"] = list(map(phrase, selected))
                elif selected:
                    unclear[f"{name}{suffix}:"] = metrics_by_subject(selected)
        result.append(Change(f"{model} against {other}", clear | unclear))
    return result


def worse_on(evaluation: dict) -> list[str]:
    """What the final model is worse on than a model that it was compared with."""
    readings = final_comparisons(evaluation).values()
    rows = chain.from_iterable(by_direction["worse"] for by_direction in readings)
    return list(dict.fromkeys(map(subject, rows)))


def headline(evaluation: dict) -> str:
    """The gates' verdict, and on what the final model is worse, which gates may not cover."""
    verdict, worse = HEADLINES[evaluation["verdict"]], worse_on(evaluation)
    if not worse or evaluation["verdict"] == "not met":
        return verdict
    return f"{verdict}, but {final_model(evaluation)} is worse on {enumeration(worse)}"


def tone(evaluation: dict) -> str:
    """The CSS class of the verdict; `met` only if the final model is worse on nothing."""
    verdict = evaluation["verdict"]
    if verdict == "met" and worse_on(evaluation):
        verdict = "met, not secured"
    return verdict.replace(", ", "-").replace(" ", "-")
