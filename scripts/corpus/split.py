"""Documents to train, validation and test by a hash of source and path.

    python -m scripts.corpus.split --documents results/corpus/deduplicate \\
        --settings '{"validation": 0.02, "test": 0.02}' --out results/corpus/split

A document's split depends on its own name alone: it keeps it when sources come or go and when its text changes.
The test split is cut first, so that another share for validation does not move it.
"""

import hashlib
from contextlib import ExitStack
from pathlib import Path

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import jsonl_writer, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats.funnel import DOCUMENTS

SPLITS = ["train", "validation", "test"]


def split_of(source: str, path: str, shares: dict) -> str:
    """The split of a document, by the place of its hash in [0, 1): first the share of test, then that of validation."""
    digest = hashlib.sha256(f"{source}/{path}".encode()).digest()
    place = int.from_bytes(digest[:8]) / 2**64
    if place < shares["test"]:
        return "test"
    return "validation" if place < shares["test"] + shares["validation"] else "train"


def split(folder: Path, shares: dict, out: Path) -> dict:
    """Write the documents of `folder` to one file per split in `out`; the manifest.

    Raises:
        UserError: the documents are not what their manifest says, or none is left to train on.
    """
    progress = Progress("split", "documents", read_manifest(folder)["kept"])
    counts = dict.fromkeys(SPLITS, 0)
    with ExitStack() as stack:
        write = {name: stack.enter_context(jsonl_writer(out / f"{name}.jsonl.zst")) for name in SPLITS}
        for document in read_jsonl(folder / DOCUMENTS):
            name = split_of(document["source"], document["path"], shares)
            counts[name] += 1
            write[name](document)
            progress.add()
        if not counts["train"]:
            said = f"{sum(counts.values())} documents, none left to train on"
            raise UserError(f"{folder / DOCUMENTS}: {said}; add sources, or see why corpus.filter rejects them")
    progress.end()
    return write_manifest(out, [f"{name}.jsonl.zst" for name in SPLITS], documents=counts)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--documents", type=Path, required=True)
    arguments.add_argument("--settings", type=settings, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    split(given.documents, given.settings, given.out)


if __name__ == "__main__":
    run(main)
