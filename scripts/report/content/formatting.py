"""Format numbers, intervals and gates for the page, the pictures and the terminal."""

import math


def number(value: float | None, signed: bool = False) -> str:
    """Four significant digits, at most four decimals: 8,201 or 12.35 or 1.135 or -0.0318."""
    if value is None or not math.isfinite(value):
        return "none"
    size = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:{'+' if signed else ''},.{min(max(3 - size, 0), 4)}f}"


def interval(ends: list[float] | None, signed: bool = False) -> str:
    """The ends of an interval, of a difference if `signed`; None if there were too few documents for one."""
    if ends is None:
        if signed:
            return "too few documents differ"
        return "too few documents"
    return f"{number(ends[0], signed)} to {number(ends[1], signed)}"


def score_value(value: float) -> str:
    """A score; the tests or the sandbox may have been at fault, so that there is none."""
    if math.isnan(value):
        return "not measured"
    return number(value)


def score_interval(score) -> str:
    """The interval of a row of `scores_table`."""
    return interval(None if math.isnan(score.interval_low) else [score.interval_low, score.interval_high])


def gate_value(gate: dict) -> str:
    """A gate's value; differences are signed."""
    return number(gate["value"], gate["against"] is not None)


def gate_interval(gate: dict) -> str:
    """A gate's interval; empty for figures of a stage, which have none, and for what was not measured."""
    if gate["value"] is None or (gate["dataset"] is None and gate["interval"] is None):
        return ""
    return interval(gate["interval"], gate["against"] is not None)


def gate_metric(gate: dict) -> str:
    """What a gate measures, e.g. `sft - base, bits per byte, instruct` or `sft, gradient norm`."""
    models = f"{gate['model']} - {gate['against']}" if gate["against"] else gate["model"]
    measured = f"{models}, {gate['metric'].replace('_gib', ' (GiB)').replace('_', ' ')}"
    if gate["dataset"] is None:
        return measured
    language = ""
    if gate["language"] != "all":
        language = f"/{gate['language']}"
    return f"{measured}, {gate['dataset']}{language}{over(gate)}"


def over(row: dict) -> str:
    """`, over 3 seeds and 118 documents` of a gate or comparison of a stage with several seeds; else nothing."""
    if row.get("seeds"):
        return f", over {len(row['seeds'])} seeds and {row['documents']:,} documents"
    return ""


def gate_bound(gate: dict) -> str:
    """`below 2` or `above 0.5`."""
    return f"{gate['side']} {gate['bound']:g}"


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines for a terminal, each column as wide as its widest cell."""
    widths = []
    for column in range(len(rows[0])):
        widths.append(max(len(row[column]) for row in rows))
    found = []
    for row in rows:
        found.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return found
