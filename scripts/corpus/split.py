"""Split documents into train, validation and test by a hash of source and path.

    python -m scripts.corpus.split --documents results/corpus/deduplicate \\
        --settings '{"validation": 0.02, "test": 0.02}' --out results/corpus/split

The split depends only on the document's source and path, so it stays the same when sources are added or removed, or
when the text changes.
"""

import hashlib
from contextlib import ExitStack
from pathlib import Path

from scripts.common.cli import UserError, parser, run
from scripts.common.files import jsonl_writer, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats.funnel import DOCUMENTS
from scripts.corpus.formats.splits import split_of
from scripts.experiment.layout import SPLITS, split_file
from scripts.experiment.settings.corpus import Split


def document_split(source: str, path: str, settings: Split) -> str:
    """The split of the document at `path` of `source`."""
    return split_of(hashlib.sha256(f"{source}/{path}".encode()).digest(), settings)


def split(folder: Path, settings: Split, out: Path) -> dict:
    """Write the documents in `folder` to one file per split in `out`; returns the manifest.

    Raises:
        UserError: the documents differ from their manifest, or none is left for training.
    """
    progress = Progress("split", "documents", read_manifest(folder)["kept"])
    counts = dict.fromkeys(SPLITS, 0)
    with ExitStack() as stack:
        write = {name: stack.enter_context(jsonl_writer(split_file(out, name))) for name in SPLITS}
        for document in read_jsonl(folder / DOCUMENTS):
            name = document_split(document["source"], document["path"], settings)
            counts[name] += 1
            write[name](document)
            progress.add()
        if not counts["train"]:
            raise UserError(
                f"{folder / DOCUMENTS}: {sum(counts.values())} documents, none left to train on; add sources, or check"
                " in rejects.jsonl.zst why corpus.filter drops their files"
            )
    progress.end()
    return write_manifest(out, [split_file(out, name).name for name in SPLITS], documents=counts)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--documents", type=Path, required=True, help="folder of the deduplicated documents")
    arguments.add_argument("--settings", type=Split.from_json, required=True, help="corpus.split, as JSON")
    arguments.add_argument("--out", type=Path, required=True, help="folder for a file per split")
    given = arguments.parse_args()
    split(given.documents, given.settings, given.out)


if __name__ == "__main__":
    run(main)
