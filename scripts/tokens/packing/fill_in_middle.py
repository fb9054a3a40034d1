"""Fill-in-the-middle (FIM) of packed pieces, so that each such piece is whole in one row.

    fill = FillInMiddle(encoder, length=512, rate=0.5, spm_rate=0.5, seed=42)
    pieces = fill.pieces(encoder.encode([{"text": "def main():\\n    pass\\n"}]))

This is the context-level FIM of Bavarian et al. 2022 (Efficient Training of Language Models to Fill in the Middle,
section 4.5): documents are cut into pieces first, then each piece is drawn. A piece has two split points, uniform over
its characters, and becomes, in the tokens of Qwen2.5-Coder (technical report, figure 3) or the tokenizer's own,

- PSM: `<|fim_prefix|>` prefix `<|fim_suffix|>` suffix `<|fim_middle|>` middle `<|endoftext|>`, or
- SPM, for a share `spm_rate` of them (the paper's variant for training on both):
  `<|fim_prefix|>` `<|fim_suffix|>` suffix `<|fim_middle|>` prefix middle `<|endoftext|>`.

What the tokenizer puts before a text, as `<bos>`, stands before each piece. The three parts are encoded one by
one, as a prompt is. A piece that was not drawn, or that outgrows the row because its
parts need more tokens than the whole, keeps the tokens of the text. Draws depend on the seed, the document's tokens and
the number of the piece.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from scripts.common.splitmix64 import FIRST_MIX, GOLDEN, SECOND_MIX, U64, mixed
from scripts.tokens.tokenization.encoder import Encoded, Encoder

PLAIN, PSM, SPM = 0, 1, 2
CONTROLS = 4  # tokens that a piece has beside its text
# What a row keeps free for parts that need more tokens than the whole. At 6, 0.4% of the drawn pieces outgrow their row
# and 0.4% of all tokens are padding (docs/DECISIONS.md).
SPARE = 6


@njit(cache=True)
def uniform(value):
    """A number in [0, 1) out of 64 bits."""
    return (mixed(value) >> U64(11)) * 2.0**-53


@njit(cache=True)
def cut(ids, offsets, lead, begins_character, length, room, rate, spm_rate, seed):
    """Cut documents into pieces at the beginnings of characters, and draw what each becomes.

    Args:
        ids: uint32 [tokens]; the last token of each document is the end of text.
        offsets: int64 [documents + 1].
        lead: tokens before the text of each document.
        begins_character: bool [vocabulary], whether a token's first byte begins a character.
        length: tokens of a row.
        room: most tokens of text of a FIM piece; 0 if none fits.

    Returns:
        int64 [pieces, 4] of (first token, token after the last, document, PLAIN, PSM or SPM), uint64 [pieces, 2] random
        bits for the split points. No piece has the first tokens of a document; a plain piece at its end has the end of
        text, a FIM piece has not.
    """
    shortest = max(1, (min(room, length - 1 - lead) if room else length - 1 - lead) - 3)
    max_pieces = len(offsets) + len(ids) // shortest
    pieces, points = np.empty((max_pieces, 4), np.int64), np.empty((max_pieces, 2), np.uint64)
    count = 0
    for document in range(len(offsets) - 1):
        at, end = offsets[document] + lead, offsets[document + 1] - 1  # without the end of text
        state = seed
        for k in range(at, end):
            state = (state ^ U64(ids[k])) * FIRST_MIX
            state ^= state >> U64(32)
        while True:
            left = end - at
            kind = PLAIN
            state += GOLDEN
            if room and left and uniform(state) < rate:
                kind = SPM if uniform(state + FIRST_MIX) < spm_rate else PSM
            if kind:
                take = min(left, room)
            elif left < length - lead:
                take = left
            else:
                take = min(length - lead, left - 1)  # leaves one token of text for the end of text to follow
            if take < left:
                for back in range(min(4, take)):
                    if begins_character[ids[at + take - back]]:
                        take -= back
                        break
                else:
                    kind = PLAIN
            if left and not begins_character[ids[at]]:
                kind = PLAIN
            last = at + take == end
            pieces[count] = at, at + take + (last and kind == PLAIN), document, kind
            points[count] = mixed(state ^ SECOND_MIX), mixed(state + SECOND_MIX)
            count += 1
            at += take
            if last:
                break
    return pieces[:count], points[:count]


@njit(cache=True)
def spell(ids, pieces, spelling, begins):
    """The UTF-8 bytes of pieces, one after the other: (uint8 [bytes], int64 [pieces + 1])."""
    offsets = np.zeros(len(pieces) + 1, np.int64)
    for piece in range(len(pieces)):
        size = 0
        for k in range(pieces[piece, 0], pieces[piece, 1]):
            size += begins[ids[k] + 1] - begins[ids[k]]
        offsets[piece + 1] = offsets[piece] + size
    text = np.empty(offsets[-1], np.uint8)
    at = 0
    for piece in range(len(pieces)):
        for k in range(pieces[piece, 0], pieces[piece, 1]):
            for byte in range(begins[ids[k]], begins[ids[k] + 1]):
                text[at] = spelling[byte]
                at += 1
    return text, offsets


@njit(cache=True)
def assemble(ids, pieces, parts, part_offsets, lead, controls, sizes):
    """The tokens of all pieces, uint32 [sum of sizes].

    Args:
        pieces: int64 [pieces, 4], see `cut`.
        parts: uint32 [tokens] of the parts of FIM pieces, three each, in the order in which they are written.
        part_offsets: int64 [parts + 1].
        lead: uint32 [n], the ids before a text.
        controls: uint32 [4], the ids of prefix, suffix, middle and end.
        sizes: int64 [pieces].
    """
    result = np.empty(sizes.sum(), np.uint32)
    at, part = 0, 0
    for piece in range(len(pieces)):
        kind = pieces[piece, 3]
        for token in lead:
            result[at] = token
            at += 1
        if kind == PLAIN:
            for k in range(pieces[piece, 0], pieces[piece, 1]):
                result[at] = ids[k]
                at += 1
            continue
        result[at] = controls[0]
        at += 1
        if kind == SPM:
            result[at] = controls[1]
            at += 1
        for k in range(3):
            if kind == PSM and k > 0:
                result[at] = controls[k]
                at += 1
            elif kind == SPM and k == 1:
                result[at] = controls[2]
                at += 1
            for token in range(part_offsets[part], part_offsets[part + 1]):
                result[at] = parts[token]
                at += 1
            part += 1
        result[at] = controls[3]
        at += 1
    return result


@dataclass(frozen=True)
class Pieces:
    """The pieces of a batch of documents: piece i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: np.ndarray  # uint32 [tokens]
    offsets: np.ndarray  # int64 [pieces + 1]
    documents: np.ndarray  # int64 [pieces], number of the document in the batch
    kinds: np.ndarray  # int64 [pieces], PLAIN, PSM or SPM
    outgrown: int  # drawn, but too long for a row, or with a token of unknown text


