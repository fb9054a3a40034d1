"""Compare the documents of each bucket exactly, and join similar ones to clusters.

    python -m scripts.corpus.clusters --filtered results/corpus/filter --sources A B C \\
        --buckets results/corpus/buckets/0 --settings '{"jaccard": 0.7}' --out results/corpus/clusters

Documents are similar if their sets of word sequences have a Jaccard index of at least `jaccard`. Similar pairs are
joined to clusters, directly or through others. `clusters.npy`, int64 [documents, 2]: of each document that is in a
cluster, but not its first, its number and that of the first one. Numbers run through all shards of the signatures, so
the order in which duplicates are kept changes nothing here.

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
from scripts.corpus.similarity.minhash import sequence_set
from scripts.corpus.similarity.signed_documents import SignedSource, check_signed, documents_of, signed_sources
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


def clusters(filtered: Path, names: list[str], folders: list[Path], settings: Deduplicate, out: Path) -> None:
    """Write the clusters of the documents of `filtered`/SOURCE for each of `names`, and last the manifest.

    Args:
        folders: folders of the buckets.

    Raises:
        UserError: documents or buckets are missing, differ from their manifest, or do not belong together.
    """
    sources, members, sizes = read_buckets(folders)
    check_signed(filtered, sources, names)
    candidates, texts = np.unique(members, return_inverse=True)
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=out) as file:
        documents = documents_of(filtered, [source.name for source in sources])
        ends = write_sequences(documents, candidates, settings.words, file)
        sequences = np.asarray(np.memmap(file, np.uint64, "r")) if ends[-1] else np.empty(0, np.uint64)
        first = candidates[join(texts, sizes, sequences, ends, settings.jaccard)] if len(candidates) else candidates
    similar = np.stack([candidates, first], axis=1)[candidates != first]
    with atomic(out / CLUSTERS) as temporary, temporary.open("wb") as target:
        np.save(target, similar)
    logging.info(f"clusters: {len(similar):,} of {len(candidates):,} candidates are similar to an earlier document")
    write_manifest(out, [CLUSTERS], sources=[asdict(source) for source in sources])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--filtered", type=Path, required=True, help="folder with a folder of documents per source")
    arguments.add_argument("--sources", nargs="+", required=True, help="names of all sources")
    arguments.add_argument("--buckets", nargs="+", type=Path, required=True, help="folders of all groups of bands")
    arguments.add_argument("--settings", type=Deduplicate.from_json, required=True, help="corpus.deduplicate, as JSON")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the clusters")
    args = arguments.parse_args()
    clusters(args.filtered, args.sources, args.buckets, args.settings, args.out)


if __name__ == "__main__":
    run(main)
