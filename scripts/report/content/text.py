"""Numbers and outcomes as people read them: in pictures, on the page, in the terminal."""

import math
from pathlib import Path


def number(value: float | None, signed: bool = False) -> str:
    """Four significant digits, at most four decimals: 8,201 or 12.35 or 1.135 or -0.0318."""
    if value is None or not math.isfinite(value):
        return "none"
    size = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:{'+' if signed else ''},.{min(max(3 - size, 0), 4)}f}"


def value(gate: dict) -> str:
    """A gate's value; a difference has its sign."""
    return number(gate["value"], gate["against"] is not None)


def interval(ends: list[float] | None, signed: bool = False) -> str:
    return "too few documents" if ends is None else f"{number(ends[0], signed)} to {number(ends[1], signed)}"


def ends(gate: dict) -> str:
    """A gate's interval; a figure of the stage itself has none, nor what was not measured."""
    return (
        ""
        if gate["value"] is None or (gate["dataset"] is None and gate["interval"] is None)
        else interval(gate["interval"], gate["against"] is not None)
    )


def metric(gate: dict) -> str:
    """What a gate measures, e.g. `sft - base, bits per byte, instruct` or `sft, gradient norm`."""
    models = f"{gate['model']} - {gate['against']}" if gate["against"] else gate["model"]
    measured = f"{models}, {gate['metric'].replace('_gib', ' (GiB)').replace('_', ' ')}"
    if gate["dataset"] is None:
        return measured
    return f"{measured}, {gate['dataset']}{'' if gate['language'] == 'all' else '/' + gate['language']}"


def bound(gate: dict) -> str:
    return f"{gate['side']} {gate['bound']:g}"


SUITES = {
    "perplexity": "Bits per byte do not depend on the tokenizer; perplexity is per token. Less is better for both.",
    "qa": "Answers to chats, 0 to 1: share of exact matches, mean F1 over words (Chinese: characters), share of matches"
    " that keep every symbol of code. More is better.",
    "bleu": "Descriptions of code, BLEU and chrF by sacrebleu from 0 to 1 (its own scale is 0 to 100). More is better.",
    "keywords": "Share of the expected keywords, 0 to 1: mentioned in the response, and shown by the form of its code"
    " with comments and strings left out. More is better, but neither says that the code works.",
    "code": "Share of problems solved by one of k programs, 0 to 1: written by the model, run in a sandbox against the"
    " problem's tests. More is better.",
    "human": "Share of responses that people called correct, 0 to 1, rated blindly. More is better.",
}
HEADLINES = {
    "met": "All gates are met",
    "met, not secured": "Met, but not secured",
    "not measured": "Met as far as it was measured",
    "not met": "Not met",
    "no gates": "No gates, no verdict",
}


def explanation(gates: list[dict]) -> str:
    """The verdict's reasons in a sentence or three."""
    if not gates:
        return "The experiment names no success criteria, so nothing was decided."
    unmet = [gate["name"] for gate in gates if gate["outcome"].startswith("not met")]
    unknown = [gate["name"] for gate in gates if gate["outcome"] == "not measured"]
    crossing = [gate["name"] for gate in gates if gate["outcome"].endswith("not secured")]
    sentences = [f"{len(gates) - len(unmet) - len(unknown)} of {len(gates)} gates are met."]
    if unmet:
        sentences.append(f"Not met: {'; '.join(unmet)}.")
    if unknown:
        sentences.append(f"Not measured: {'; '.join(unknown)}.")
    if crossing:
        sentences.append(f"Not secured, other test documents or runs might have said otherwise: {'; '.join(crossing)}.")
    return " ".join(sentences)


def contamination(words: int, rows: list[dict]) -> str:
    """How many problems share words with the training data, in a sentence or two; `rows` are those of the page."""
    total, overlapping, short = (sum(row[key] for row in rows) for key in ("problems", "overlapping", "too_short"))
    who = f"{overlapping:,} of {total:,} problems share" if overlapping else f"None of the {total:,} problems shares"
    rest = f" {short:,} could not be looked for, having fewer words." if short else ""
    return f"{who} {words} words in a row with the training data.{rest}"


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines for a terminal, each column as wide as its widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def summary(evaluation: dict, results: Path) -> str:
    """The gates, the verdict and where the report is, as lines for a terminal."""
    rows = [("gate", "value", f"{evaluation['confidence']:.0%} interval", "bound", "outcome")]
    rows += [(gate["name"], value(gate), ends(gate), bound(gate), gate["outcome"]) for gate in evaluation["gates"]]
    gates = table(rows) if evaluation["gates"] else []
    return "\n".join([*gates, f"verdict: {evaluation['verdict']}", f"report:  {results / 'report.html'}"])
