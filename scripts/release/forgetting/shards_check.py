"""Whether shards hold documents of a source: by the names of their documents, and by lines of text in their tokens.

    lines = own_lines(documents, others)             # lines that only the source has
    found = search(Path("results/tokens/pack/code-512"), tokenizer, "click", lines)

A line counts if it has 40 characters or more between its white space and occurs in no document of any other source.
Each piece of a shard is decoded by itself, so a line that the end of a piece cuts is not seen.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from scripts.common.files import sha256_file
from scripts.experiment.layout import MANIFEST, PACKED_SPLITS
from scripts.tokens.packing.shards import Shards

SHORTEST = 40  # characters; shorter lines, as `return result`, are everywhere
BATCH = 1024  # pieces that are decoded at once


@dataclass(frozen=True)
class SearchResult:
    """What a folder of shards holds of a source.

    Attributes:
        folder: of the shards.
        manifest: the sha256 of its manifest, which holds the hashes of its files.
        documents: of all sources.
        names: documents of the source, by their names.
        lines: pieces with a line that only the source has.
    """

    folder: str
    manifest: str
    documents: int
    names: int
    lines: int


def line_digests(text: str) -> Iterator[bytes]:
    """8 bytes of a hash of each line that counts."""
    for line in text.splitlines():
        if len(line := line.strip()) >= SHORTEST:
            yield hashlib.sha256(line.encode()).digest()[:8]


def own_lines(documents: Iterable[dict], others: Iterable[dict]) -> set[bytes]:
    """The digests of the lines of `documents` that occur in none of `others`; both have a `text` each."""
    lines = {digest for document in documents for digest in line_digests(document["text"])}
    for other in others:
        lines.difference_update(line_digests(other["text"]))
    return lines


def search(folder: Path, tokenizer: Tokenizer, source: str, lines: set[bytes]) -> SearchResult:
    """Search all splits of a folder of shards.

    Raises:
        UserError: files differ in size from their manifest.
    """
    documents = names = pieces = 0
    for split in PACKED_SPLITS:
        shards = Shards(folder, split)
        documents += len(shards.names)
        names += sum(name.startswith(f"{source}/") for name in shards.names)
        pieces += sum(not lines.isdisjoint(line_digests(text)) for text in texts(shards, tokenizer))
    return SearchResult(str(folder), sha256_file(folder / MANIFEST), documents, names, pieces)


def texts(shards: Shards, tokenizer: Tokenizer) -> Iterator[str]:
    """The text of each piece, control tokens included."""
    flat = shards.tokens.reshape(-1)
    starts = shards.pieces[:, 0].astype(np.int64) * shards.length + shards.pieces[:, 1]
    ends = starts + shards.pieces[:, 2]
    for first in range(0, len(starts), BATCH):
        chosen = zip(starts[first : first + BATCH], ends[first : first + BATCH], strict=True)
        yield from tokenizer.decode_batch(
            [flat[start:end].tolist() for start, end in chosen], skip_special_tokens=False
        )
