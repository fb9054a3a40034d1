"""Find the documents with an equal band of their signatures, for one group of the bands: likely near-duplicates.

    python -m scripts.corpus.buckets --signatures results/corpus/signatures/0 --group 0 --groups 1 \\
        --out results/corpus/buckets/0

Group 2 of 8 takes the bands 2, 10, 18, … A bucket is all documents with one value of a band; buckets of one document
are left out, and of documents with the same text all but the first. Two files, int64: `documents.npy`, the documents of
all buckets, one bucket after the other, by their number through all shards; `sizes.npy`, how many each bucket has.

Memory holds the digests and one band: about 120 bytes a document, apart from pages of the mapped signature files.
"""

import logging
from dataclasses import asdict
from pathlib import Path

import numpy as np

from scripts.common.cli import parser, run
from scripts.common.files import atomic
from scripts.common.manifest import write_manifest
from scripts.corpus.similarity.minhash import NO_WORDS
from scripts.corpus.similarity.signed_documents import BANDS, first_of, read_digests, signed_sources

MEMBERS, SIZES = "documents.npy", "sizes.npy"


def buckets_of(band: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(members, sizes): the rows that share a value with another one, by value, and how many share each.

    Args:
        band: uint64 [documents], one band of each.
    """
    order = np.argsort(band, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], band[order][1:] != band[order][:-1]]) if len(band) else order)
    sizes = np.diff(np.append(starts, len(band)))
    shared = (sizes > 1) & (band[order][starts] != NO_WORDS)
    return order[np.repeat(shared, sizes)], sizes[shared]


def buckets(signatures: list[Path], group: int, groups: int, out: Path) -> None:
    """Write the buckets of a group of the bands, and last the manifest.

    Args:
        signatures: the folders of all shards.

    Raises:
        UserError: a file of the signatures is missing or differs from its manifest.
    """
    sources = signed_sources(signatures)
    first = first_of(read_digests(signatures))
    different = np.flatnonzero(first == np.arange(len(first)))
    shards = [np.load(folder / BANDS, mmap_mode="r") for folder in signatures]
    members, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number in range(group, shards[0].shape[1], groups):
        rows, counts = buckets_of(np.concatenate([bands[:, number] for bands in shards])[different])
        members.append(different[rows])
        sizes.append(counts)
    for name, parts in {MEMBERS: members, SIZES: sizes}.items():
        with atomic(out / name) as temporary, temporary.open("wb") as file:
            np.save(file, np.concatenate(parts))
    logging.info(
        f"buckets {out.name}: {sum(map(len, sizes)):,} of {len(first):,} documents in {len(members) - 1} bands"
    )
    write_manifest(out, [MEMBERS, SIZES], sources=[asdict(source) for source in sources])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--signatures", nargs="+", type=Path, required=True, help="folders of all signatures")
    arguments.add_argument("--group", type=int, required=True, help="which group of the bands, from 0")
    arguments.add_argument("--groups", type=int, required=True, help="how many groups there are")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the buckets")
    args = arguments.parse_args()
    buckets(args.signatures, args.group, args.groups, args.out)


if __name__ == "__main__":
    run(main)
