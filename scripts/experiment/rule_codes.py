"""The rules whose code makes an experiment's results, each with its fingerprint."""

from scripts.experiment.kept_fingerprints import fingerprint


def rule_codes(suites: list[str], dated: bool, mixed: bool, prompted: bool, sharded: bool) -> dict[str, str]:
    """A fingerprint per rule up to the gates.

    Args:
        suites: the configured ones.
        dated: whether first commits are read.
        mixed: whether there are mixtures.
        prompted: whether prompts are searched in the training data.
        sharded: whether very many sources are fetched and filtered in shards.
    """
    rules = {
        "sources": [
            "pull",
            "fetch",
            *(["fetch_shard"] if sharded else []),
            *(["history"] if dated else []),
            *(["history_shard"] if dated and sharded else []),
        ],
        "corpus": [
            *("filter", *(["filter_shard"] if sharded else [])),
            *("signatures", "buckets", "clusters", "deduplicate", "split", "compose"),
        ],
        "tokens": ["tokenizer", "pack", *(["mix"] if mixed else [])],
        "training": ["base", "train"],
        "evaluation": [
            *suites,
            *(["completion_tasks"] if "completion" in suites else []),
            *(["repository_tasks"] if "repository_tests" in suites else []),
            *(["contamination"] if prompted else []),
            "gate",
        ],
    }
    return {f"{area}.{rule}": fingerprint(f"scripts.{area}.{rule}") for area in rules for rule in rules[area]}
