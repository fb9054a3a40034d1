"""The table of suites: what each measures. `gate` goes through it; a suite's script only has to write the figures."""

import math

import numpy as np

from scripts.evaluation import human
from scripts.evaluation.metrics import bleu_chrf, code_keywords, exact_match, pass_at_k
from scripts.evaluation.metrics.metric import Metric, Suite

PERPLEXITY = Suite(
    figures={"nll": 1, "tokens": 1, "bytes": 1},
    metrics={
        "perplexity": Metric(lambda sums: np.exp(sums[..., 0] / sums[..., 1]), "below"),
        "bits_per_byte": Metric(lambda sums: sums[..., 0] / math.log(2) / sums[..., 2], "below"),
    },
    compared=("bits_per_byte",),
    counts=("tokens", "bytes"),
    same=("bytes",),
)


def suites(evaluation: dict) -> dict[str, Suite]:
    """The suites that an experiment's `evaluation` configures, in the order of the report."""
    table = {
        "perplexity": PERPLEXITY,
        "qa": exact_match.SUITE,
        "bleu": bleu_chrf.SUITE,
        "keywords": code_keywords.SUITE,
    }
    found = {name: suite for name, suite in table.items() if name in evaluation}
    found |= {"code": pass_at_k.suite(evaluation["code"]["k"])} if "code" in evaluation else {}
    return found | ({"human": human.SUITE} if "human" in evaluation else {})
