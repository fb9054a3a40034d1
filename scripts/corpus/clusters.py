"""Compare the documents of each bucket exactly, and find for each similar document the one that stands for it.

    python -m scripts.corpus.clusters --filtered results/corpus/filter --sources A B C \\
        --signatures results/corpus/signatures/0 --buckets results/corpus/buckets/0 \\
        --settings '{"near_duplicates": true}' --out results/corpus/clusters

Documents are similar if their sets of word sequences have a Jaccard index of at least JACCARD. They are taken in the
order of --sources, then of paths. A document that is similar to a representative before it is represented by the first
such; otherwise it becomes a representative itself. So each document that `deduplicate` removes is similar to one that
it keeps, and no chain of similar documents removes its far end.

With `near_duplicates: false` nothing is removed for similarity, and the clusters serve `split` alone: there similar
pairs are joined, directly or through others, so that no similar pair lies in two splits.

`clusters.npy`, int64 [documents, 2]: of each document that another one stands for, its number and that of the other.
Numbers run through all shards of the signatures.

Documents are streamed. The word sequences of those in buckets, 8 bytes a word, lie in a temporary file beside the
output; memory holds their buckets, 8 bytes for each document in one, and 16 bytes for each such document.
"""

import logging
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from numba import njit

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.common.manifest import write_manifest
from scripts.common.progress import Progress
from scripts.corpus.buckets import MEMBERS, SIZES
from scripts.corpus.similarity.minhash import JACCARD, WORDS, sequence_set
from scripts.corpus.similarity.signed_documents import (
    SignedSource,
    check_signed,
    documents_of,
    first_of,
    read_digests,
    rows_in_order,
    signed_sources,
)
from scripts.experiment.settings.corpus import Deduplicate

CLUSTERS = "clusters.npy"
# Of a bucket of more texts, a text is compared with one text of each cluster in it, not with all.
ALL_PAIRS = 256


@njit(cache=True)
def alike(sequences, first, second, jaccard):
    """Whether the sorted sets `sequences[first[0]:first[1]]` and the same of `second` are at least `jaccard` alike."""
    i, end, j, stop = first[0], first[1], second[0], second[1]
    sizes = end - i + stop - j
    # |A and B| >= t |A or B| is |A and B| >= t / (1 + t) (|A| + |B|); a guard against rounding at exactly the threshold
    needed = jaccard / (1 + jaccard) * sizes - 1e-9
    if min(end - i, stop - j) < needed:
        return False
    common = 0
    while i < end and j < stop:
        if sequences[i] == sequences[j]:
            common += 1
            i += 1
            j += 1
        elif sequences[i] < sequences[j]:
            i += 1
        else:
            j += 1
    return common >= needed


@njit(cache=True)
def representatives(rows, starts, members, sizes, sequences, spans, jaccard):
    """int64 [texts]: the text that stands for each one, itself if it is a representative.

    Args:
        rows: int64, for each text the rows of `members` that are this text, one text after the other.
        starts: int64 [texts + 1], where the rows of each text begin.
        members: int64, the texts of all buckets, one bucket after the other; they are numbered in the order in which
            they are taken.
        sizes: int64, how many texts each bucket has.
        sequences: uint64, the sorted sets of word sequences of all texts, one after the other.
        spans: int64 [texts, 2], where the set of each text begins and ends.
    """
    texts = len(spans)
    first, bucket_of = np.zeros(len(sizes), np.int64), np.zeros(len(members), np.int64)
    row = 0
    for bucket, size in enumerate(sizes):
        first[bucket] = row
        bucket_of[row : row + size] = bucket
        row += size
    # the representatives in each bucket, in order, in the bucket's part of one array
    known, counts = np.zeros(len(members), np.int64), np.zeros(len(sizes), np.int64)
    result, compared_with = np.arange(texts), np.full(texts, -1)
    for text in range(texts):
        best = text
        for row in rows[starts[text] : starts[text + 1]]:
            bucket = bucket_of[row]
            for old in known[first[bucket] : first[bucket] + counts[bucket]]:
                if old >= best:
                    break
                if compared_with[old] == text:
                    continue
                compared_with[old] = text
                if alike(sequences, spans[old], spans[text], jaccard):
                    best = old
                    break
        result[text] = best
        if best == text:
            for row in rows[starts[text] : starts[text + 1]]:
                bucket = bucket_of[row]
                known[first[bucket] + counts[bucket]] = text
                counts[bucket] += 1
    return result


@njit(cache=True)
def root(parents, text):
    while parents[text] != text:
        parents[text] = parents[parents[text]]
        text = parents[text]
    return text


