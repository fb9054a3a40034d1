"""Perplexity and bits per byte of a model on the test examples of each dataset, and the lines that it would write.

    python -m scripts.evaluation.suites.perplexity --model results/training/base --datasets results/corpus/compose \\
        --settings '{"datasets": ["code"], "documents": 200, "context": 4096, "stride": 2048}' \\
        --out results/evaluation/perplexity/base

Examples are encoded as for training and their targets are scored: in a text every token but the first, and the end of
text; in a chat the assistant's words and the ends of its turns. Examples longer than `context` are scored in sliding
windows: each further window scores the next `stride` tokens, with as many earlier tokens as fit before them, so every
target is scored. Bits per byte counts the bytes of the scored tokens (none for control tokens), so it compares models
with different tokenizers; perplexity does not.

With `places` runs of lines all over each text are scored in place of whole texts (scripts/evaluation/code_tasks/
places.py), no end of a text among them. The same pass then says how many of these lines greedy decoding would write as
they stand (scripts/evaluation/code_tasks/lines.py).

Some datasets are scored again in variants of the model, whose figures lie under `variants` of an item: with `retrieval`
after training code that BM25 finds for what stands before, which is what retrieval alone would give, or gives a tuned
model; and of a stage with a `curve` as the model was after fewer steps.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.options import command
from scripts.evaluation.generation.examples import pick_examples, test_hashes
from scripts.evaluation.generation.model import ScoredModel, load, load_weights, write_scores
from scripts.evaluation.metrics.metric import Metric, Suite
from scripts.evaluation.suites import About, held_out
from scripts.experiment.settings.record import Record, Unique, check_name
from scripts.experiment.settings.suites import Places

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from scripts.evaluation.code_tasks.lines import Text
    from scripts.evaluation.generation.likelihood import Window
    from scripts.evaluation.generation.retrieval import Pieces
    from scripts.tokens.tokenization.encoder import Encoder

PLACE = 1
ABOUT = About(
    "Bits per byte do not depend on the tokenizer; perplexity is per token. Less is better for both.",
    share=False,
    seeded=False,
    two_cores=True,
)
# what rule baselines scores on the same examples: a compressor, alone and after it has read training data
BASELINES = ("compressor", "compressor_trained")
RETRIEVAL = "retrieval"  # a variant; those of a curve are named by `after`


def after(steps: int) -> str:
    """The name of the variant that was trained so many steps."""
    return f"{steps} steps"


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """`part / whole`, NaN of nothing."""
    return np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=np.asarray(whole) > 0)


SUITE = Suite(
    figures=dict.fromkeys(
        ("nll", "tokens", "bytes", "lines", "lines_as_they_stand", "characters", "characters_saved"), 1
    ),
    metrics={
        "perplexity": Metric(lambda sums: np.exp(sums[..., 0] / sums[..., 1]), "below", size_column=1, lowest=1.0),
        "bits_per_byte": Metric(lambda sums: sums[..., 0] / math.log(2) / sums[..., 2], "below", size_column=2),
        # shares of the lines at `places`
        "lines": Metric(lambda sums: share(sums[..., 4], sums[..., 3]), "above", size_column=3, highest=1.0),
        "typing_saved": Metric(lambda sums: share(sums[..., 6], sums[..., 5]), "above", size_column=5, highest=1.0),
    },
    compared=("bits_per_byte",),
    counts=("tokens", "bytes"),
    data_figures=("bytes", "lines", "characters"),
)


DOCUMENTS = 200  # per dataset and language, where nothing else is said


def most_documents(documents: int | dict[str, int], dataset: str) -> int:
    """The setting `documents` of a dataset."""
    if isinstance(documents, dict):
        return documents.get(dataset, DOCUMENTS)
    return documents


class Retrieval(Record):
    """Off unless given. Scores held-out code once more, after code from the training split that resembles it."""

    datasets: Annotated[list[str], Unique, Field(min_length=1)] = Field(
        description="Datasets of code whose training split is searched for their test split."
    )
    pieces: int = Field(
        2, ge=1, description="Pieces of code, of 8 to 24 lines, before each window: those that BM25 ranks first."
    )


class Settings(Record):
    datasets: Annotated[list[str], Unique] | None = Field(
        None, description="Datasets scored on their test split; all by default."
    )
    documents: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=1)]] = Field(
        DOCUMENTS,
        description="Maximum number of documents per dataset and language; or of each dataset, `{own: 28, other: 12}`.",
    )
    places: Places | None = None
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
    for dataset in settings.documents if isinstance(settings.documents, dict) else []:
        check_name(f"{key}.documents", dataset, settings.datasets)
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


class Examples:
    """The test examples of a dataset, encoded, with what is scored of them.

    Attributes:
        cut: the windows, each with the same tokens before it for all variants; None for `windows` of whole examples.
        lines: of each example the lines at its places.
    """

    def __init__(self, encoder: "Encoder", examples: list[dict], settings: Settings, even: bool):
        from scripts.evaluation.code_tasks.lines import lines_of, text_of_ids
        from scripts.evaluation.code_tasks.places import places
        from scripts.evaluation.generation.likelihood import even_windows

        self.encoder, self.examples, self.settings = encoder, examples, settings
        self.encoded, self.cut = encoder.encode(examples), None
        self.texts, self.lines, runs = [], [[] for _ in examples], []
        sizes = settings.context, settings.stride
        if not settings.places or not all("text" in example for example in examples):
            if even:
                self.cut = even_windows(self.encoded, *sizes)
            return
        for number, example in enumerate(examples):
            first, last = self.encoded.offsets[number], self.encoded.offsets[number + 1]
            ids = self.encoded.ids[first:last]
            text = text_of_ids(encoder, ids)
            chosen = places(example["text"], example["id"], settings.places)
            in_place = [lines_of(encoder, ids, place) for place in chosen]
            targets = targets_at(text, chosen)
            self.encoded.targets[first:last] &= targets
            runs.append([])
            for place, lines in zip(chosen, in_place, strict=True):
                of_place = np.flatnonzero(targets_at(text, [place]))
                asked = [*of_place, *(line.first for line in lines), *(line.last for line in lines)]
                if asked:
                    runs[-1].append((min(asked), max(asked) + 1))
                self.lines[number] += lines
            self.texts.append(text)
        self.cut = even_windows(self.encoded, *sizes, runs)

    def retrieved(self, pieces: "Pieces") -> "dict[Window, np.ndarray]":
        """For each window the ids of the code that is retrieved for what it shows before its first scored token."""
        prefixes = {}
        for window in self.cut:
            offset = self.encoded.offsets[window.example]
            shown = self.encoded.ids[offset + window.start : offset + window.new].tolist()
            found = pieces.before(self.examples[window.example]["id"], self.encoder.decode(shown))
            if found:
                prefixes[window] = np.array(self.encoder.continuation(found), np.uint32)
        return prefixes

    def score(self, model: "PreTrainedModel", label: str, prefixes: dict | None = None) -> list[dict]:
        """The figures of each example. `prefixes`: ids that stand before a window."""
        from scripts.evaluation.code_tasks.lines import Likeliest, written
        from scripts.evaluation.generation.likelihood import joined, negative_log_likelihood

        encoded, cut, likeliest = self.encoded, self.cut, None
        if cut and prefixes is None:
            cut = joined(cut)
        if any(self.lines):
            likeliest = Likeliest(self.encoder, len(encoded.ids))
            for number, lines in enumerate(self.lines):
                likeliest.ask(lines, self.texts[number], int(encoded.offsets[number]))
        sizes = self.settings.context, self.settings.stride
        nll = negative_log_likelihood(model, encoded, *sizes, label, cut, prefixes, likeliest)
        figures = []
        for number, (first, last) in enumerate(zip(encoded.offsets, encoded.offsets[1:], strict=False)):
            ids, targets = encoded.ids[first:last], encoded.targets[first:last]
            of_lines = []
            for line in self.lines[number]:
                of_lines.append(written(self.encoder, ids, likeliest.ids[first:last], line, self.texts[number]))
            figures.append(
                {
                    "nll": float(nll[number]),
                    "tokens": int(targets.sum()),
                    "bytes": int((self.encoder.bytes_of[ids] * targets).sum()),
                    "lines": len(of_lines),
                    "lines_as_they_stand": sum(line.right for line in of_lines),
                    "characters": sum(line.characters for line in of_lines),
                    "characters_saved": sum(line.saved for line in of_lines),
                }
            )
        return figures


def targets_at(text: "Text", places: list[list[int]]) -> np.ndarray:
    """bool[tokens]: the tokens of a text that hold a part of a line at these places."""
    from scripts.evaluation.code_tasks.lines import line_starts

    starts, targets = line_starts(text.content), np.zeros(len(text.starts) - 1, bool)
    starts.append(len(text.content))
    for place in places:
        for number in place:
            if number + 1 < len(starts):
                targets |= (text.starts[1:] > starts[number]) & (text.starts[:-1] < starts[number + 1])
    return targets


def score_dataset(model: ScoredModel, dataset: str, path: Path, settings: Settings, plain: bool) -> list[dict]:
    """The items of one dataset, sorted by id. `plain`: without variants, on the same windows."""
    from scripts.evaluation.generation.retrieval import Pieces
    from scripts.training.model.snapshots import snapshots

    encoder, label = model.encoder, f"perplexity {dataset}"
    examples = encoder.accepted(pick_examples(path, most_documents(settings.documents, dataset)), label)
    if not examples:
        raise UserError(
            f"{path}: no test example; raise corpus.compose.{dataset}.test, of a dataset from the sources"
            f" corpus.split.test, or take {dataset} out of the evaluation"
        )
    retrieval = settings.retrieval if settings.retrieval and dataset in settings.retrieval.datasets else None
    scored = Examples(encoder, examples, settings, even=retrieval is not None)
    figures = scored.score(model.model, label)
    variants = {}
    if retrieval and not plain:
        prefixes = scored.retrieved(Pieces(read_jsonl(path.with_name("train.jsonl.zst")), retrieval.pieces))
        variants[RETRIEVAL] = scored.score(model.model, f"{label}, retrieval", prefixes)
        for steps, folder in snapshots(model.folder):
            variants[after(steps)] = scored.score(load_weights(folder), f"{label}, after {after(steps)}")
    items = []
    for number, example in enumerate(examples):
        item = {"dataset": dataset, "id": example["id"], "language": example["language"], **figures[number]}
        if variants:
            item["variants"] = {name: of_variant[number] for name, of_variant in variants.items()}
        items.append(item)
    if not sum(item["bytes"] for item in items):
        raise UserError(
            f"dataset {dataset}: its test examples hold no text to score; see corpus.filter, corpus.compose"
        )
    loss = sum(item["nll"] for item in items) / sum(item["tokens"] for item in items)
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
