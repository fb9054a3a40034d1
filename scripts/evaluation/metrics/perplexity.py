"""Perplexity and bits per byte as functions of summed negative log-likelihood (nats), scored tokens and their bytes."""

import math

import numpy as np

from scripts.evaluation.metrics.metric import Metric, Suite

# what rule baselines scores on the same examples: a compressor, alone and after it has read training data
BASELINES = ("compressor", "compressor_trained")
SUITE = Suite(
    figures={"nll": 1, "tokens": 1, "bytes": 1},
    metrics={
        "perplexity": Metric(lambda sums: np.exp(sums[..., 0] / sums[..., 1]), "below", size_column=1, lowest=1.0),
        "bits_per_byte": Metric(lambda sums: sums[..., 0] / math.log(2) / sums[..., 2], "below", size_column=2),
    },
    compared=("bits_per_byte",),
    counts=("tokens", "bytes"),
    data_figures=("bytes",),
)
