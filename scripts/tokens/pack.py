"""Tokenize a dataset and pack it into rows of exactly `--length` tokens.

    python -m scripts.tokens.pack --dataset results/corpus/compose/code --tokenizer results/tokens/tokenizer \\
        --length 512 --out results/tokens/pack/code-512

Documents longer than a row are cut into pieces and packed completely. What the tokenizer puts before a text, as
`<bos>`, stands before each piece. Chats longer than a row are left out and counted, since half a chat teaches nothing.
Of a dataset of code, a share of the training pieces becomes fill-in-the-middle
(scripts/tokens/packing/fill_in_middle.py).

Pieces are placed best-fit decreasing (Ding et al. 2024, Fewer Truncations Improve Language Modeling). Rows are shuffled
by a seed that depends only on their content.
"""

import hashlib
import logging
import os
import tempfile
from itertools import compress, islice, product
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numba import njit

from scripts.common.cli import run
from scripts.common.disk import disk_errors
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.options import command
from scripts.common.progress import Progress
from scripts.experiment.layout import PACKED_SPLITS, SHARD_FILES, split_file
from scripts.tokens.packing.fill_in_middle import PSM, SPM, FillInMiddle
from scripts.tokens.packing.shards import FIRST, TARGET
from scripts.tokens.tokenization.encoder import Encoder


@njit(cache=True)
def place(lengths, capacity):
    """Best-fit decreasing: longest piece first, each into the fullest row that still has room for it.

    Args:
        lengths: int64 [pieces], descending, none above `capacity`.
        capacity: tokens of a row.

    Returns:
        (int64 [pieces] row of each piece, int64 [pieces] its offset there, number of rows).
    """
    leaves = 1
    while leaves <= capacity:
        leaves *= 2
    # Rows by the room they have left: a stack for each size, and a binary tree of the sizes that some row has.
    has = np.zeros(2 * leaves, np.bool_)
    top = np.full(capacity + 1, -1, np.int64)
    below = np.empty(len(lengths), np.int64)
    row_of, offset_of = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
    rows = 0
    for piece in range(len(lengths)):
        # find the smallest room >= lengths[piece]: up to the first right sibling with a row, then down its left side
        node = leaves + lengths[piece]
        if not has[node]:
            while node > 1 and (node % 2 == 1 or not has[node + 1]):
                node //= 2
            if node > 1:
                node += 1
                while node < leaves:
                    node *= 2
                    if not has[node]:
                        node += 1
        if node > 1:
            room = node - leaves
            row = top[room]
            top[room] = below[row]
            if top[room] < 0:
                has[node] = False
                while node > 1 and not has[node ^ 1]:
                    node //= 2
                    has[node] = False
        else:
            room, row = capacity, rows
            rows += 1
        row_of[piece], offset_of[piece] = row, capacity - room
        room -= lengths[piece]
        below[row] = top[room]
        top[room] = row
        node = leaves + room
        while node > 0 and not has[node]:
            has[node] = True
            node //= 2
    return row_of, offset_of, rows


