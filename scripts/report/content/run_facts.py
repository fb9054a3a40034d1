"""The facts about a run at the top of the report.

run_facts(evaluation)      # {"Model": "sft, 4,524,000 parameters, from scratch", "Data": ..., ...}
"""

from scripts.common.text import duration


def run_facts(evaluation: dict, dated: str = "") -> dict[str, str]:
    """Heading → text, for model, data, machine, commit, date, time and cost; what is not recorded is left out.

    Args:
        dated: the date of the last stage's files.
    """
    stages, experiment = evaluation["stages"], evaluation["inputs"]["experiment"]
    last = list(stages)[-1]
    trained = [model for stage in stages.values() for model in stage.get("seeds", {"": stage}).values()]
    environments = [model["environment"] for model in trained]
    summaries = [model["summary"] for model in trained]
    base = experiment["training"]["base"]["model"]
    parameters = summaries[-1].get("parameters")
    data = [f"{stage['data']} ({name})" for name, stage in experiment["training"]["train"].items()]
    environment = environments[-1]
    gpus = environment.get("gpus") or []
    processor = " ".join([f"{len(gpus)} × {gpus[0]}"] if gpus else [environment.get("cpu") or "CPU"])
    commits = list(dict.fromkeys(record["git_commit"] for record in environments if record.get("git_commit")))
    seconds = sum(record.get("seconds") or 0 for record in summaries)
    tokens = sum(record.get("tokens") or 0 for record in summaries)
    hours = sum(
        (record.get("seconds") or 0) * len(machine.get("gpus") or [])
        for record, machine in zip(summaries, environments, strict=True)
    )
    size = f", {parameters:,} parameters" if parameters else ""
    host = f", {environment['host']}" if environment.get("host") else ""
    cost = f", {hours / 3600:.1f} GPU hours" if hours else ""
    facts = {
        "Model": f"{last}{size}, from {base}",
        "Data": ", ".join(data),
        "Machine": f"{processor}{host}",
        "Commit": ", ".join(record[:12] for record in commits),
        "Files dated": dated,
        "Training took": f"{duration(seconds)}{cost}" if seconds else "",
        "Tokens trained on": f"{tokens:,}" if tokens else "",
        "Sources": f"{len(evaluation['inputs']['sources']):,}" if evaluation["inputs"]["sources"] else "",
    }
    return {name: value for name, value in facts.items() if value}


FIGURES = (
    # (name, key of the plan, key of the summary, factor from the summary's unit to the plan's)
    ("optimizer steps", "steps", "steps", 1),
    ("tokens per second", "tokens_per_second", "tokens_per_second", 1),
    ("hours", "seconds", "seconds", 1 / 3600),
    ("GiB per GPU", "gpu_gib", "memory_gib", 1),
)


def planned_and_measured(stages: dict) -> list[dict]:
    """A row per stage and figure; stages that started without a plan have none.

    `off` is measured / planned - 1, None if one of them is missing. `resumed` is the step from which the measured hours
    were counted, 0 if they cover the whole stage.

    Args:
        stages: stage → {"summary": its summary.json, ...}, as eval.json holds them.
    """
    rows = []
    for stage, facts in stages.items():
        measured = facts["summary"]
        planned = measured.get("plan")
        if not planned:
            continue
        resumed = measured.get("resumed_at_step") or 0
        for label, before, after, unit in FIGURES:
            if planned.get(before) is None and measured.get(after) is None:
                continue
            pair = [value and value * unit for value in (planned.get(before), measured.get(after))]
            since = resumed if label == "hours" else 0
            off = pair[1] / pair[0] - 1 if all(pair) and not since else None
            row = {"stage": stage, "what": label, "planned": pair[0], "measured": pair[1]}
            rows.append(row | {"off": off, "resumed": since})
    return rows


def unplanned(stages: dict) -> list[str]:
    """The stages whose plan has no hours, as their machine file names no speed."""
    plans = {stage: facts["summary"].get("plan") for stage, facts in stages.items()}
    return [stage for stage, planned in plans.items() if planned and planned.get("seconds") is None]
