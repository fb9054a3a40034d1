"""Balance a dataset: limit each source to a share of the examples, or give each task its share.

Each group keeps the examples with the smallest hashes of id and seed, so added examples displace few others.
"""

import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import jsonl_writer, read_jsonl
from scripts.common.hashing import text_digest

Limits = Callable[[dict[str, int]], dict[str, int]]  # number of examples by group -> how many of them are kept


def rank_of(example: dict, seed: int) -> bytes:
    """What the examples of a group are sorted by."""
    return text_digest(f"{seed}:{example['id']}")


def limit_groups(
    examples: Iterator[dict],
    group: Callable[[dict], str],
    limits: Limits,
    seed: int,
    out: Path,
    dropped: Counter,
    reason: str,
) -> Iterator[dict]:
    """Yield of each group as many examples as `limits` says; the others are counted in `dropped` as `reason`.

    All examples are first written to a temporary file in `out`, as the limits depend on their number.

    Args:
        group: gives the group of an example.

    Raises:
        UserError: from `limits`.
    """
    out.mkdir(parents=True, exist_ok=True)
    ranks = defaultdict(list)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        all_examples = Path(folder) / "all.jsonl.zst"
        with jsonl_writer(all_examples) as write:
            for example in examples:
                write(example)
                ranks[group(example)].append(rank_of(example, seed))
        limit_of = limits({name: len(keys) for name, keys in ranks.items()})
        last_key = {}
        for name, keys in ranks.items():
            if len(keys) > limit_of[name]:
                last_key[name] = sorted(keys)[limit_of[name] - 1] if limit_of[name] else b""
        for example in read_jsonl(all_examples):
            if (name := group(example)) in last_key and rank_of(example, seed) > last_key[name]:
                dropped[reason] += 1
            else:
                yield example


def cap_sources(examples: Iterator[dict], share: float, seed: int, out: Path, dropped: Counter) -> Iterator[dict]:
    """Yield the examples without those by which a source exceeds `share` of all.

    Raises:
        UserError: there are too few sources for this share, e.g. 0.2 of 3 sources.
    """

    def limits(counts: dict[str, int]) -> dict[str, int]:
        try:
            return dict.fromkeys(counts, largest_cap(list(counts.values()), share))
        except ValueError as error:
            raise UserError(f"corpus.compose.{out.name}.max_source_share: {error}") from error

    return limit_groups(examples, lambda example: example["source"], limits, seed, out, dropped, "source_share")


def largest_cap(counts: list[int], share: float) -> int:
    """The most examples that each source may keep so that none has more than `share` of all that are kept.

    It is the largest c with c <= share * sum(min(count, c)).

    Args:
        counts: examples of each source.

    Raises:
        ValueError: share * number of sources is less than 1, so no such c exists.
    """
    exact_share = Fraction(str(share))
    if counts and exact_share * len(counts) < 1:
        smallest = math.ceil(1000 / len(counts)) / 1000
        raise ValueError(f"{share:g} is impossible with {len(counts)} sources; must be at least {smallest:g}")

    def holds(cap: int) -> bool:
        return cap <= exact_share * sum(min(count, cap) for count in counts)

    low, high = 1, max(counts, default=1)  # `holds` is true up to some cap and false above it
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def balance_tasks(
    examples: Iterator[dict], weights: dict[str, float], all_required: bool, seed: int, out: Path, dropped: Counter
) -> Iterator[dict]:
    """Yield examples so that the tasks' numbers are in proportion to their weights; the scarcest task keeps all.

    Args:
        all_required: whether a task without examples is an error; if not, it is ignored.

    Raises:
        UserError: a task has no examples, with `all_required`.
    """

    def limits(counts: dict[str, int]) -> dict[str, int]:
        if all_required and (missing := [task for task in weights if task not in counts]):
            raise UserError(
                f"corpus.compose.{out.name}.tasks.{missing[0]}: no document gives an example of it; leave it out"
            )
        present = {task: Fraction(str(weight)) for task, weight in weights.items() if task in counts}
        per_weight = min((counts[task] / weight for task, weight in present.items()), default=Fraction(0))
        return {task: max(1, int(weight * per_weight)) for task, weight in present.items()}

    return limit_groups(
        examples, lambda example: example.get("task", "analysis"), limits, seed, out, dropped, "task_share"
    )
