"""Remove exact duplicates across all sources: of documents with equal text the first is kept.

    python -m scripts.corpus.deduplicate --filtered results/corpus/filter --sources A B C \\
        --out results/corpus/deduplicate

The order is that of --sources, then of paths. Documents are streamed; memory holds a 16-byte digest and the name of
each kept document, about 250 bytes.
"""

from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats.funnel import DOCUMENTS, Funnel, funnel


def deduplicate(filtered: Path, sources: list[str], result: Funnel) -> None:
    """Pass the documents of `filtered`/SOURCE, for each of `sources` in order, to `result`.

    Raises:
        UserError: a source's documents are missing or differ from their manifest.
    """
    manifests = [read_manifest(filtered / source) for source in sources]
    progress = Progress("deduplicate", "documents", sum(manifest["kept"] for manifest in manifests))
    first_with = {}  # digest of a text -> name of the document that was kept for it
    for source in sources:
        for document in read_jsonl(filtered / source / DOCUMENTS):
            name = f"{document['source']}/{document['path']}"
            kept = first_with.setdefault(bytes.fromhex(document["sha256"][:32]), name)
            if kept is name:
                result.keep(document, len(document["text"].encode()))
            else:
                result.drop(document["path"], document["source"], document["language"], "duplicate", kept)
            progress.add()
    progress.end()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--filtered", type=Path, required=True, help="folder with a folder of documents per source")
    arguments.add_argument(
        "--sources", nargs="+", required=True, help="names; of duplicates the earliest source's stays"
    )
    arguments.add_argument("--out", type=Path, required=True, help="folder for documents and rejects")
    given = arguments.parse_args()
    with funnel(given.out) as result:
        deduplicate(given.filtered, given.sources, result)


if __name__ == "__main__":
    run(main)
