"""The table of rule `ablation` in words."""

from scripts.report.content.formatting import interval, number, table

HEAD = ("metric, dataset", "arm", "as it is", "arm", "difference", "interval", "p", "Holm", "verdict")


def cells(row: dict) -> tuple[str, ...]:
    """A row of ablation.json as text."""
    corrected = ("", "") if row["p"] is None else (number(row["p"]), number(row["holm"]))
    values = number(row["reference"]), number(row["value"]), number(row["difference"], True)
    ends = "" if row["interval"] is None else interval(row["interval"], True)
    name = f"{row['metric'].replace('_', ' ')}, {row['dataset']}"
    return name, row["arm"], *values, ends, *corrected, row["verdict"]


def note(rows: list[dict], confidence: float) -> str:
    """What the figures are about."""
    return (
        f"{rows[0]['seeds']} seeds, each arm against the experiment as it is, paired by seed and document; intervals at"
        f" {confidence:.0%}, for other seeds and other documents. The verdict goes by p corrected for all {len(rows)}"
        " rows (Holm)."
    )


def lines(rows: list[dict], confidence: float) -> list[str]:
    """The table and its note, for a terminal."""
    return [*table([HEAD, *map(cells, rows)]), note(rows, confidence)]
