"""Perplexity and bits per byte of a model on the test examples of each dataset.

    python -m scripts.evaluation.suites.perplexity --model results/training/base --datasets results/corpus/compose \\
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
from typing import Annotated

import numpy as np
from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.evaluation.generation.examples import pick_examples, test_hashes
from scripts.evaluation.generation.model import ScoredModel, arguments, load, write_scores
from scripts.evaluation.metrics.metric import Metric, Suite, by_language
from scripts.evaluation.suites import About
from scripts.experiment.settings.record import Record, Unique, check_name

PLACE = 1
ABOUT = About(
    "Bits per byte do not depend on the tokenizer; perplexity is per token. Less is better for both.",
    share=False,
    seeded=False,
)
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


class Settings(Record):
    datasets: Annotated[list[str], Unique] | None = Field(
        None, description="Datasets scored on their test split; all by default."
    )
    documents: int = Field(200, ge=1, description="Maximum number of documents per dataset and language.")
    context: int = Field(4096, ge=2, description="Tokens of a window; longer documents are scored in several windows.")
    stride: int = Field(
        2048, ge=1, description="Number of new tokens that each further window scores, at most `context`."
    )


def completed(settings: Settings, experiment) -> Settings:
    if settings.datasets is None:
        return settings.model_copy(update={"datasets": list(experiment.corpus.compose)})
    return settings


def check(settings: Settings, experiment, key: str) -> None:
    for dataset in settings.datasets:
        check_name(f"{key}.datasets", dataset, experiment.corpus.compose)
    if settings.stride > settings.context:
        raise UserError(f"{key}.stride: {settings.stride} exceeds `context`")


def small(settings: Settings, items: int) -> dict:
    return {"documents": items}


def summary(items: list[dict]) -> dict:
    """`{"documents", "tokens", "bytes", "perplexity", "bits_per_byte"}` over items.

    Raises:
        UserError: nothing was scored, or the model is broken.
    """
    nll, tokens = sum(item["nll"] for item in items), sum(item["tokens"] for item in items)
    size = sum(item["bytes"] for item in items)
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


def score_dataset(model: ScoredModel, dataset: str, path: Path, settings: Settings) -> list[dict]:
    """The items of one dataset, sorted by id.

    Raises:
        UserError: there is no test example, or one is malformed.
    """
    from scripts.evaluation.generation.likelihood import negative_log_likelihood

    encoder, examples = model.encoder, pick_examples(path, settings.documents)
    if not examples:
        raise UserError(f"{path}: no test example; raise corpus.split.test, or take {dataset} out of the evaluation")
    encoded = encoder.encode(examples)
    nll = negative_log_likelihood(model.model, encoded, settings.context, settings.stride, f"perplexity {dataset}")
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


def perplexity(folder: Path, datasets: Path, settings: Settings, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    Raises:
        UserError: a dataset does not exist or has no test example, or files do not match their manifest.
    """
    hashes = test_hashes(datasets, settings.datasets, "perplexity")
    model = load(folder)
    items, scores = [], {}
    for dataset in settings.datasets:
        path = datasets / dataset / "test.jsonl.zst"
        of_dataset = score_dataset(model, dataset, path, settings)
        scores[dataset] = by_language(of_dataset, summary)
        items += of_dataset
        total = scores[dataset]["all"]
        logging.info(
            f"perplexity {dataset}: {total['bits_per_byte']:.2f} bits/byte over {total['documents']:,} documents"
            f" (perplexity {total['perplexity']:.2f}, {total['tokens']:,} tokens)"
        )
    return write_scores(out, folder, items, hashes, scores)


def main() -> None:
    parser = arguments(__doc__, Settings, seed=False)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of the composed datasets")
    args = parser.parse_args()
    perplexity(args.model, args.datasets, args.settings, args.out)


if __name__ == "__main__":
    run(main)
