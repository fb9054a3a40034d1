"""The report's sentences: what each suite measures, the verdict and its reasons, the summary in the terminal."""

from pathlib import Path

from scripts.experiment.layout import Layout
from scripts.report.content.final_model import changes, final_model
from scripts.report.content.formatting import gate_bound, gate_interval, gate_value, interval, number, table

FEW = 10  # fewer equal clusters than these say little about others


def units_note(evaluation: dict) -> str:
    """What intervals are over, and on which datasets that is little."""
    unit = "repositories" if evaluation["unit"] == "repository" else "files, a file and its test being one"
    fewest: dict[str, tuple[float, int]] = {}
    for row in evaluation["comparisons"]:
        if row["language"] == "all" and row["effective"] is not None:
            found = row["effective"], row["clusters"]
            fewest[row["dataset"]] = min(fewest.get(row["dataset"], found), found)
    little = [
        f"{name} ({count} count as {effective:g})" for name, (effective, count) in fewest.items() if effective < FEW
    ]
    warning = f" Too few for firm statements: {', '.join(little)}." if little else ""
    return f"they are for other {unit}.{warning}"


def seeds_note(train: dict[str, dict]) -> str:
    """What intervals are about beyond other documents.

    Args:
        train: `training.train` of the experiment.
    """
    trained = [f"{stage} ({len(settings['seeds'])} seeds)" for stage, settings in train.items() if "seeds" in settings]
    if not trained:
        return "They say what other documents would give, not what training with another seed would."
    return (
        f"They say what other documents would give, and of {', '.join(trained)} what training with other seeds would,"
        " too: there, values and counts are means over the seeds. Curves of training, latency and what was written are"
        " of the first seed."
    )


def beside_compressor(evaluation: dict) -> str:
    """What the final model needs more or less than a compressor that has read some of the training data."""
    model, parts = final_model(evaluation), []
    for row in evaluation["baselines"]["rows"]:
        if row["model"] == model and row["against"] == "compressor_trained" and row["value"] is not None:
            reading = {"better": "better", "worse": "worse"}.get(row["direction"], "no difference shown")
            ends = interval(row["interval"], True)
            parts.append(f"{row['dataset']} {number(row['value'], True)} bits per byte ({ends}; {reading})")
    megabytes = evaluation["baselines"]["compressor"]["bytes_read"] / 1e6
    return f"{model} beside a compressor that has read {megabytes:.1g} MB of the training data: {'; '.join(parts)}."


def explanation(gates: list[dict]) -> str:
    """The reasons for the verdict, in one to five sentences."""
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
        sentences.append(
            f"Not secured, so other test documents or runs might give another outcome: {'; '.join(crossing)}."
        )
    if easy := [gate["name"] for gate in gates if gate.get("also_met_by")]:
        sentences.append(f"A compressor would meet, too: {'; '.join(easy)}.")
    return " ".join(sentences)


def contamination(words: int, rows: list[dict]) -> str:
    """How many problems share `words` words in a row with the training data; `rows` as by `contamination_rows`."""
    total, overlapping, short = (sum(row[key] for row in rows) for key in ("problems", "overlapping", "too_short"))
    how_many = (
        f"{overlapping:,} of {total:,} problems share" if overlapping else f"None of the {total:,} problems shares"
    )
    rest = f" {short:,} could not be checked, as they have fewer words." if short else ""
    return f"{how_many} {words} words in a row with the training data.{rest}"


def summary(evaluation: dict, results: Path) -> str:
    """The gates, what the final model gained and lost, the verdict, the report's path: lines for a terminal."""
    rows = [("gate", "value", f"{evaluation['confidence']:.0%} interval", "bound", "outcome")]
    rows += [
        (gate["name"], gate_value(gate), gate_interval(gate), gate_bound(gate), gate["outcome"])
        for gate in evaluation["gates"]
    ]
    gates = table(rows) if evaluation["gates"] else []
    lines = [
        *map(str, changes(evaluation)),
        beside_compressor(evaluation),
        f"verdict: {evaluation['verdict']}",
        f"report:  {Layout(results).page}",
    ]
    return "\n".join([*gates, *lines])
