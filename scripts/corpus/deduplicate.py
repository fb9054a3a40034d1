"""Remove duplicates across all sources: of equal or similar documents only the first is kept.

    python -m scripts.corpus.deduplicate --filtered results/corpus/filter --sources A B C \\
        --signatures results/corpus/signatures/0 --out results/corpus/deduplicate

The order is that of --sources, then of paths; the workflow gives sources of high priority first, then those with a
permissive licence. Documents are similar if their sets of word sequences have a Jaccard index of at least JACCARD. A
document that is similar to a kept one before it is dropped, and the rejects name the first such. So each document that
is dropped is similar to one that is kept, and no chain of similar documents removes its far end.

Documents are streamed twice: for the word sequences of those that share a band of their signatures, 8 bytes a word in
a temporary file beside the output, and to be written. Memory holds about 120 bytes a document, one band of all
signatures, and 8 bytes for each document in each bucket.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from scripts.common.cli import run
from scripts.common.options import command
from scripts.common.progress import Progress
from scripts.corpus.formats.filter_writer import FilterWriter, funnel
from scripts.corpus.signatures import (
    BANDS,
    check_signed,
    documents_of,
    first_of,
    read_digests,
    rows_in_order,
    signed_sources,
)
from scripts.corpus.similarity.minhash import JACCARD, NO_WORDS, WORDS, representatives, sequence_set


def buckets_of(band: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(members, sizes): the rows that share a value with another one, by value, and how many share each. `band`: uint64
    [documents], one band of each."""
    order = np.argsort(band, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], band[order][1:] != band[order][:-1]]) if len(band) else order)
    sizes = np.diff(np.append(starts, len(band)))
    shared = (sizes > 1) & (band[order][starts] != NO_WORDS)
    return order[np.repeat(shared, sizes)], sizes[shared]


def all_buckets(signatures: list[Path], first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(members, sizes): the documents of the buckets of all bands, one bucket after the other, and how many each has.

    Args:
        signatures: the folders of all shards.
        first: int64 [documents], the first document with the text of each one; the others are in no bucket.
    """
    different = np.flatnonzero(first == np.arange(len(first)))
    shards = [np.load(folder / BANDS, mmap_mode="r") for folder in signatures]
    members, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number in range(shards[0].shape[1]):
        rows, counts = buckets_of(np.concatenate([bands[:, number] for bands in shards])[different])
        members.append(different[rows])
        sizes.append(counts)
    return np.concatenate(members), np.concatenate(sizes)


def write_sequences(documents: Iterator[dict], candidates: np.ndarray, words: int, file: IO[bytes]) -> np.ndarray:
    """Write the sorted set of word sequences of each candidate to `file`, uint64.

    Args:
        candidates: int64, sorted numbers of documents.

    Returns:
        int64 [candidates + 1]: where each set begins, in sequences.
    """
    ends, remaining = [0], iter(candidates.tolist())
    candidate = next(remaining, None)
    progress = Progress("deduplicate", "candidates", len(candidates))
    for number, document in enumerate(documents if len(candidates) else ()):
        if number == candidate:
            sequences = sequence_set(np.frombuffer(document["text"].encode(), np.uint8), words)
            file.write(sequences.tobytes())
            ends.append(ends[-1] + len(sequences))
            progress.add()
            candidate = next(remaining, None)
            if candidate is None:
                break
    progress.end()
    file.flush()
    return np.array(ends)


def stand_ins(
    texts: np.ndarray, order: np.ndarray, sizes: np.ndarray, sequences: np.ndarray, ends: np.ndarray, jaccard: float
) -> np.ndarray:
    """int64 [candidates]: the candidate that stands for each one (see `representatives`).

    Args:
        texts: int64, the candidates of all buckets, one bucket after the other.
        order: int64 [candidates], the candidates in the order in which they are taken.
        ends: int64 [candidates + 1], where the set of each candidate begins.
    """
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    members = place[texts]
    starts = np.concatenate([[0], np.cumsum(np.bincount(members, minlength=len(order)))])
    spans = np.stack([ends[:-1], ends[1:]], axis=1)[order]
    taken = representatives(np.argsort(members, kind="stable"), starts, members, sizes, sequences, spans, jaccard)
    return order[taken[place]]


def similar_documents(
    documents: Iterator[dict], signatures: list[Path], first: np.ndarray, order: np.ndarray, folder: Path
) -> np.ndarray:
    """int64 [documents]: the document that stands for each one, itself where none does.

    Args:
        documents: in the order of their numbers, which run through all shards of the signatures.
        first: int64 [documents], the first document with the text of each one.
        order: int64 [documents], the numbers in the order in which documents are taken.
        folder: for a temporary file.
    """
    members, sizes = all_buckets(signatures, first)
    candidates, texts = np.unique(members, return_inverse=True)
    result = np.arange(len(first))
    if not len(candidates):
        return result
    with TemporaryFile(dir=folder) as file:
        ends = write_sequences(documents, candidates, WORDS, file)
        sequences = np.asarray(np.memmap(file, np.uint64, "r")) if ends[-1] else np.empty(0, np.uint64)
        rank = np.full(len(first), len(first))  # of equal texts that of the first one
        np.minimum.at(rank, first[order], np.arange(len(first)))
        taken = np.argsort(rank[first][candidates])
        standing = stand_ins(texts, taken, sizes, sequences, ends, JACCARD)
    result[candidates] = candidates[standing]
    similar = int((result != np.arange(len(result))).sum())
    logging.info(f"deduplicate: {similar:,} of {len(candidates):,} candidates are similar to another document")
    return result


def remove_duplicates(
    filtered: Path, names: list[str], signatures: list[Path], result: FilterWriter, folder: Path
) -> None:
    """Pass the documents of `filtered`/SOURCE, for each of `names` in order, to `result`.

    Args:
        signatures: folders of the signatures of all shards.
        folder: for a temporary file.

    Raises:
        UserError: documents or signatures are missing, differ from their manifest, or do not belong together.
    """
    sources = signed_sources(signatures)
    check_signed(filtered, sources, names)
    order = rows_in_order(names, sources)
    text = first_of(read_digests(signatures))
    signed = documents_of(filtered, [source.name for source in sources])
    similar = similar_documents(signed, signatures, text, order, folder)
    # from here on documents are numbered in the order of `names`
    equal, kept = first_of(text[order]), first_of(similar[text][order])
    referenced = set(kept[kept != np.arange(len(kept))].tolist())  # documents that rejects name
    named = {}
    progress = Progress("deduplicate", "documents", len(kept))
    for number, document in enumerate(documents_of(filtered, names)):
        name = f"{document['source']}/{document['path']}"
        if kept[number] == number:
            if number in referenced:
                named[number] = name
            result.keep(document, len(document["text"].encode()))
        else:
            reason = "duplicate"
            if equal[number] == number:
                reason = "near_duplicate"
            place, size = [document[key] for key in ("path", "source", "language")], len(document["text"].encode())
            result.drop(*place, reason, named[int(kept[number])], size)
        progress.add()
    progress.end()


def deduplicate(filtered: Path, sources: list[str], signatures: list[Path], out: Path) -> None:
    """Write what is kept of the sources' documents, and what is not, to the folder `out`."""
    with funnel(out) as result:
        remove_duplicates(filtered, sources, signatures, result, out)


if __name__ == "__main__":
    run(command(deduplicate))
