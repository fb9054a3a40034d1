"""What differs between the runs that made two results folders, by their eval.json and the records beside it."""

from pathlib import Path

from scripts.common.files import read_json
from scripts.experiment.causes import setting_changes, value_text
from scripts.experiment.code_records import unit_changes
from scripts.experiment.layout import Layout
from scripts.report.content.eval_json import read_evaluation

LISTED = 5  # phrases of one kind; of more, their number
MACHINE = ("host", "cpu", "gpus", "gpu_driver", "processes", "threads", "git_commit")


def shortened(phrases: list[str]) -> list[str]:
    """The first phrases, and how many more there are."""
    more = len(phrases) - LISTED
    return phrases if more <= 0 else [*phrases[:LISTED], f"and {more} more"]


def source_changes(a: dict, b: dict) -> list[str]:
    """Sources that one run alone has, and those with another row in the table."""
    lines = [f"source {name} in {'B' if name in b else 'A'} alone" for name in sorted(a.keys() ^ b.keys())]
    for name in sorted(a.keys() & b.keys()):
        rows = [{key: value for key, value in side[name].items() if key != "archive"} for side in (a, b)]
        lines += [f"source {name}: {change}" for change in setting_changes(*rows)]
    return lines


def code_differences(a: Path, b: Path, codes: tuple[dict, dict]) -> list[str]:
    """The parts of the code that differ, each with the rules that reach it."""
    paths = [Layout(root).code for root in (a, b)]
    units = [read_json(path) if path.is_file() else {} for path in paths]
    rules_by_change: dict[str, list[str]] = {}
    for rule in codes[0].keys() & codes[1].keys():
        if codes[0][rule] != codes[1][rule]:
            whole_code = f"code changed, {codes[0][rule]} → {codes[1][rule]}"
            changes = unit_changes(*(side[rule] for side in units)) if all(rule in side for side in units) else []
            for change in changes or [whole_code]:
                rules_by_change.setdefault(change, []).append(rule)
    lines = [f"{change} ({', '.join(sorted(rules))})" for change, rules in sorted(rules_by_change.items())]
    return sorted(lines, key=lambda line: (line.startswith("import "), line))


def hash_differences(kind: str, a: dict, b: dict) -> list[str]:
    """The folders or models of both runs whose files differ."""
    other = [name for name in a if name in b and a[name] != b[name]]
    return [f"{kind} {', '.join(shortened(other))}"] if other else []


def differences(a: Path, b: Path) -> list[str]:
    """A line per difference, in the order: settings, sources, code, packages, machines; then what came out other.

    Raises:
        UserError: a run has no eval.json.
    """
    evaluations = [read_evaluation(root) for root in (a, b)]
    first, second = (evaluation["inputs"] for evaluation in evaluations)
    left, right = (
        {key: value for key, value in side["experiment"].items() if key != "results"} for side in (first, second)
    )
    lines = [f"setting {change}" for change in shortened(setting_changes(left, right))]
    lines += shortened(source_changes(first["sources"], second["sources"]))
    lines += shortened(code_differences(a, b, (first["code"], second["code"])))
    lines += [f"package {change}" for change in shortened(setting_changes(first["versions"], second["versions"]))]
    stages = [evaluation["stages"] for evaluation in evaluations]
    for stage in [stage for stage in stages[0] if stage in stages[1]]:
        machines = [{name: side[stage]["environment"].get(name) for name in MACHINE} for side in stages]
        changes = [
            f"{name} {value_text(machines[0][name])} → {value_text(machines[1][name])}"
            for name in MACHINE
            if machines[0][name] != machines[1][name]
        ]
        lines += [f"stage {stage}, where it ran: {', '.join(changes)}"] if changes else []
    if not lines:
        lines.append("nothing that is recorded: the same settings, sources, code, packages and machines")
    lines += hash_differences("other data:", first["data"], second["data"])
    lines += hash_differences("other models:", first["models"], second["models"])
    return lines
