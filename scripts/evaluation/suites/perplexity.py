"""Perplexity and bits per byte of a model on the test examples of each dataset.

    python -m scripts.evaluation.suites.perplexity --model results/training/base --datasets results/corpus/compose \\
        --settings '{"datasets": ["code"], "documents": 200, "context": 4096, "stride": 2048}' \\
        --out results/evaluation/perplexity/base

Examples are encoded as for training and their targets are scored: in a text every token but the first, and the end of
text; in a chat the assistant's words and the ends of its turns. Examples longer than `context` are scored in sliding
windows: each further window scores the next `stride` tokens, with as many earlier tokens as fit before them, so every
target is scored. Bits per byte counts the bytes of the scored tokens (none for control tokens), so it compares models
with different tokenizers; perplexity does not.

With `retrieval` the examples of some datasets are scored a second time, each window after the chunks of training code
that BM25 finds for what stands before it: what retrieval alone would give, and what it gives a tuned model.
"""

import math
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.options import command
from scripts.evaluation.generation.examples import pick_examples, shortened, test_hashes
from scripts.evaluation.generation.model import ScoredModel, load, write_scores
from scripts.evaluation.metrics.metric import Metric, Suite
from scripts.evaluation.suites import About, held_out
from scripts.experiment.settings.record import Record, Unique, check_name

PLACE = 1
ABOUT = About(
    "Bits per byte do not depend on the tokenizer; perplexity is per token. Less is better for both.",
    share=False,
    seeded=False,
    two_cores=True,
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


class Retrieval(Record):
    """Off unless given. Scores held-out code once more, after code from the training split that resembles it."""

    datasets: Annotated[list[str], Unique, Field(min_length=1)] = Field(
        description="Datasets of code whose training split is searched for their test split."
    )
    chunks: int = Field(3, ge=1, description="Chunks before each window, those that BM25 ranks first.")
    chunk_tokens: int = Field(128, ge=8, description="Length of a chunk (tokens).")


class Settings(Record):
    datasets: Annotated[list[str], Unique] | None = Field(
        None, description="Datasets scored on their test split; all by default."
    )
    documents: int = Field(200, ge=1, description="Maximum number of documents per dataset and language.")
    max_characters: int | None = Field(
        None, ge=100, description="Only so many characters of a text are scored, its first ones; by default all."
    )
    retrieval: Retrieval | None = None
    context: int = Field(4096, ge=2, description="Tokens of a window; longer documents are scored in several windows.")
    stride: int = Field(
        2048, ge=1, description="Number of new tokens that each further window scores, at most `context`."
    )


def completed(settings: Settings, experiment) -> Settings:
    if settings.datasets is None:
        return settings.model_copy(update={"datasets": held_out(experiment)})
    return settings


def check(settings: Settings, experiment, key: str) -> None:
    for dataset in settings.datasets:
        check_name(f"{key}.datasets", dataset, experiment.corpus.compose)
    for dataset in settings.retrieval.datasets if settings.retrieval else []:
        check_name(f"{key}.retrieval.datasets", dataset, settings.datasets)
        if experiment.corpus.compose[dataset].kind != "code":
            raise UserError(f"{key}.retrieval.datasets: {dataset} is not of kind `code`")
    shape = experiment.training.base.shape or {}
    longest = shape.get("max_position_embeddings")
    if longest and settings.context > longest:
        raise UserError(
            f"{key}.context: {settings.context} is more than the base's max_position_embeddings {longest}: it does not"
            " know further positions"
        )
    if settings.stride > settings.context:
        raise UserError(f"{key}.stride: {settings.stride} exceeds `context`")


def small(settings: Settings, items: int) -> dict:
    return {"documents": items}


def score_dataset(model: ScoredModel, dataset: str, path: Path, settings: Settings, plain: bool) -> list[dict]:
    """The items of one dataset, sorted by id. `plain`: without the pass after retrieval, on the same windows."""
    from scripts.evaluation.generation.likelihood import even_windows, joined, negative_log_likelihood
    from scripts.evaluation.generation.retrieval import Chunks
    from scripts.evaluation.metrics.completions import count_identifiers

    encoder = model.encoder
    examples = shortened(pick_examples(path, settings.documents), settings.max_characters)
    examples = encoder.accepted(examples, f"perplexity {dataset}")
    if not examples:
        raise UserError(
            f"{path}: no test example; raise corpus.compose.{dataset}.test, of a dataset from the sources"
            f" corpus.split.test, or take {dataset} out of the evaluation"
        )
    encoded, cut, further = encoder.encode(examples), None, {}
    hits = np.zeros(len(encoded.ids), bool)
    sizes, languages = (settings.context, settings.stride), [example["language"] for example in examples]
    retrieval, label = settings.retrieval, f"perplexity {dataset}"
    if retrieval and dataset in retrieval.datasets:
        even = even_windows(encoded, *sizes)
        cut = joined(even)
    if cut and not plain:
        chunks = Chunks(encoder, read_jsonl(path.with_name("train.jsonl.zst")), retrieval.chunk_tokens)
        prefixes = chunks.before([example["id"] for example in examples], encoded, even, retrieval.chunks)
        found = negative_log_likelihood(model.model, encoded, *sizes, f"{label}, retrieval", even, prefixes, hits)
        further["nll_retrieval"] = found
        further["names"], further["names_right_retrieval"] = count_identifiers(encoded, hits, encoder, languages)
    nll = negative_log_likelihood(model.model, encoded, *sizes, label, cut, hits=hits)
    if further:
        further["names_right"] = count_identifiers(encoded, hits, encoder, languages)[1]
    tokens = np.add.reduceat(encoded.targets, encoded.offsets[:-1], dtype=np.int64)
    byte_counts = np.add.reduceat(encoder.bytes_of[encoded.ids] * encoded.targets, encoded.offsets[:-1])
    items = []
    for place, example in enumerate(examples):
        item = {"dataset": dataset, "id": example["id"], "language": example["language"]}
        item |= {"nll": float(nll[place]), "tokens": int(tokens[place]), "bytes": int(byte_counts[place])}
        items.append(item | {name: values[place].item() for name, values in further.items()})
    if not byte_counts.sum():
        raise UserError(
            f"dataset {dataset}: its test examples hold no text to score; see corpus.filter, corpus.compose"
        )
    loss = nll.sum() / tokens.sum()
    if not loss < 700:  # exp overflows at 710
        raise UserError(f"dataset {dataset}: the mean loss is {loss}; the model has diverged, lower its learning rate")
    return items


def perplexity(model: Path, datasets: Path, settings: Settings, out: Path, plain: bool = False) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of a model, and return the latter. `plain`: without retrieval. Raises
    UserError: a dataset does not exist or has no test example, or files do not match their manifest."""
    hashes = test_hashes(datasets, settings.datasets, "perplexity")
    loaded, items = load(model), []
    for dataset in settings.datasets:
        items += score_dataset(loaded, dataset, datasets / dataset / "test.jsonl.zst", settings, plain)
    return write_scores("perplexity", SUITE, out, model, items, hashes)


if __name__ == "__main__":
    run(command(perplexity))