def pieces_of(lengths: np.ndarray, length: int, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Cut documents into pieces and place them.

    Args:
        lengths: int64 [documents], tokens of each.
        length: tokens of a row.

    Returns:
        (int64 [pieces, 4] of (row, offset, tokens, document), sorted; int64 [pieces], the index of the first token of
        each among all tokens of all documents; number of rows).
    """
    counts = -(-lengths // length)
    document = np.repeat(np.arange(len(lengths)), counts)
    within = (np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)) * length
    sizes = np.minimum(lengths[document] - within, length)
    starts = (np.cumsum(lengths) - lengths)[document] + within

    order = np.argsort(-sizes, kind="stable")
    row, offset, rows = place(sizes[order], length)
    # Placement goes from long to short; shuffled, a batch holds a mix. RandomState's stream never changes (NEP 19).
    row = np.random.RandomState(seed).permutation(rows)[row]
    pieces = np.stack([row, offset, sizes[order], document[order]], axis=1)
    by_place = np.lexsort((offset, row))
    return pieces[by_place], starts[order][by_place], rows


BATCH = 128  # examples in memory while encoding
CHUNK = 1 << 19  # tokens in memory while writing

# The spool is a temporary file of all tokens of a split. The highest bit of a token, which no vocabulary reaches, marks
# targets.
TARGET_BIT = np.uint32(1 << 31)


@njit(cache=True)
def copy_pieces(tokens, flags, pieces, spooled):
    """Copy pieces into rows that hold only padding so far.

    Args:
        tokens: uint32 [rows, length].
        flags: uint8 [rows, length].
        pieces: int64 [pieces, 3] of (row, offset, tokens), rows counted from the first row of `tokens`.
        spooled: uint32 [tokens of all pieces], with the TARGET_BIT on targets.
    """
    start = 0
    for piece in range(len(pieces)):
        row, offset, count = pieces[piece]
        for k in range(count):
            token = spooled[start + k]
            tokens[row, offset + k] = token & ~TARGET_BIT
            flags[row, offset + k] = TARGET if token & TARGET_BIT else 0
        flags[row, offset] = FIRST  # no target, since its context is in another row or does not exist
        start += count


def read_pieces(spool: BinaryIO, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The tokens of some pieces, one after the other: uint32 [sum of counts].

    Read, not mapped: the kernel maps far more around each piece than it holds.

    Args:
        starts: int64 [pieces], the index in the spool where each begins.
    """
    tokens = np.empty(counts.sum(), np.uint32)
    room, at = memoryview(tokens).cast("B"), 0
    for start, size in zip((starts * 4).tolist(), (counts * 4).tolist(), strict=True):
        if os.preadv(spool.fileno(), [room[at : at + size]], start) != size:
            raise OSError("the temporary file of tokens is shorter than what was written to it")
        at += size
    return tokens


class SpooledSplit(NamedTuple):
    """Facts about a split whose tokens are in the spool, as units: documents, or the pieces of one already cut."""

    lengths: np.ndarray  # int64 [units], tokens of each
    documents: np.ndarray  # int64 [units], the number of the document of each
    counts: dict[str, int]  # targets, too_long, refused (chats left out), fim, fim_spm, fim_outgrown (pieces)
    seed: int  # a hash of the tokens


class Units(NamedTuple):
    """What a batch of examples becomes in the spool."""

    tokens: np.ndarray  # uint32 [tokens], with the TARGET_BIT on targets
    sizes: np.ndarray  # int64 [units], tokens of each
    documents: np.ndarray  # int64 [units], the number of the document of each among those kept
    kept: np.ndarray  # bool [examples]
    counts: dict[str, int]


def units_of(batch: list[dict], encoder: Encoder, length: int, fill: FillInMiddle | None) -> Units:
    """Encode a batch of examples; with `fill` as pieces, else as whole documents without chats that are too long."""
    encoded = encoder.encode(batch)
    if fill:
        pieces = fill.pieces(encoded)
        tokens, kept = pieces.ids | TARGET_BIT, np.ones(len(batch), bool)
        tokens[pieces.offsets[:-1]] &= ~TARGET_BIT
        fim, spm = (int(np.count_nonzero(pieces.kinds >= kind)) for kind in (PSM, SPM))
        counts = {"fim": fim, "fim_spm": spm, "fim_outgrown": pieces.outgrown}
        return Units(tokens, np.diff(pieces.offsets), pieces.documents, kept, counts)
    sizes = np.diff(encoded.offsets)
    kept = np.array([size <= length or "messages" not in record for record, size in zip(batch, sizes, strict=True)])
    tokens = np.where(encoded.targets, encoded.ids | TARGET_BIT, encoded.ids)[np.repeat(kept, sizes)]
    counts = {"too_long": int(np.count_nonzero(~kept))}
    sizes, documents = sizes[kept], np.arange(np.count_nonzero(kept))
    if encoder.lead and (sizes > length).any():
        tokens, sizes, documents = cut_behind_lead(tokens, sizes, np.array(encoder.lead, np.uint32), length)
    return Units(tokens, sizes, documents, kept, counts)


def cut_behind_lead(
    tokens: np.ndarray, sizes: np.ndarray, lead: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut documents that are longer than a row into pieces that all begin with `lead`, as the documents do.

    A model such as Gemma predicts badly without its first token: on real code its loss was 2.9 instead of 2.2.

    Returns:
        uint32 [tokens], int64 [pieces] the tokens of each piece, int64 [pieces] the number of its document.
    """
    parts, documents = [], []
    step = length - len(lead)
    for document, (end, size) in enumerate(zip(np.cumsum(sizes), sizes, strict=True)):
        whole = tokens[end - size : end]
        if size <= length:
            parts.append(whole)
            documents.append(document)
            continue
        text = whole[len(lead) :]
        for start in range(0, len(text), step):
            parts.append(np.concatenate([lead, text[start : start + step]]))
            documents.append(document)
    return np.concatenate(parts), np.array([len(part) for part in parts], np.int64), np.array(documents, np.int64)


def encode_to_spool(
    path: Path, encoder: Encoder, length: int, fill: FillInMiddle | None, spool: BinaryIO, names: BinaryIO
) -> SpooledSplit:
    """Encode the examples of `path` into `spool`, uint32 with the TARGET_BIT on targets, and their ids into `names`."""
    digest, lengths, documents, named = hashlib.sha256(), [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    counts = dict.fromkeys(("targets", "too_long", "refused", "fim", "fim_spm", "fim_outgrown"), 0)
    records, label = read_jsonl(path), f"pack {path.parent.name} {path.name.partition('.')[0]}"
    progress = Progress(label, "tokens")
    while read := list(islice(records, BATCH)):
        try:
            batch = encoder.accepted(read, label)
            counts["refused"] += len(read) - len(batch)
            if not batch:
                continue
            units = units_of(batch, encoder, length, fill)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        digest.update(units.tokens)
        spool.write(units.tokens)
        lengths.append(units.sizes)
        documents.append(named + units.documents)
        named += np.count_nonzero(units.kept)
        for name, count in units.counts.items():
            counts[name] += count
        counts["targets"] += int(np.count_nonzero(units.tokens & TARGET_BIT))
        for record in compress(batch, units.kept):
            # one id a line, even if a path holds a line end
            names.write(str(record["id"]).replace("\n", "\\n").encode() + b"\n")
        progress.add(len(units.tokens))
    progress.end()
    if encoder.spelled_controls:
        logging.info(f"{label}: {encoder.spelled_controls:,} chats spell a control token in a message: it stays text")
        encoder.spelled_controls = 0
    spool.flush()
    seed = int.from_bytes(digest.digest()[:4])
    return SpooledSplit(np.concatenate(lengths), np.concatenate(documents), counts, seed)


def pack_split(
    path: Path, encoder: Encoder, length: int, fill: FillInMiddle | None, out: Path, split: str
) -> dict[str, int]:
    """Write the four files of one split; returns its counts."""
    out.mkdir(parents=True, exist_ok=True)
    with disk_errors(out), tempfile.TemporaryFile(dir=out) as spool:
        with atomic(out / f"{split}.documents.txt") as temporary, temporary.open("wb") as names:
            lengths, documents, spooled, seed = encode_to_spool(path, encoder, length, fill, spool, names)
            if split == "train" and not spooled["targets"]:
                longer, refused = spooled["too_long"], spooled["refused"]
                why = f"{longer:,} chats are longer" + f", {refused:,} refused by the chat template" * bool(refused)
                raise UserError(f"{path}: no targets to train on in rows of {length} tokens; {why}")
        pieces, starts, rows = pieces_of(lengths, length, seed)
        pieces[:, 3] = documents[pieces[:, 3]]
        targets = largest = 0
        with (
            atomic(out / f"{split}.tokens.bin") as tokens_path,
            atomic(out / f"{split}.flags.bin") as flags_path,
            tokens_path.open("wb") as tokens_file,
            flags_path.open("wb") as flags_file,
        ):
            step = max(1, CHUNK // length)
            for first in range(0, rows, step):
                last = min(first + step, rows)
                of_chunk = slice(*np.searchsorted(pieces[:, 0], [first, last]))
                tokens = np.full((last - first, length), encoder.pad, np.uint32)
                flags = np.zeros((last - first, length), np.uint8)
                spooled_tokens = read_pieces(spool, starts[of_chunk], pieces[of_chunk, 2])
                copy_pieces(tokens, flags, pieces[of_chunk, :3] - [first, 0, 0], spooled_tokens)
                # padding follows the last piece of a row and counts as a piece of its own
                used = np.zeros(last - first, np.int64)
                np.add.at(used, pieces[of_chunk, 0] - first, pieces[of_chunk, 2])
                padded = np.flatnonzero(used < length)
                flags[padded, used[padded]] = FIRST
                targets += int(np.count_nonzero(flags & TARGET))
                largest = max(largest, int(tokens.max()))
                tokens_file.write(tokens)
                flags_file.write(flags)
        with atomic(out / f"{split}.pieces.npy") as temporary, temporary.open("wb") as file:
            np.save(file, pieces.astype(np.int32))
    tokens = int(lengths.sum())
    counts = {
        **spooled,
        "rows": rows,
        "pieces": len(pieces),
        "documents": int(documents[-1]) + 1 if len(documents) else 0,
        "tokens": tokens,
        "targets": targets,
        "padding": rows * length - tokens,
        "largest_id": largest,
    }
    logging.info(f"pack {out.name} {split}: {rows:,} rows, {counts['padding'] / max(rows * length, 1):.2%} padding")
    return counts


def pack(dataset: Path, tokenizer: Path, length: int, out: Path) -> dict:
    """Pack the train and validation splits of `dataset` into `out`; returns the manifest. Raises UserError: `length` is
    below 2, files differ from their manifest, or no targets are left to train on."""
    if length < 2:
        raise UserError(f"--length: {length}: must be at least 2, one token to read and one to predict")
    fim = read_manifest(dataset).get("fim")
    read_manifest(tokenizer)
    encoder = Encoder(tokenizer)
    if length < len(encoder.lead) + 2:
        raise UserError(f"--length: {length}: must be at least {len(encoder.lead) + 2} with this tokenizer")
    fill = None
    if fim and fim["rate"]:
        fill = FillInMiddle(encoder, length, **fim)
    splits = {}
    for split in PACKED_SPLITS:
        split_fill = fill if split == "train" else None  # a validation loss is one of plain text
        splits[split] = pack_split(split_file(dataset, split), encoder, length, split_fill, out, split)
    names = list(map(".".join, product(PACKED_SPLITS, SHARD_FILES)))
    # what a model that learned from these rows writes at the end of a text or an answer, so where generation stops
    ends = [*sorted(encoder.chats.turn_ends - {encoder.end}), encoder.end]
    return write_manifest(out, names, length=length, vocab_size=encoder.vocab_size, end_tokens=ends, splits=splits)


if __name__ == "__main__":
    run(command(pack))
