"""Perplexity and bits per byte of a model on the test examples of each dataset.

    python -m scripts.evaluation.perplexity --model results/training/base --datasets results/corpus/compose \\
        --settings '{"datasets": ["code"], "documents": 200, "context": 4096, "stride": 2048}' \\
        --out results/evaluation/perplexity/base

Examples are encoded as for training and their targets are scored: in a text every token but the first, and the end of
text; in a chat the assistant's words and the ends of its turns. Examples longer than `context` are scored in sliding
windows: each further window scores the next `stride` tokens, with as many earlier tokens as fit before them, so every
target is scored. Bits per byte counts the bytes of the scored tokens (none for control tokens), so it compares models
with different tokenizers; perplexity does not.
"""

import logging
import math
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.evaluation.generation.examples import pick_examples, test_hashes
from scripts.evaluation.generation.likelihood import negative_log_likelihood
from scripts.evaluation.generation.model import arguments, load, write_scores
from scripts.evaluation.metrics.metric import by_language
from scripts.experiment.settings.evaluation import Perplexity
from scripts.tokens.packing.encoder import Encoder


def summary(items: list[dict]) -> dict:
    """`{"documents", "tokens", "bytes", "perplexity", "bits_per_byte"}` over items.

    Raises:
        UserError: nothing was scored, or the model is broken.
    """
    nll, tokens, size = (sum(item[key] for item in items) for key in ("nll", "tokens", "bytes"))
    place = f"dataset {items[0]['dataset']}"
    if not size:
        raise UserError(f"{place}: its test examples hold no text to score; see corpus.filter and corpus.compose")
    if not nll / tokens < 700:  # exp overflows at 710
        raise UserError(f"{place}: the mean loss is {nll / tokens}; the model has diverged, lower its learning rate")
    return {
        "documents": len(items),
        "tokens": tokens,
        "bytes": size,
        "perplexity": math.exp(nll / tokens),
        "bits_per_byte": nll / math.log(2) / size,
    }


def score_dataset(
    model: PreTrainedModel, encoder: Encoder, dataset: str, path: Path, settings: Perplexity
) -> list[dict]:
    """The items of one dataset, sorted by id.

    Raises:
        UserError: there is no test example, or one is malformed.
    """
    examples = pick_examples(path, settings.documents)
    if not examples:
        raise UserError(f"{path}: no test example; raise corpus.split.test, or take {dataset} out of the evaluation")
    encoded = encoder.encode(examples)
    nll = negative_log_likelihood(model, encoded, settings.context, settings.stride, f"perplexity {dataset}")
    tokens = np.add.reduceat(encoded.targets, encoded.offsets[:-1], dtype=np.int64)
    sizes = np.add.reduceat(encoder.bytes_of[encoded.ids] * encoded.targets, encoded.offsets[:-1])
    return [
        {
            "dataset": dataset,
            "id": example["id"],
            "language": example["language"],
            "nll": float(nll[i]),
            "tokens": int(tokens[i]),
            "bytes": int(sizes[i]),
        }
        for i, example in enumerate(examples)
    ]


def perplexity(folder: Path, datasets: Path, settings: Perplexity, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    Raises:
        UserError: a dataset does not exist or has no test example, or files do not match their manifest.
    """
    hashes = test_hashes(datasets, settings.datasets, "perplexity")
    model = load(folder)
    items, scores = [], {}
    for dataset in settings.datasets:
        path = datasets / dataset / "test.jsonl.zst"
        of_dataset = score_dataset(model.model, model.encoder, dataset, path, settings)
        scores[dataset] = by_language(of_dataset, summary)
        items += of_dataset
        total = scores[dataset]["all"]
        logging.info(
            f"perplexity {dataset}: {total['bits_per_byte']:.2f} bits/byte over {total['documents']:,} documents"
            f" (perplexity {total['perplexity']:.2f}, {total['tokens']:,} tokens)"
        )
    return write_scores(out, folder, items, hashes, scores)


def main() -> None:
    parser = arguments(__doc__, Perplexity, seed=False)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of the composed datasets")
    args = parser.parse_args()
    perplexity(args.model, args.datasets, args.settings, args.out)


if __name__ == "__main__":
    run(main)
