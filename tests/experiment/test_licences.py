"""scripts/experiment/licences.py, source_shards.py: permissive licence expressions, and shards of sources."""

import pytest

from scripts.experiment.licences import permissive
from scripts.experiment.source_shards import source_shards


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("mit", True),
        ("GPL-2.0-only", False),
        ("NOASSERTION", False),
        ("", False),
        ("MIT OR GPL-2.0-only", True),
        ("MIT AND GPL-2.0-only", False),
        ("(MIT AND GPL-2.0-only) OR Apache-2.0", True),
        ("MIT AND (GPL-2.0-only OR Apache-2.0)", True),
        ("Apache-2.0 WITH LLVM-exception AND MIT", True),
        ("MIT OR", True),
        ("MIT AND", False),
        ("MIT BSD-3-Clause", False),
        ("((", False),
    ],
)
def test_an_expression_is_permissive_if_one_may_choose_permissive_licences_alone(expression, expected):
    assert permissive(expression) == expected


def test_sources_stay_in_their_shard_when_one_is_added():
    names = [f"source-{number}" for number in range(10_000)]
    shards = source_shards(names)
    assert sorted(name for shard in shards.values() for name in shard) == sorted(names)
    assert len(shards) == 256 and max(map(len, shards.values())) < 2 * 64
    after = source_shards([*names, "another"])
    assert sum(after[shard] != shards[shard] for shard in shards) == 1
    assert source_shards(names[:64]) == {"0": names[:64]} and source_shards([]) == {}