@njit(cache=True)
def join(members, sizes, sequences, offsets, jaccard):
    """int64 [texts]: the first member of each text's cluster.

    Args:
        members: int64, the texts of all buckets, one bucket after the other.
        sizes: int64, how many texts each bucket has.
        sequences: uint64, the sorted sets of word sequences of all texts, one after the other.
        offsets: int64 [texts + 1], where the set of each text begins.
    """
    texts = len(offsets) - 1
    parents = np.arange(texts)
    refused = {np.int64(-1)}  # pairs, as one number each
    start = 0
    for size in sizes:
        bucket = members[start : start + size]
        start += size
        heads = [bucket[0]]
        for new in bucket[1:]:
            joined = False
            for old in heads:
                first, second = root(parents, old), root(parents, new)
                if first == second:
                    joined = True
                elif old * texts + new not in refused:
                    if alike(sequences, offsets[old : old + 2], offsets[new : new + 2], jaccard):
                        parents[max(first, second)] = min(first, second)
                        joined = True
                    else:
                        refused.add(old * texts + new)
            if not joined or size <= ALL_PAIRS:
                heads.append(new)
    return np.array([root(parents, text) for text in range(texts)])


def write_sequences(documents: Iterator[dict], candidates: np.ndarray, words: int, file: IO[bytes]) -> np.ndarray:
    """Write the sorted set of word sequences of each candidate to `file`, uint64.

    Args:
        candidates: int64, sorted numbers of documents.

    Returns:
        int64 [candidates + 1]: where each set begins, in sequences.
    """
    ends, remaining = [0], iter(candidates.tolist())
    candidate = next(remaining, None)
    progress = Progress("clusters", "candidates", len(candidates))
    for number, document in enumerate(documents if len(candidates) else ()):
        if number == candidate:
            sequences = sequence_set(np.frombuffer(document["text"].encode(), np.uint8), words)
            file.write(sequences.tobytes())
            ends.append(ends[-1] + len(sequences))
            progress.add()
            if (candidate := next(remaining, None)) is None:
                break
    progress.end()
    file.flush()
    return np.array(ends)


def read_buckets(folders: list[Path]) -> tuple[list[SignedSource], np.ndarray, np.ndarray]:
    """(sources, documents, sizes) of the buckets of all groups.

    Raises:
        UserError: a file is missing or differs from its manifest, or the groups are not of the same documents.
    """
    sources = signed_sources(folders[:1])
    for folder in folders[1:]:
        if signed_sources([folder]) != sources:
            raise UserError(f"{folder}: made from other documents than {folders[0]}; run scripts.corpus.buckets again")
    members = np.concatenate([np.load(folder / MEMBERS) for folder in folders])
    sizes = np.concatenate([np.load(folder / SIZES) for folder in folders])
    return sources, members, sizes


def ranks(names: list[str], sources: list[SignedSource], signatures: list[Path]) -> np.ndarray:
    """int64 [documents]: the place of each document in the order of `names`; of equal texts that of the first one."""
    first = first_of(read_digests(signatures))
    result = np.full(len(first), len(first))
    np.minimum.at(result, first[rows_in_order(names, sources)], np.arange(len(first)))
    return result[first]


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


def clusters(
    filtered: Path, names: list[str], signatures: list[Path], folders: list[Path], settings: Deduplicate, out: Path
) -> None:
    """Write the clusters of the documents of `filtered`/SOURCE for each of `names`, and last the manifest.

    Args:
        names: in the order in which their documents are taken.
        signatures: folders of the signatures of all shards.
        folders: folders of the buckets.

    Raises:
        UserError: documents, signatures or buckets are missing, differ from their manifest, or do not belong together.
    """
    sources, members, sizes = read_buckets(folders)
    check_signed(filtered, sources, names)
    if signed_sources(signatures) != sources:
        raise UserError(
            f"{signatures[0]}: not the signatures that the buckets are of; run scripts.corpus.buckets again"
        )
    candidates, texts = np.unique(members, return_inverse=True)
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=out) as file:
        documents = documents_of(filtered, [source.name for source in sources])
        ends = write_sequences(documents, candidates, WORDS, file)
        sequences = np.asarray(np.memmap(file, np.uint64, "r")) if ends[-1] else np.empty(0, np.uint64)
        if not len(candidates):
            first = candidates
        elif settings.near_duplicates:
            order = np.argsort(ranks(names, sources, signatures)[candidates])
            first = candidates[stand_ins(texts, order, sizes, sequences, ends, JACCARD)]
        else:
            first = candidates[join(texts, sizes, sequences, ends, JACCARD)]
    similar = np.stack([candidates, first], axis=1)[candidates != first]
    with atomic(out / CLUSTERS) as temporary, temporary.open("wb") as target:
        np.save(target, similar)
    logging.info(f"clusters: {len(similar):,} of {len(candidates):,} candidates are similar to another document")
    write_manifest(out, [CLUSTERS], sources=[asdict(source) for source in sources])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--filtered", type=Path, required=True, help="folder with a folder of documents per source")
    arguments.add_argument(
        "--sources", nargs="+", required=True, help="names of all sources; of similar documents the earliest stays"
    )
    arguments.add_argument("--signatures", nargs="+", type=Path, required=True, help="folders of their signatures")
    arguments.add_argument("--buckets", nargs="+", type=Path, required=True, help="folders of all groups of bands")
    arguments.add_argument("--settings", type=Deduplicate.from_json, required=True, help="corpus.deduplicate, as JSON")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the clusters")
    args = arguments.parse_args()
    clusters(args.filtered, args.sources, args.signatures, args.buckets, args.settings, args.out)


if __name__ == "__main__":
    run(main)
