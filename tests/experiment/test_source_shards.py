"""scripts/experiment/shards.py: shards of sources."""

from scripts.experiment.shards import source_shards


def test_sources_stay_in_their_shard_when_one_is_added():
    names = [f"source-{number}" for number in range(10_000)]
    shards = source_shards(names)
    assert sorted(name for shard in shards.values() for name in shard) == sorted(names)
    assert len(shards) == 256 and max(map(len, shards.values())) < 2 * 64
    after = source_shards([*names, "another"])
    assert sum(after[shard] != shards[shard] for shard in shards) == 1
    assert source_shards(names[:64]) == {"0": names[:64]} and source_shards([]) == {}
