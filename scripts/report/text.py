"""Numbers and outcomes as people read them: in pictures, on the page, in the terminal."""

import math
from pathlib import Path


def number(value: float | None, signed: bool = False) -> str:
    """Four significant digits, at most four decimals: 8,201 or 12.35 or 1.135 or -0.0318."""
    if value is None or not math.isfinite(value):
        return "none"
    size = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:{'+' if signed else ''},.{min(max(3 - size, 0), 4)}f}"


def interval(ends: list[float] | None, signed: bool = False) -> str:
    return "too few documents" if ends is None else f"{number(ends[0], signed)} to {number(ends[1], signed)}"


def metric(gate: dict) -> str:
    """What a gate or comparison measures, e.g. `sft - base, bits per byte, instruct`."""
    models = f"{gate['model']} - {gate['against']}" if gate["against"] else gate["model"]
    language = "" if gate["language"] == "all" else f"/{gate['language']}"
    return f"{models}, {gate['metric'].replace('_', ' ')}, {gate['dataset']}{language}"


def bound(gate: dict) -> str:
    return f"{gate['side']} {gate['bound']:g}"


HEADLINES = {
    "met": "All gates are met",
    "met, not secured": "Met, but not secured",
    "not met": "Not met",
    "no gates": "No gates, no verdict",
}


def explanation(gates: list[dict]) -> str:
    """The verdict's reasons in a sentence or three."""
    if not gates:
        return "The experiment names no success criteria, so nothing was decided."
    unmet = [gate["name"] for gate in gates if gate["outcome"].startswith("not met")]
    crossing = [gate["name"] for gate in gates if gate["outcome"].endswith("not secured")]
    sentences = [f"{len(gates) - len(unmet)} of {len(gates)} gates are met."]
    if unmet:
        sentences.append(f"Not met: {'; '.join(unmet)}.")
    if crossing:
        sentences.append(f"Not secured, other test documents might have said otherwise: {'; '.join(crossing)}.")
    return " ".join(sentences)


def summary(evaluation: dict, results: Path) -> str:
    """The gates, the verdict and where the report is, as lines for a terminal."""
    rows = [("gate", "value", f"{evaluation['confidence']:.0%} interval", "bound", "outcome")]
    for gate in evaluation["gates"]:
        signed = gate["against"] is not None
        ends = interval(gate["interval"], signed)
        rows.append((gate["name"], number(gate["value"], signed), ends, bound(gate), gate["outcome"]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    gates = lines if evaluation["gates"] else []
    return "\n".join([*gates, f"verdict: {evaluation['verdict']}", f"report:  {results / 'report.html'}"])
