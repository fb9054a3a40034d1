"""Examples of which no source has more than a share, or of which each task has its share.

Which examples stay follows from their names and the seed: of each group those whose hashes are smallest, so that other
examples, when they come, move few.
"""

import hashlib
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import jsonl_writer, read_jsonl

Limits = Callable[[dict[str, int]], dict[str, int]]  # the examples of each group -> how many of them may stay


def rank_of(example: dict, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{example['id']}".encode()).digest()


def sifted(
    made: Iterator[dict],
    group: Callable[[dict], str],
    limits: Limits,
    seed: int,
    out: Path,
    dropped: Counter,
    reason: str,
) -> Iterator[dict]:
    """Yield the examples, of each group as many as `limits` says; the others are counted as `reason`.

    They wait in a temporary file in `out` until all are known.

    Raises:
        UserError: `limits` does.
    """
    out.mkdir(parents=True, exist_ok=True)
    ranks = defaultdict(list)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        whole = Path(folder) / "all.jsonl.zst"
        with jsonl_writer(whole) as write:
            for example in made:
                write(example)
                ranks[group(example)].append(rank_of(example, seed))
        most = limits({name: len(found) for name, found in ranks.items()})
        last = {}
        for name, found in ranks.items():
            if len(found) > most[name]:
                last[name] = sorted(found)[most[name] - 1] if most[name] else b""
        for example in read_jsonl(whole):
            if (name := group(example)) in last and rank_of(example, seed) > last[name]:
                dropped[reason] += 1
            else:
                yield example


def capped(made: Iterator[dict], share: float, seed: int, out: Path, dropped: Counter) -> Iterator[dict]:
    """Yield the examples, of each source at most `share` of all.

    Raises:
        UserError: there are too few sources for such a share.
    """

    def limits(counts: dict[str, int]) -> dict[str, int]:
        try:
            return dict.fromkeys(counts, largest_cap(list(counts.values()), share))
        except ValueError as error:
            raise UserError(f"corpus.compose.{out.name}.max_source_share: {error}") from error

    return sifted(made, lambda example: example["source"], limits, seed, out, dropped, "source_share")


def largest_cap(counts: list[int], share: float) -> int:
    """The most examples that a source may have so that none has more than `share` of all: the largest c with
    c <= share * sum(min(count, c)).

    Raises:
        ValueError: there are fewer sources than such a share needs.
    """
    part = Fraction(str(share))
    if counts and part * len(counts) < 1:
        least = math.ceil(1000 / len(counts)) / 1000
        raise ValueError(f"{share:g} of {len(counts)} sources is not all of it; at least {least:g}")

    def met(cap: int) -> bool:
        return cap <= part * sum(min(count, cap) for count in counts)

    low, high = 1, max(counts, default=1)  # `met` holds up to some cap and never beyond
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if met(middle) else (low, middle - 1)
    return low


def task_shares(
    made: Iterator[dict], weights: dict[str, float], every: bool, seed: int, out: Path, dropped: Counter
) -> Iterator[dict]:
    """Yield as many examples as leave each task its share by weight: all of the scarcest one.

    Args:
        every: whether each task must have examples; else those that have none are left out of the shares.

    Raises:
        UserError: a task has none although it must.
    """

    def limits(counts: dict[str, int]) -> dict[str, int]:
        if every and (missing := [task for task in weights if task not in counts]):
            raise UserError(
                f"corpus.compose.{out.name}.tasks.{missing[0]}: no document gives an example of it; leave it out"
            )
        there = {task: Fraction(str(weight)) for task, weight in weights.items() if task in counts}
        whole = min((counts[task] / weight for task, weight in there.items()), default=Fraction(0))
        return {task: max(1, int(weight * whole)) for task, weight in there.items()}

    return sifted(made, lambda example: example.get("task", "analysis"), limits, seed, out, dropped, "task_share")
