"""Balance a dataset of chats from code: give each task its share of the examples.

Each task keeps the examples with the smallest hashes of id and seed, so added examples displace few others.
"""

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