class FillInMiddle:
    """Cuts documents into pieces of at most `length` tokens, a share `rate` of them fill-in-the-middle. Raises
    UserError: the tokenizer has no FIM tokens."""

    def __init__(self, encoder: Encoder, length: int, rate: float, spm_rate: float, seed: int):
        self.encoder, self.length, self.rate, self.spm_rate = encoder, length, rate, spm_rate
        self.lead = np.array(encoder.lead, np.uint32)
        self.room = max(0, length - CONTROLS - len(self.lead) - min(SPARE, length // 8))
        self.seed = U64(seed)
        self.controls = np.array(encoder.infill, np.uint32)
        self.spelling, self.begins = encoder.spelling
        first = np.append(self.spelling, 0)[self.begins[:-1]]
        self.begins_character = ((first & 0xC0) != 0x80) | (encoder.bytes_of == 0)

    def pieces(self, encoded: Encoded) -> Pieces:
        """Cut a batch of encoded texts."""
        pieces, points = cut(
            encoded.ids, encoded.offsets, len(self.lead), self.begins_character, self.length, self.room, self.rate,
            self.spm_rate, self.seed,
        )  # fmt: skip
        changed = np.flatnonzero(pieces[:, 3])
        spelt, ends = spell(encoded.ids, pieces[changed], self.spelling, self.begins)
        texts = []
        for (first, second), kind, start, end in zip(
            points[changed].tolist(), pieces[changed, 3].tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True
        ):
            text = str(spelt[start:end].data, "utf-8")
            # the remainder of 64 uniform bits is uniform to one part in 2^44 for 2^20 characters
            left, right = sorted((first % (len(text) + 1), second % (len(text) + 1)))
            prefix, middle, suffix = text[:left], text[left:right], text[right:]
            texts += (suffix, prefix, middle) if kind == SPM else (prefix, suffix, middle)
        # a blank that the vocabulary puts before a document is in the spelt text, so no part gets another
        parts, part_offsets = self.encoder.engine.continued.encode(texts)

        sizes = pieces[:, 1] - pieces[:, 0] + len(self.lead)
        sizes[changed] = np.diff(part_offsets[::3]) + CONTROLS + len(self.lead)
        unknown = self.encoder.files.unknown
        if unknown is not None:  # what it stands for is not known here
            count = np.concatenate([[0], np.cumsum(encoded.ids == unknown)])
            has_unknown = count[pieces[changed, 1]] > count[pieces[changed, 0]]
            sizes[changed[has_unknown]] = self.length + 1
        outgrown = changed[sizes[changed] > self.length]
        if len(outgrown):
            kept = np.repeat(sizes[changed] <= self.length, 3)
            parts = parts[np.repeat(kept, np.diff(part_offsets))]
            part_offsets = np.concatenate([[0], np.cumsum(np.diff(part_offsets)[kept])])
            last = encoded.offsets[pieces[outgrown, 2] + 1] - 1 == pieces[outgrown, 1]
            pieces[outgrown, 1] += last  # with its end of text
            pieces[outgrown, 3] = PLAIN
            sizes[outgrown] = pieces[outgrown, 1] - pieces[outgrown, 0] + len(self.lead)
        ids = assemble(encoded.ids, pieces, parts, part_offsets, self.lead, self.controls, sizes)
        return Pieces(ids, np.concatenate([[0], np.cumsum(sizes)]), pieces[:, 2], pieces[:, 3], len(outgrown))
