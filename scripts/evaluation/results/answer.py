"""Retrieve, fine-tune, both or neither: the advice that follows from what was measured, and the sentence with both.

An effect is what a difference shows, beside the smallest gain that matters:

- `helps`, `harms`: shown, by the p corrected for all comparisons, and not shown to be too small to matter;
- `none`: its whole interval is smaller than the smallest gain that matters, on both sides of zero;
- `cannot tell`: anything else.
"""

from scripts.common.text import enumeration

HELPS, HARMS, NONE, UNKNOWN = "helps", "harms", "none", "cannot tell"
FEW = 24  # files below which their number is a reason why nothing can be told
CARRY = 0.5  # of a difference; one or two files with more of it are named


def effect_of(row: dict, margin: float) -> str:
    """What a corrected comparison shows. `margin`: the smallest gain that matters, in the row's metric."""
    if row["interval"] is None:
        return UNKNOWN
    if max(map(abs, row["interval"])) < margin:
        return NONE
    return {"better": HELPS, "worse": HARMS}.get(row["direction"], UNKNOWN)


# (effect of retrieval, effect of fine-tuning), each alone → the advice, where one of them does not help
ALONE = {
    (HELPS, HARMS): "Retrieve; fine-tuning makes it worse.",
    (HELPS, NONE): "Retrieve; fine-tuning gains nothing that matters.",
    (HELPS, UNKNOWN): "Retrieve; fine-tuning is not shown to help.",
    (HARMS, HELPS): "Fine-tune; retrieval makes it worse.",
    (NONE, HELPS): "Fine-tune; retrieval gains nothing that matters.",
    (UNKNOWN, HELPS): "Fine-tune; retrieval is not shown to help.",
    (HARMS, HARMS): "Do neither: both make it worse.",
    (HARMS, NONE): "Do neither: retrieval makes it worse, fine-tuning gains nothing that matters.",
    (NONE, HARMS): "Do neither: fine-tuning makes it worse, retrieval gains nothing that matters.",
    (HARMS, UNKNOWN): "Do not retrieve: it makes it worse. Whether fine-tuning helps cannot be told.",
    (UNKNOWN, HARMS): "Do not fine-tune: it makes it worse. Whether retrieval helps cannot be told.",
    (NONE, NONE): "Do neither: no gain above {margin:g} bits per byte is shown.",
    (NONE, UNKNOWN): "Retrieval gains nothing that matters. Whether fine-tuning helps cannot be told.",
    (UNKNOWN, NONE): "Fine-tuning gains nothing that matters. Whether retrieval helps cannot be told.",
    (UNKNOWN, UNKNOWN): "{which} cannot tell which helps.",
}
# Both help alone: what the second one does on top of the first.
ON_TOP = {
    HARMS: "on top of it {second} makes it worse.",
    NONE: "on top of it {second} adds nothing that matters.",
    UNKNOWN: "{second} is not shown to add to it.",
}
TUNING_ALONE = {
    HELPS: "Fine-tune.",
    HARMS: "Do not fine-tune: it makes it worse.",
    NONE: "Do not fine-tune: no gain above {margin:g} bits per byte is shown.",
    UNKNOWN: "{which} cannot tell whether fine-tuning helps.",
}


def choice(effects: dict[str, str]) -> tuple[str, str]:
    """(What to do: `both`, `retrieval`, `fine-tuning`, `either` or `neither`; the advice, with places to fill in).

    Args:
        effects: by name of the difference; without `retrieval` only fine-tuning was asked about.
    """
    tuning = effects["fine-tuning"]
    if "retrieval" not in effects:
        return ("fine-tuning" if tuning == HELPS else "neither"), TUNING_ALONE[tuning]
    retrieval = effects["retrieval"]
    tuning_adds, retrieval_adds = effects["both beside retrieval"], effects["both beside fine-tuning"]
    together = tuning_adds == retrieval_adds == HELPS
    together |= retrieval == HELPS != tuning and tuning_adds == HELPS
    together |= tuning == HELPS != retrieval and retrieval_adds == HELPS
    if together and HELPS in (effects["both"], retrieval, tuning):
        return "both", "Do both."
    if HELPS not in (retrieval, tuning):
        return "neither", ALONE[retrieval, tuning]
    if retrieval == tuning == HELPS:
        better = effects["fine-tuning beside retrieval"]
        if tuning_adds != HELPS and retrieval_adds != HELPS and better not in (HELPS, HARMS):
            return "either", "Retrieve or fine-tune: each helps, and neither is shown to add to the other."
        if tuning_adds == HELPS or (retrieval_adds != HELPS and better == HELPS):
            return "fine-tuning", "Fine-tune; " + ON_TOP[retrieval_adds].format(second="retrieval")
        return "retrieval", "Retrieve; " + ON_TOP[tuning_adds].format(second="fine-tuning")
    if retrieval == HELPS:
        if tuning_adds == HARMS:
            return "retrieval", "Retrieve; " + ON_TOP[HARMS].format(second="fine-tuning")
        return "retrieval", ALONE[retrieval, tuning]
    if retrieval_adds == HARMS:
        return "fine-tuning", "Fine-tune; " + ON_TOP[HARMS].format(second="retrieval")
    return "fine-tuning", ALONE[retrieval, tuning]


