"""The table of rule `ablation` as text."""

from scripts.report.content.formatting import interval, number, table

HEAD = ("metric, dataset", "arm", "reference", "value", "difference", "interval", "p", "Holm", "verdict")


def cells(row: dict) -> tuple[str, ...]:
    """The cells of a row of ablation.json, in the order of `HEAD`."""
    corrected = ("", "") if row["p"] is None else (number(row["p"]), number(row["holm"]))
    values = number(row["reference"]), number(row["value"]), number(row["difference"], True)
    ends = "" if row["interval"] is None else interval(row["interval"], True)
    name = f"{row['metric'].replace('_', ' ')}, {row['dataset']}"
    return name, row["arm"], *values, ends, *corrected, row["verdict"]


def note(rows: list[dict], confidence: float) -> str:
    """The note below the table: what was compared, and what the intervals and verdicts mean."""
    return (
        f"{rows[0]['seeds']} seeds, each arm against the experiment itself (reference), paired by seed and document;"
        f" intervals at {confidence:.0%}, for other seeds and other documents. The verdict is by p"
        f" corrected for all {len(rows)} rows (Holm)."
    )


def lines(rows: list[dict], confidence: float) -> list[str]:
    """The table and its note, for a terminal."""
    return [*table([HEAD, *map(cells, rows)]), note(rows, confidence)]
