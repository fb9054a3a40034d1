"""Compare the plan of each stage with what was measured, both from its summary.json.

planned_and_measured(evaluation["stages"])    # [{"stage": "sft", "what": "hours", "planned": 2.4, ...}]
"""

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
