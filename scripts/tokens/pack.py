"""Tokenize a dataset and pack it into rows of exactly `--length` tokens.

    python -m scripts.tokens.pack --dataset results/corpus/compose/code --tokenizer results/tokens/tokenizer \\
        --length 512 --out results/tokens/pack/code-512

Documents longer than a row are cut into pieces and nothing of them is lost; chats longer than a row are left out and
counted, since half a chat teaches nothing. Pieces are placed best-fit decreasing (Ding et al. 2024, Fewer Truncations
Improve Language Modeling). Rows come in a random order that depends on their content alone.
"""

import hashlib
import logging
import tempfile
from itertools import compress, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numba import njit

from scripts.common.cli import UserError, parser, run
from scripts.common.files import atomic, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.tokens.packing.encoder import Encoder
from scripts.tokens.packing.placement import pieces_of
from scripts.tokens.packing.shards import FILES, FIRST, TARGET

SPLITS = ["train", "validation"]

# Held in memory at a time: examples while encoding, tokens while writing.
BATCH = 1024
CHUNK = 1 << 23

# In the spool, the highest bit of a token says that it is a target; no vocabulary comes near it.
MARK = np.uint32(1 << 31)


@njit(cache=True)
def fill(tokens, flags, pieces, starts, spool):
    """Copy pieces out of the spool into rows that hold only padding.

    Args:
        tokens: uint32 [rows, length].
        flags: uint8 [rows, length].
        pieces: int64 [pieces, 3] of (row, offset, tokens), rows counted from the first row of `tokens`.
        starts: int64 [pieces] where each begins in the spool.
        spool: uint32 [all tokens], the highest bit marking targets.
    """
    for piece in range(len(pieces)):
        row, offset, count = pieces[piece]
        for k in range(count):
            token = spool[starts[piece] + k]
            tokens[row, offset + k] = token & ~MARK
            flags[row, offset + k] = TARGET if token & MARK else 0
        flags[row, offset] = FIRST  # its context is in another row or nowhere: no target


class Spooled(NamedTuple):
    """What is known of a split once its tokens lie in the spool."""

    lengths: np.ndarray  # int64 [documents] tokens of each
    too_long: int  # chats left out
    targets: int
    seed: int  # made from the tokens


def spooled(path: Path, encoder: Encoder, length: int, spool: BinaryIO, names: BinaryIO) -> Spooled:
    """Encode the examples of `path` into `spool`, uint32 with the MARK on targets, and their ids into `names`.

    Raises:
        UserError: the file cannot be read, or an example is malformed; the line tells which.
    """
    progress = Progress(f"pack {path.parent.name} {path.name.partition('.')[0]}", "tokens")
    digest, lengths, too_long, targets = hashlib.sha256(), [np.empty(0, np.int64)], 0, 0
    records = read_jsonl(path)
    while batch := list(islice(records, BATCH)):
        try:
            encoded = encoder.encode(batch)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        sizes = np.diff(encoded.offsets)
        kept = np.array([size <= length or "messages" not in record for record, size in zip(batch, sizes, strict=True)])
        marked = np.where(encoded.targets, encoded.ids | MARK, encoded.ids)[np.repeat(kept, sizes)]
        digest.update(marked)
        spool.write(marked)
        lengths.append(sizes[kept])
        too_long += int(np.count_nonzero(~kept))
        targets += int(np.count_nonzero(marked & MARK))
        for record in compress(batch, kept):
            # one id a line, also where a path holds a line end
            names.write(str(record["id"]).replace("\n", "\\n").encode() + b"\n")
        progress.add(len(marked))
    progress.end()
    spool.flush()
    return Spooled(np.concatenate(lengths), too_long, targets, int.from_bytes(digest.digest()[:4]))


def pack_split(path: Path, encoder: Encoder, length: int, out: Path, split: str) -> dict:
    """Write the four files of one split and return its counts."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out) as spool:
        with atomic(out / f"{split}.documents.txt") as temporary, temporary.open("wb") as names:
            lengths, too_long, targets, seed = spooled(path, encoder, length, spool, names)
            if split == "train" and not targets:
                raise UserError(
                    f"{path}: nothing to train on in rows of {length} tokens; {too_long:,} chats are longer"
                )
        pieces, starts, rows = pieces_of(lengths, length, seed)
        source = np.asarray(np.memmap(spool, np.uint32, "r")) if len(lengths) else np.empty(0, np.uint32)
        targets = 0
        with (
            atomic(out / f"{split}.tokens.bin") as tokens_path,
            atomic(out / f"{split}.flags.bin") as flags_path,
            tokens_path.open("wb") as tokens_file,
            flags_path.open("wb") as flags_file,
        ):
            step = max(1, CHUNK // length)
            for first in range(0, rows, step):
                last = min(first + step, rows)
                here = slice(*np.searchsorted(pieces[:, 0], [first, last]))
                tokens = np.full((last - first, length), encoder.end, np.uint32)
                flags = np.zeros((last - first, length), np.uint8)
                fill(tokens, flags, pieces[here, :3] - [first, 0, 0], starts[here], source)
                # padding follows the last piece of a row and starts afresh
                used = np.zeros(last - first, np.int64)
                np.add.at(used, pieces[here, 0] - first, pieces[here, 2])
                padded = np.flatnonzero(used < length)
                flags[padded, used[padded]] = FIRST
                targets += int(np.count_nonzero(flags & TARGET))
                tokens_file.write(tokens)
                flags_file.write(flags)
        with atomic(out / f"{split}.pieces.npy") as temporary, temporary.open("wb") as file:
            np.save(file, pieces.astype(np.int32))
    tokens = int(lengths.sum())
    counts = {
        "rows": rows,
        "pieces": len(pieces),
        "documents": len(lengths),
        "tokens": tokens,
        "targets": targets,
        "padding": rows * length - tokens,
        "too_long": too_long,
    }
    logging.info(f"pack {out.name} {split}: {rows:,} rows, {counts['padding'] / max(rows * length, 1):.2%} padding")
    return counts


def pack(dataset: Path, tokenizer: Path, length: int, out: Path) -> dict:
    """Pack the training and validation examples of `dataset` into `out` and return its manifest.

    Raises:
        UserError: `length` is below 2, files are not what their manifest says, or nothing is left to train on.
    """
    if length < 2:
        raise UserError(f"--length: {length}: a row needs 2 tokens, one to read and one to predict")
    read_manifest(dataset)
    read_manifest(tokenizer)
    encoder = Encoder(tokenizer)
    splits = {}
    for split in SPLITS:
        splits[split] = pack_split(dataset / f"{split}.jsonl.zst", encoder, length, out, split)
    names = [f"{split}.{file}" for split in SPLITS for file in FILES]
    return write_manifest(out, names, length=length, vocab_size=encoder.vocab_size, splits=splits)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--dataset", type=Path, required=True)
    arguments.add_argument("--tokenizer", type=Path, required=True)
    arguments.add_argument("--length", type=int, required=True, help="tokens of a row")
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    pack(given.dataset, given.tokenizer, given.length, given.out)


if __name__ == "__main__":
    run(main)
