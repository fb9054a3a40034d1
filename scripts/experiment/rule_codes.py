"""The rules whose code makes an experiment's results, each with its fingerprint."""

from scripts.experiment.kept_fingerprints import fingerprint
from scripts.experiment.suites import SUITES


def rule_codes(suites: list[str], dated: bool, mixed: bool, prompted: bool) -> dict[str, str]:
    """A fingerprint per rule up to the gates.

    Args:
        suites: the configured ones.
        dated: whether first commits are read.
        mixed: whether there are mixtures.
        prompted: whether prompts are searched in the training data.
    """
    rules = {
        "sources": [
            "pull",
            "fetch",
            *(["history"] if dated else []),
        ],
        "corpus": [
            *("filter", "signatures", "buckets", "clusters", "deduplicate", "split", "compose"),
        ],
        "tokens": ["tokenizer", "pack", *(["mix"] if mixed else [])],
        "training": ["base", "train"],
        "evaluation": [
            *suites,
            *(SUITES[suite].tasks for suite in suites if SUITES[suite].tasks),
            *(["contamination"] if prompted else []),
            "gate",
        ],
    }
    return {f"{area}.{rule}": fingerprint(f"scripts.{area}.{rule}") for area in rules for rule in rules[area]}
