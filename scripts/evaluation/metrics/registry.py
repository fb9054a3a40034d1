"""The suites by name: what each measures.

    suites(["perplexity", "code"], ks=[1, 10])["code"].metrics  # pass@1, pass@10

Suite `latency` is not among them: its metrics are not functions of sums over items
(scripts/evaluation/results/latency_figures.py).
"""

from collections.abc import Collection

from scripts.evaluation.metrics import (
    bleu_chrf,
    code_completion,
    exact_match,
    human_ratings,
    lm_eval_score,
    pass_at_k,
    perplexity,
    repository_outcomes,
)
from scripts.evaluation.metrics.metric import Suite, means


def suites(names: Collection[str], ks: Collection[int] = ()) -> dict[str, Suite]:
    """The suites of these names, in the order of the report; other names are ignored.

    Args:
        names: e.g. the keys of an experiment's `evaluation`.
        ks: each k of pass@k, for suite `code`.
    """
    table = {
        "perplexity": perplexity.SUITE,
        "qa": exact_match.SUITE,
        "bleu": bleu_chrf.SUITE,
        "keywords": means("keywords"),
        "code": pass_at_k.suite(ks),
        "completion": code_completion.SUITE,
        "repository_tests": repository_outcomes.SUITE,
        "lm_eval": lm_eval_score.SUITE,
        "human": human_ratings.SUITE,
    }
    return {name: suite for name, suite in table.items() if name in names}
