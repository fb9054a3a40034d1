"""What the model that is handed on, the last stage, gained and lost, and the facts at the top of the report.

handed_on(evaluation)      # {"model": "sft", "against": {"pretrain": {"better": [...], "worse": [...], ...}}}
"""

from typing import NamedTuple

from scripts.report.content.formatting import interval, number

HEADLINES = {
    "met": "All gates are met",
    "met, not secured": "Met, but not secured",
    "not measured": "Met as far as it was measured",
    "not met": "Not met",
    "no gates": "No gates, no verdict",
}
READINGS = {"better": "better", "worse": "worse", "no difference shown": "not known", "not measured": "not measured"}


def handed_on(evaluation: dict) -> dict:
    """For each model that the last stage was compared with: its comparisons over all languages, by what they show."""
    model, against = list(evaluation["stages"])[-1], {}
    for row in evaluation["comparisons"]:
        if row["model"] == model and row["language"] == "all":
            found = against.setdefault(row["against"], {name: [] for name in READINGS.values()})
            found[READINGS[row["reading"]]].append(row)
    return {"model": model, "against": against}


def place(row: dict) -> str:
    """What a comparison is on: a dataset, of suite `completion` the size of what was to be written."""
    return f"{row['dataset']} completion" if row.get("suite") == "completion" else row["dataset"]


def words(row: dict) -> str:
    return row["metric"].replace("_", " ")


def change(row: dict) -> str:
    """A difference, as `code (bits per byte +0.7012, 0.6350 to 0.7610)`."""
    return f"{place(row)} ({words(row)} {number(row['value'], True)}, {interval(row['interval'], True)})"


def amount(row: dict) -> str:
    """A difference, as `by 0.5489 bits per byte [0.4839, 0.6208] on code`."""
    low, high = sorted(map(abs, row["interval"]))
    return f"by {number(abs(row['value']))} {words(row)} [{number(low)}, {number(high)}] on {place(row)}"


def without_numbers(rows: list[dict]) -> list[str]:
    """The metrics of each dataset, as `line completion (completion match, edit similarity)`."""
    metrics = {}
    for row in rows:
        metrics.setdefault(place(row), []).append(words(row))
    return [f"{name} ({', '.join(some)})" for name, some in metrics.items()]


class Change(NamedTuple):
    """What the model handed on gained and lost against another one.

    Attributes:
        against: as `sft against base`.
        found: what was found, as `better on` → the differences in words.
    """

    against: str
    found: dict[str, list[str]]

    def __str__(self) -> str:
        parts = [f"{name} {', '.join(some)}" for name, some in self.found.items()]
        return f"{self.against}: {'; '.join(parts)}."


def changes(evaluation: dict) -> list[Change]:
    """For each model that the one handed on was compared with; with general datasets told apart from the others."""
    last, result = handed_on(evaluation), []
    general = evaluation["inputs"]["experiment"]["evaluation"].get("general")
    parts, told = ([(" on ours", False), (" in general", True)], amount) if general else ([("", False)], change)
    for other, found in last["against"].items():
        shown, unknown = {}, {}
        for where, chosen in parts:
            for name, rows in found.items():
                mine = [row for row in rows if not general or (row["dataset"] in general) == chosen]
                if mine and name in ("better", "worse"):
                    shown[f"{name}{where}" if general else f"{name} on"] = list(map(told, mine))
                elif mine:
                    unknown[f"{name}{where}:"] = without_numbers(mine)
        result.append(Change(f"{last['model']} against {other}", shown | unknown))
    return result


def worse_on(evaluation: dict) -> list[str]:
    """What the model handed on is worse on than one that it was compared with."""
    found = handed_on(evaluation)["against"].values()
    return list(dict.fromkeys(place(row) for one in found for row in one["worse"]))


def listed(names: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def headline(evaluation: dict) -> str:
    """The gates' verdict, and what the gates do not say: where the model handed on is worse."""
    said, worse = HEADLINES[evaluation["verdict"]], worse_on(evaluation)
    if not worse or evaluation["verdict"] == "not met":
        return said
    return f"{said}, but {handed_on(evaluation)['model']} is worse on {listed(worse)}"


def tone(evaluation: dict) -> str:
    """The verdict as a class of the page; a loss is never shown as a success."""
    secured = evaluation["verdict"] == "met" and not worse_on(evaluation)
    shown = "met" if secured else "met, not secured" if evaluation["verdict"] == "met" else evaluation["verdict"]
    return shown.replace(", ", "-").replace(" ", "-")


def duration(seconds: float) -> str:
    """`2 d 3 h`, `3 h 20 min`, `4 min 5 s` or `12.5 s`."""
    for unit, name, part, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} {seconds % unit // part:.0f} {small}"
    return f"{seconds:.1f} s"


def facts(evaluation: dict, dated: str = "") -> dict[str, str]:
    """What the report is about: model, data, machine, commit, date, time and cost; what is not recorded is left out.

    Args:
        dated: the date of the last stage's files.
    """
    stages, experiment = evaluation["stages"], evaluation["inputs"]["experiment"]
    last = list(stages)[-1]
    environments = [one["environment"] for one in stages.values()]
    summaries = [one["summary"] for one in stages.values()]
    base = experiment["training"]["base"]["model"]
    parameters = summaries[-1].get("parameters")
    data = [f"{stage['data']} ({name})" for name, stage in experiment["training"]["train"].items()]
    own = environments[-1]
    gpus = own.get("gpus") or []
    processor = " ".join([f"{len(gpus)} × {gpus[0]}"] if gpus else [own.get("cpu") or "CPU"])
    commits = list(dict.fromkeys(one["git_commit"] for one in environments if one.get("git_commit")))
    seconds = sum(one.get("seconds") or 0 for one in summaries)
    tokens = sum(one.get("tokens") or 0 for one in summaries)
    hours = sum(
        (one.get("seconds") or 0) * len(machine.get("gpus") or [])
        for one, machine in zip(summaries, environments, strict=True)
    )
    size = f", {parameters:,} parameters" if parameters else ""
    host = f", {own['host']}" if own.get("host") else ""
    cost = f", {hours / 3600:.1f} GPU hours" if hours else ""
    named = {
        "Model": f"{last}{size}, from {base}",
        "Data": ", ".join(data),
        "Machine": f"{processor}{host}",
        "Commit": ", ".join(one[:12] for one in commits),
        "Files dated": dated,
        "Training took": f"{duration(seconds)}{cost}" if seconds else "",
        "Tokens trained on": f"{tokens:,}" if tokens else "",
        "Sources": f"{len(evaluation['inputs']['sources']):,}" if evaluation["inputs"]["sources"] else "",
    }
    return {name: value for name, value in named.items() if value}
