"""Compute the signatures by which equal and similar documents are found, for one shard of the sources.

    python -m scripts.corpus.signatures --filtered results/corpus/filter --sources A B C \\
        --out results/corpus/signatures/0

Each document has one row in two files: `digests.npy`, uint8 [documents, 16], the first bytes of the sha256 of its text,
and `bands.npy`, uint64 [documents, bands], see scripts/corpus/similarity/minhash.py. The manifest names the sources in
the order of the rows, with their numbers of documents. Thanks to the shards a changed source changes few signatures,
and ten thousand sources need only some hundred jobs.
"""

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.options import command
from scripts.common.progress import Progress
from scripts.corpus.formats.filter_writer import DOCUMENTS
from scripts.corpus.similarity.minhash import JACCARD, WORDS, bands_of, coefficients, sketch

BATCH = 1024  # documents in memory
PERMUTATIONS = 256  # of MinHash
RECALL = 0.99  # the share of the pairs with a similarity of exactly JACCARD that it finds
DIGEST_BYTES = 16  # of the sha256; two of 10^12 texts agree in them with a probability of 10^-15
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


def batch_bands(texts: list[bytes]) -> np.ndarray:
    """The bands of texts, uint64 [texts, bands]."""
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)])
    plan = bands_of(PERMUTATIONS, JACCARD, RECALL)
    text = np.frombuffer(b"".join(texts), np.uint8)
    return sketch(text, offsets, WORDS, *coefficients(PERMUTATIONS), *plan)


def signatures(filtered: Path, sources: list[str], out: Path) -> dict:
    """Write the signatures of the documents of `filtered`/SOURCE for each of `sources`; returns the manifest. Raises
    UserError: a source's documents are missing or differ from their manifest."""
    manifests = {source: read_manifest(filtered / source) for source in sources}
    progress = Progress(f"signatures {out.name}", "documents", sum(manifest["kept"] for manifest in manifests.values()))
    digests, bands = [np.zeros((0, DIGEST_BYTES), np.uint8)], [batch_bands([])]
    for source in sources:
        documents = read_jsonl(filtered / source / DOCUMENTS)
        while batch := list(islice(documents, BATCH)):
            digest_bytes = b"".join(bytes.fromhex(document["sha256"][: 2 * DIGEST_BYTES]) for document in batch)
            digests.append(np.frombuffer(digest_bytes, np.uint8).reshape(-1, DIGEST_BYTES))
            bands.append(batch_bands([document["text"].encode() for document in batch]))
            progress.add(len(batch))
    progress.end()
    for name, parts in {DIGESTS: digests, BANDS: bands}.items():
        with atomic(out / name) as temporary, temporary.open("wb") as file:
            np.save(file, np.asfortranarray(np.concatenate(parts)))  # so that one band is read alone
    shape = f"{sum(map(len, bands)):,} documents, {bands[0].shape[1]} bands"
    logging.info(f"signatures {out.name}: {shape}")
    signed_sources = [
        asdict(SignedSource(source, manifest["kept"], manifest["files"][DOCUMENTS]["sha256"]))
        for source, manifest in manifests.items()
    ]
    return write_manifest(out, [DIGESTS, BANDS], sources=signed_sources)


if __name__ == "__main__":
    run(command(signatures))
