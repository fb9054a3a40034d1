"""Choose how many rows, and which, a mixture takes from each part.

rows = mixture_rows({"chats": Part(weight=9), "general": Part(weight=1)}, {"chats": 900, "general": 5000})
# {"chats": 900, "general": 100}: as many as one pass over the chats allows
"""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from scripts.common.errors import UserError
from scripts.experiment.settings.training import Part


def exact(number: float) -> Fraction:
    """A number as the user wrote it: 0.1 is exactly a tenth."""
    return Fraction(str(number))


def shares(parts: Mapping[str, Part]) -> dict[str, Fraction]:
    """The share of each part in a mixture's rows."""
    total = sum(exact(part.weight) for part in parts.values())
    return {name: exact(part.weight) / total for name, part in parts.items()}


def most_rows(parts: Mapping[str, Part], available: Mapping[str, int]) -> tuple[int, str]:
    """(number of rows of the largest mixture that `max_epochs` of all parts allow, the part that limits it)."""
    share = shares(parts)
    limits = {name: exact(part.max_epochs) * available[name] / share[name] for name, part in parts.items()}
    first = min(limits, key=lambda name: limits[name])
    return int(limits[first]), first


def apportioned(parts: Mapping[str, Part], total: int) -> dict[str, int]:
    """`total` rows by the shares of the parts, rounded by largest remainders (Hamilton's method)."""
    exact_rows = {name: share * total for name, share in shares(parts).items()}
    rows = {name: int(value) for name, value in exact_rows.items()}
    rest = sorted(exact_rows, key=lambda name: (rows[name] - exact_rows[name], name))
    for name in rest[: total - sum(rows.values())]:
        rows[name] += 1
    return rows


def mixture_rows(
    parts: Mapping[str, Part], available: Mapping[str, int], total: int | None = None, key: str = "parts"
) -> dict[str, int]:
    """The rows of each part of a training split.

    Args:
        available: rows of each part.
        total: rows of the mixture; None for as many as `max_epochs` allow.
        key: of the setting, for errors.

    Raises:
        UserError: a part has no rows, gets none, or would be passed over more often than its `max_epochs`.
    """
    for name in parts:
        if not available[name]:
            raise UserError(f"{key}.{name}: has no rows to mix; leave it out, or pack it at another length")
    max_rows, limiting_part = most_rows(parts, available)
    if total is None:
        total = max_rows
    elif total > max_rows:
        raise UserError(
            f"{key}.{limiting_part}.max_epochs: {available[limiting_part]:,} rows at a share of"
            f" {float(shares(parts)[limiting_part]):.4g} allow a mixture of {max_rows:,} rows, not {total:,}; raise it,"
            " or make `million_tokens` smaller"
        )
    rows = apportioned(parts, total)
    for name, count in rows.items():
        if not count:
            raise UserError(f"{key}.{name}.weight: its share of {total:,} rows is less than one; raise it")
    return rows


def validation_rows(parts: Mapping[str, Part], available: Mapping[str, int]) -> dict[str, int]:
    """The rows of each part of a validation split: by the same weights, none twice, parts without rows left out."""
    nonempty = {name: Part(weight=part.weight) for name, part in parts.items() if available[name]}
    rows = {}
    if nonempty:
        rows = apportioned(nonempty, most_rows(nonempty, available)[0])
    return {name: rows.get(name, 0) for name in parts}


def chosen_rows(available: int, count: int, random: np.random.Generator) -> np.ndarray:
    """int64 [count], the rows of a part: all of them as often as they fit, and a random part of them once more."""
    full_passes, rest = divmod(count, available)
    return np.concatenate([np.tile(np.arange(available), full_passes), np.sort(random.permutation(available)[:rest])])
