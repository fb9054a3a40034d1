"""The documents that signatures were computed of, numbered through all shards, and the digests of their texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.formats.filter_writer import DOCUMENTS

DIGESTS, BANDS = "digests.npy", "bands.npy"


@dataclass(frozen=True)
class SignedSource:
    """A source whose documents have signatures.

    Attributes:
        documents: how many.
        sha256: of the file of documents.
    """

    name: str
    documents: int
    sha256: str


def signed_sources(folders: list[Path]) -> list[SignedSource]:
    """The sources of the signatures in `folders`, in the order of the documents' numbers. Raises UserError: a file is
    missing or differs from its manifest."""
    found = []
    for folder in folders:
        for source in read_manifest(folder)["sources"]:
            found.append(SignedSource(**source))
    return found


def check_signed(filtered: Path, sources: list[SignedSource], names: list[str]) -> None:
    """Compare the documents below `filtered` with those that the signatures are of. Raises UserError: the sources are
    not those of `names`, or a source has other documents now."""
    known = {source.name: source.sha256 for source in sources}
    for name in names:
        if known.pop(name, None) != read_manifest(filtered / name)["files"][DOCUMENTS]["sha256"]:
            raise UserError(f"{filtered / name / DOCUMENTS}: no signatures of it; run scripts.corpus.signatures again")
    if known:
        raise UserError(
            f"signatures of {', '.join(known)}, which --sources does not name; run scripts.corpus.signatures again"
        )


def read_digests(folders: list[Path]) -> np.ndarray:
    """uint8 [documents, 16]: the first bytes of the sha256 of each text."""
    return np.concatenate([np.load(folder / DIGESTS) for folder in folders])


def rows_in_order(names: list[str], sources: list[SignedSource]) -> np.ndarray:
    """int64 [documents]: the numbers of all documents in the order of `names`, then of paths."""
    ends = np.cumsum([0, *(source.documents for source in sources)])
    rows = {source.name: np.arange(*ends[at : at + 2]) for at, source in enumerate(sources)}
    return np.concatenate([rows[name] for name in names])


def first_of(labels: np.ndarray) -> np.ndarray:
    """int64 [rows]: the index of the first row that is equal to each one; `labels` has one or two dimensions."""
    if labels.ndim == 2:
        labels = np.ascontiguousarray(labels).view(np.void(labels.shape[1] * labels.itemsize)).ravel()
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    return first[group]


def documents_of(filtered: Path, sources: list[str]) -> Iterator[dict]:
    """The documents of all sources, in order."""
    for source in sources:
        yield from read_jsonl(filtered / source / DOCUMENTS)