def visible(chosen: str, effects: dict[str, str]) -> str:
    """What is said before the advice of a gain that no person would see, as no more lines are written as they stand;
    empty where lines move, where nothing is gained, or where lines were not counted. `effects`: on lines, by name."""
    name = {"either": "fine-tuning"}.get(chosen, chosen)
    if chosen == "neither" or name not in effects or effects[name] == HELPS:
        return ""
    lines = "fewer lines are" if effects[name] == HARMS else "no more lines are shown to be"
    return f"A gain, but too small to be seen: {lines} written as they stand. "


def carried_by(values: list[float], names: list[str]) -> list[str]:
    """The names of the one or two files that carry more than half of a difference; none where more files do. `values`:
    what each file adds to it."""
    total = sum(values)
    largest = sorted(range(len(values)), key=lambda place: values[place] * (1 if total > 0 else -1), reverse=True)
    for count in (1, 2):
        if len(values) > 2 * count and abs(sum(values[place] for place in largest[:count])) > CARRY * abs(total):
            return [names[place] for place in largest[:count]]
    return []


def stated(row: dict) -> str:
    """A difference with its interval, as `-0.07 [-0.09, -0.05]`."""
    if row["value"] is None:
        return "not measured"
    if row["interval"] is None:
        return f"{row['value']:+.3f}, too few files for an interval"
    low, high = row["interval"]
    unknown = ""
    if row["effect"] == UNKNOWN:
        unknown = ", cannot tell"
        if (low > 0 or high < 0) and row["holm"] is not None:  # alone it could be told; among so many it cannot
            unknown += f" (corrected p {row['holm']:.2f})"
    return f"{row['value']:+.3f} [{low:+.3f}, {high:+.3f}]{unknown}"


CURVE = {
    HELPS: "more steps would still help",
    HARMS: "the last half of the steps made it worse",
    NONE: "more steps would not help",
    UNKNOWN: "whether more steps would help cannot be told",
}


def facts_of(question: dict) -> list[str]:
    """The parts of the sentence between what was measured and the advice."""
    rows = {(row["metric"], row["name"]): row for row in question["rows"]}
    parts = []
    lines = [(each["name"], each["lines"]["value"]) for each in question["conditions"] if each.get("lines")]
    if lines and all(value is not None for _, value in lines):
        listed = [f"{name} {value:.1%}" for name, value in lines]
        parts.append(f"lines written as they stand: {', '.join(listed)}")
    if question["carried_by"]:
        parts.append(f"more than half of it is in {enumeration(question['carried_by'])}")
    curve = rows.get(("bits_per_byte", "last half of the steps"))
    if curve:
        parts.append(CURVE[curve["effect"]])
    control = rows.get(("bits_per_byte", "your code rather than any code"))
    if control:
        parts.append(f"your code rather than any code gives {stated(control)}")
    elsewhere = [row for row in question["rows"] if row["name"] == "elsewhere"]
    if elsewhere:
        costs = [f"{row['dataset']} {stated(row)}" for row in elsewhere]
        parts.append(f"on other code fine-tuning changes {enumeration(costs)}")
    return parts


def read_of(question: dict) -> str:
    """What was trained, and how much it has read: `; SmolLM2-135M: 22 steps read 22,528 of 815,332 tokens, 2.8%`."""
    read, known = question["tokens_read"], question["tokens"]
    if not read or not known:
        return ""
    times = f"{read / known:.1%}" if read <= known else f"{read / known:.1f} times"
    return f"; {question['base']}: {question['steps']:,} steps read {read:,} of {known:,} tokens, {times}"


def sentence(question: dict) -> str:
    """The answer in words."""
    rows = {row["name"]: row for row in question["rows"] if row["metric"] == "bits_per_byte"}
    names = [name for name in ("retrieval", "fine-tuning", "both") if name in rows]
    measured = f"bits per byte {', '.join(f'{name} {stated(rows[name])}' for name in names)}"
    where = f"{question['documents']:,} files"
    if question["lines"]:
        where = f"{question['lines']:,} lines of {where}"
    first = f"On your code ({question['dataset']}, {where}{read_of(question)}): {measured}"
    return f"{'; '.join([first, *facts_of(question)])}. {question['advice']}"
