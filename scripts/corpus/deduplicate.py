"""Of documents with the same text, over all sources, the first stays: in the order of the sources, then of paths.

    python -m scripts.corpus.deduplicate --filtered results/corpus/filter --sources A B C \\
        --out results/corpus/deduplicate

Documents stream through. Held in memory is, per kept document, a 16-byte digest and its name: some 250 bytes.
"""

from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats.funnel import DOCUMENTS, Funnel, funnel


def deduplicate(filtered: Path, sources: list[str], result: Funnel) -> None:
    """Send the documents of `filtered`/SOURCE, for each of `sources` in order, into `result`.

    Raises:
        UserError: a source's documents are missing or not what their manifest says.
    """
    manifests = [read_manifest(filtered / source) for source in sources]
    progress = Progress("deduplicate", "documents", sum(manifest["kept"] for manifest in manifests))
    first = {}  # digest of a text -> the document that was kept for it
    for source in sources:
        for document in read_jsonl(filtered / source / DOCUMENTS):
            name = f"{document['source']}/{document['path']}"
            kept = first.setdefault(bytes.fromhex(document["sha256"][:32]), name)
            if kept is name:
                result.keep(document, len(document["text"].encode()))
            else:
                result.drop(document["path"], document["source"], document["language"], "duplicate", kept)
            progress.add()
    progress.end()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--filtered", type=Path, required=True)
    arguments.add_argument("--sources", nargs="+", required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    with funnel(given.out) as result:
        deduplicate(given.filtered, given.sources, result)


if __name__ == "__main__":
    run(main)
