"""The likelihood of documents under a model on this CPU, beside lm-eval: the same windows, the same sum.

    python -m benchmarks.bench_likelihood results/own-code/training/base [--documents 24]

lm-eval goes first, with torch as it finds it and 1 and 8 rows a batch; then the suite's own function. The documents are
Python files of this environment; their windows are of 512 tokens.
"""

import argparse
import logging
import math
import time
from pathlib import Path

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoTokenizer

from benchmarks.bench_near_duplicates import corpus
from benchmarks.figures import Value, store
from scripts.evaluation.generation.likelihood import negative_log_likelihood
from scripts.tokens.tokenization.encoder import Encoded, Encoder
from scripts.training.model.float32_products import float32_products
from scripts.training.model.loading import load_model

WINDOW = 512  # tokens that are predicted


def encoded(encoder: Encoder, prefix: int, texts: list[str]) -> Encoded:
    """The texts as lm-eval scores them: one token stands before each, and all others are targets."""
    ids, targets, offsets = [], [], [0]
    for text in texts:
        of_text = [prefix, *encoder.continuation(text)]
        ids += of_text
        targets += [False, *[True] * (len(of_text) - 1)]
        offsets.append(len(ids))
    return Encoded(np.array(ids, np.uint32), np.array(targets), np.array(offsets))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model", type=Path)
    arguments.add_argument("--documents", type=int, default=24)
    options = arguments.parse_args()
    logging.disable(logging.WARNING)
    texts = [document["text"][:8000] for document in corpus(2)[: options.documents]]
    model = load_model(options.model, torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    seconds, sums = {}, {}
    for name, rows in (("warm", 1), ("one", 1), ("eight", 8)):
        peer = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=rows, max_length=WINDOW)
        asked = texts[:1] if name == "warm" else texts
        requests = [Instance("loglikelihood_rolling", {}, (text,), number) for number, text in enumerate(asked)]
        start = time.perf_counter()
        sums[name] = -sum(peer.loglikelihood_rolling(requests, disable_tqdm=True))
        seconds[name] = time.perf_counter() - start
    batch = encoded(Encoder(options.model), peer.prefix_token_id, texts)
    products = float32_products()
    start = time.perf_counter()
    ours = negative_log_likelihood(model, batch, WINDOW + 1, WINDOW, "likelihood").sum()
    seconds["ours"] = time.perf_counter() - start
    assert math.isclose(ours, sums["one"], rel_tol=1e-5), (ours, sums)
    tokens = int(batch.targets.sum())
    values = {"ours": Value(round(tokens / seconds["ours"]), " tokens/s")}
    for name in ("one", "eight"):
        values[name] = Value(round(seconds[name] / seconds["ours"], 2), " times")
    print(f"{tokens:,} tokens; ours {values['ours']}, {values['one']} lm-eval's with 1 row, {values['eight']} with 8")
    threads = torch.get_num_threads()
    conditions = (
        f"{threads} threads, {len(texts)} documents of {tokens:,} tokens, windows of {WINDOW}, products: {products}"
    )
    store("likelihood", values, conditions)


if __name__ == "__main__":
    main()
