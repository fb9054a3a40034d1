"""Remove duplicates across all sources: of equal or similar documents only the first is kept.

    python -m scripts.corpus.deduplicate --filtered results/corpus/filter --sources A B C \\
        --signatures results/corpus/signatures/0 --clusters results/corpus/clusters --settings '{}' \\
        --out results/corpus/deduplicate

The order is that of --sources, then of paths; the workflow gives sources of high priority first, then those with a
permissive licence. A document that another one stands for (see scripts/corpus/clusters.py) is dropped, and the rejects
name the other, which is kept and similar to it. With `near_duplicates: false` all are kept, and each has the name of
the first of its cluster as `cluster`, so that `split` does not put them into different splits.

Documents are streamed. Memory holds about 100 bytes a document.
"""

from pathlib import Path

import numpy as np

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.progress import Progress
from scripts.corpus.clusters import CLUSTERS
from scripts.corpus.formats.filter_writer import FilterWriter, funnel
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


def first_copies(
    names: list[str], sources: list[SignedSource], signatures: list[Path], clusters: Path
) -> tuple[np.ndarray, np.ndarray]:
    """(equal, similar), int64 [documents] each: the first document with the same text, and the first of the cluster.

    Documents are numbered in the order of `names`.

    Args:
        sources: those of the signatures.

    Raises:
        UserError: the clusters are of other documents than the signatures.
    """
    if signed_sources([clusters]) != sources:
        raise UserError(f"{clusters}: made from other documents than the signatures; run scripts.corpus.clusters again")
    order = rows_in_order(names, sources)
    text, pairs = first_of(read_digests(signatures)), np.load(clusters / CLUSTERS)
    cluster = np.arange(len(text))
    cluster[pairs[:, 0]] = pairs[:, 1]
    return first_of(text[order]), first_of(cluster[text][order])


def deduplicate(
    filtered: Path,
    sources: list[str],
    signatures: list[Path],
    clusters: Path,
    settings: Deduplicate,
    result: FilterWriter,
) -> None:
    """Pass the documents of `filtered`/SOURCE, for each of `sources` in order, to `result`.

    Args:
        signatures: folders of the signatures of all shards.
        clusters: folder of the clusters.

    Raises:
        UserError: documents, signatures or clusters are missing, differ from their manifest, or do not belong together.
    """
    signed = signed_sources(signatures)
    check_signed(filtered, signed, sources)
    equal, first = first_copies(sources, signed, signatures, clusters)
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
            place, size = [document[key] for key in ("path", "source", "language")], len(document["text"].encode())
            result.drop(*place, reason, names[int(kept[number])], size)
        progress.add()
    progress.end()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--filtered", type=Path, required=True, help="folder with a folder of documents per source")
    arguments.add_argument(
        "--sources", nargs="+", required=True, help="names; of duplicates, that of the earliest source is kept"
    )
    arguments.add_argument("--signatures", nargs="+", type=Path, required=True, help="folders of their signatures")
    arguments.add_argument("--clusters", type=Path, required=True, help="folder of their clusters")
    arguments.add_argument("--settings", type=Deduplicate.from_json, required=True, help="corpus.deduplicate, as JSON")
    arguments.add_argument("--out", type=Path, required=True, help="folder for documents and rejects")
    args = arguments.parse_args()
    with funnel(args.out) as result:
        deduplicate(args.filtered, args.sources, args.signatures, args.clusters, args.settings, result)


if __name__ == "__main__":
    run(main)
