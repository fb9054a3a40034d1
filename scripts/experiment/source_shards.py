"""Shards of the sources: jobs that handle some dozens of sources each.

source_shards(["click", "jinja"])      # {"0": ["click", "jinja"]}
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable

SIZE = 64  # most sources of a shard, on average


def source_shards(names: Iterable[str]) -> dict[str, list[str]]:
    """The names by shard, each shard in the given order: one up to 64 sources, else so many that 32 to 64 share one.

    A hash of the name decides, so a new source joins one shard and leaves the others as they are, except where their
    number doubles.
    """
    names, shards = list(names), defaultdict(list)
    count = 1
    while count * SIZE < len(names):
        count *= 2
    for name in names:
        shards[str(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % count)].append(name)
    return dict(shards)
