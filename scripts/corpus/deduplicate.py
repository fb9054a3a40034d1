"""Remove duplicates across all sources: of equal or similar documents only the first is kept.

    python -m scripts.corpus.deduplicate --filtered results/corpus/filter --sources A B C \\
        --signatures results/corpus/signatures/0 --settings '{"jaccard": 0.7}' --out results/corpus/deduplicate

The order is that of --sources, then of paths; the workflow gives sources of high priority first, then those with a
permissive licence. Documents are similar if their sets of word sequences have a Jaccard index of at least `jaccard`:
pairs with an equal band of their signatures are candidates, which are compared exactly. Similar pairs are joined to
clusters. The first document of a cluster is kept; the rejects name it as the reason for dropping the others. With
`near_duplicates: false` all are kept, and each has the name of the first as `cluster`, so that `split` does not put
them into different splits.

Documents are streamed. Memory holds the signatures, about 360 bytes a document, and the word sequences of the
candidates, 8 bytes a word.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common.cli import UserError, parser, run
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats.funnel import DOCUMENTS, Funnel, funnel
from scripts.corpus.signatures import BANDS, DIGESTS
from scripts.corpus.similarity.clusters import clusters, sharing
from scripts.corpus.similarity.minhash import sequence_set
from scripts.experiment.settings.corpus import Deduplicate


class Signatures(NamedTuple):
    """Signatures of all documents, in the order in which duplicates are kept."""

    counts: list[int]  # documents of each source
    digests: np.ndarray  # uint8 [documents, 16]
    bands: np.ndarray  # uint64 [documents, bands]


def read_signatures(filtered: Path, sources: list[str], folders: list[Path]) -> Signatures:
    """The signatures of `sources`, in this order.

    Raises:
        UserError: documents or signatures are missing, differ from their manifest, or do not belong together.
    """
    parts = {}
    for folder in folders:
        manifest = read_manifest(folder)
        digests, bands = np.load(folder / DIGESTS), np.load(folder / BANDS)
        ends = np.cumsum([source["documents"] for source in manifest["sources"]])
        for source, end in zip(manifest["sources"], ends.tolist(), strict=True):
            rows = slice(end - source["documents"], end)
            parts[source["name"]] = (source["sha256"], digests[rows], bands[rows])
    for source in sources:
        expected = read_manifest(filtered / source)["files"][DOCUMENTS]["sha256"]
        if source not in parts or parts[source][0] != expected:
            raise UserError(
                f"{filtered / source / DOCUMENTS}: no signatures of it in {', '.join(map(str, folders))}; make"
                " them again with scripts.corpus.signatures"
            )
    _, digests, bands = zip(*(parts[source] for source in sources), strict=True)
    return Signatures([len(lengths) for lengths in digests], np.concatenate(digests), np.concatenate(bands))


def first_equal(digests: np.ndarray) -> np.ndarray:
    """int64 [documents]: index of the first document with the same text."""
    rows = np.ascontiguousarray(digests).view(np.void(digests.shape[1]).dtype).ravel()
    _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    return first[group.ravel()]


def documents_of(filtered: Path, sources: list[str]) -> Iterator[dict]:
    """The documents of all sources, in order."""
    for source in sources:
        yield from read_jsonl(filtered / source / DOCUMENTS)


def first_similar(filtered: Path, sources: list[str], signatures: Signatures, settings: Deduplicate) -> np.ndarray:
    """int64 [documents]: index of the first document of the cluster that each document is in."""
    equal = first_equal(signatures.digests)
    different = np.flatnonzero(equal == np.arange(len(equal)))
    candidates = different[sharing(signatures.bands[different])]
    sets, remaining = [], iter(candidates.tolist())
    candidate = next(remaining, None)
    for number, document in enumerate(documents_of(filtered, sources) if candidate is not None else ()):
        if number == candidate:
            sets.append(sequence_set(np.frombuffer(document["text"].encode(), np.uint8), settings.words))
            candidate = next(remaining, None)
            if candidate is None:
                break
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sets], dtype=np.int64)])
    members = np.concatenate([np.empty(0, np.uint64), *sets])
    first = np.arange(len(equal))
    if len(candidates):
        first[candidates] = candidates[clusters(signatures.bands[candidates], members, offsets, settings.jaccard)]
    return first[equal]


def deduplicate(filtered: Path, sources: list[str], folders: list[Path], settings: Deduplicate, result: Funnel) -> None:
    """Pass the documents of `filtered`/SOURCE, for each of `sources` in order, to `result`.

    Args:
        folders: folders of the signatures.

    Raises:
        UserError: documents or signatures are missing, or differ from their manifest.
    """
    signatures = read_signatures(filtered, sources, folders)
    first = first_similar(filtered, sources, signatures, settings)
    equal = first_equal(signatures.digests)
    kept = first if settings.near_duplicates else equal
    itself = np.arange(len(kept))
    # documents that others name: as the copy that is kept, or as the first of their cluster
    referenced = {*kept[kept != itself].tolist(), *first[(first != itself) & (kept == itself)].tolist()}
    names = {}
    progress = Progress("deduplicate", "documents", len(kept))
    for number, document in enumerate(documents_of(filtered, sources)):
        name = f"{document['source']}/{document['path']}"
        if kept[number] == number:
            if number in referenced:
                names[number] = name
            if first[number] in referenced and not settings.near_duplicates:
                document["cluster"] = names[int(first[number])]
            result.keep(document, len(document["text"].encode()))
        else:
            reason = "near_duplicate" if equal[number] == number else "duplicate"
            result.drop(document["path"], document["source"], document["language"], reason, names[int(kept[number])])
        progress.add()
    progress.end()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--filtered", type=Path, required=True, help="folder with a folder of documents per source")
    arguments.add_argument(
        "--sources", nargs="+", required=True, help="names; of duplicates, that of the earliest source is kept"
    )
    arguments.add_argument("--signatures", nargs="+", type=Path, required=True, help="folders of their signatures")
    arguments.add_argument("--settings", type=Deduplicate.from_json, required=True, help="corpus.deduplicate, as JSON")
    arguments.add_argument("--out", type=Path, required=True, help="folder for documents and rejects")
    args = arguments.parse_args()
    with funnel(args.out) as result:
        deduplicate(args.filtered, args.sources, args.signatures, args.settings, result)


if __name__ == "__main__":
    run(main)
