"""Lines as they stand: which lines of a file a model would write exactly, read from a scoring pass without generating.

    lines = lines_of(encoder, ids, [41, 42, 43])
    likeliest = Likeliest(encoder, len(ids))
    likeliest.ask(lines, offset=0)
    ...                              # a scoring pass fills likeliest.ids
    written(encoder, ids, likeliest.ids, lines[0])    # Written(right=True, characters=24, saved=24)

Greedy decoding writes the likeliest token after all before. A scoring pass knows that token at every place of the true
text. So greedy decoding would write a line as it stands if the likeliest token is the true one all along it, and its
line end follows. As in generation, a prompt that ends where the line begins is healed first (healing.py): the first
tokens must spell what was taken back.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scripts.evaluation.generation.healing import MOST, boundary, vocabulary_of
from scripts.tokens.tokenization.encoder import Encoder

if TYPE_CHECKING:
    import torch


class Line(NamedTuple):
    """A line of an encoded text, in tokens and bytes of that text.

    Attributes:
        first: the token from which a prompt that ends where the line begins goes on.
        last: the token that holds the line's end.
        start: the line's first byte.
        end: the byte of its line end.
    """

    first: int
    last: int
    start: int
    end: int


class Written(NamedTuple):
    """What a model would write of a line. `saved`: how many of its characters, without the indentation, come before the
    first one that is wrong."""

    right: bool
    characters: int
    saved: int


class Text(NamedTuple):
    """An encoded text: its bytes, and where each token begins and the last one ends."""

    content: bytes
    starts: np.ndarray  # int64[tokens + 1]


def text_of_ids(encoder: Encoder, ids: np.ndarray) -> Text:
    sizes = encoder.bytes_of[ids]
    return Text(encoder.text(ids.tolist()), np.concatenate([[0], np.cumsum(sizes)]))


def line_starts(content: bytes) -> list[int]:
    """The first byte of each line, and behind the last one the length of the text if it ends in a line end."""
    starts, place = [0], content.find(b"\n")
    while place >= 0:
        starts.append(place + 1)
        place = content.find(b"\n", place + 1)
    return starts


def lines_of(encoder: Encoder, ids: np.ndarray, numbers: list[int]) -> list[Line]:
    """The lines with these numbers that have a letter or a digit, a line before them, and a line end."""
    text, spelled, vocabulary = text_of_ids(encoder, ids), encoder.spelled, vocabulary_of(encoder)
    starts, found = line_starts(text.content), []
    for number in numbers:
        if not 0 < number < len(starts) - 1:
            continue
        start, end = starts[number], starts[number + 1] - 1
        line = text.content[start:end].decode("utf-8", "replace")
        if not any(character.isalnum() for character in line):
            continue
        # the prompt's tokens: the last one is cut where it goes on into the line
        count = int(np.searchsorted(text.starts, start))
        low = max(0, count - MOST)
        prompt = [spelled[token] for token in ids[low:count]]
        prompt[-1] = prompt[-1][: start - int(text.starts[count - 1])]
        first = low + boundary(prompt, vocabulary)
        if first > 0:
            found.append(Line(first, int(np.searchsorted(text.starts, end, side="right")) - 1, start, end))
    return found


class Likeliest:
    """The likeliest token at chosen places of encoded texts, where healing restricts it among those that it allows.

    Attributes:
        asked: bool[tokens], the places.
        due: place → the bytes that the token there must spell, or begin to.
        ids: int64[tokens], the likeliest tokens; -1 where nothing was asked.
    """

    def __init__(self, encoder: Encoder, tokens: int):
        self.vocabulary = vocabulary_of(encoder)
        self.asked, self.due = np.zeros(tokens, bool), {}
        self.ids = np.full(tokens, -1, np.int64)

    def ask(self, lines: list[Line], text: Text, offset: int) -> None:
        """Ask for the tokens of lines. `offset`: of the text's first token."""
        for line in lines:
            self.asked[offset + line.first : offset + line.last + 1] = True
            token = line.first
            while text.starts[token] < line.start:
                self.due[offset + token] = text.content[text.starts[token] : line.start]
                token += 1

    def record(self, places: np.ndarray, logits: "torch.Tensor") -> None:
        """Note the likeliest tokens. `places`: int [n]; `logits`: [n, vocabulary]."""
        import torch

        self.ids[places] = logits.argmax(dim=-1).cpu().numpy()
        for row, place in enumerate(places.tolist()):
            if place in self.due:
                allowed = self.vocabulary.allowed(self.due[place])
                best = logits[row, torch.from_numpy(allowed).to(logits.device)].argmax()
                self.ids[place] = allowed[int(best)]


def written(encoder: Encoder, ids: np.ndarray, likeliest: np.ndarray, line: Line, text: Text) -> Written:
    """What greedy decoding would write of a line. `ids`, `likeliest`: int[tokens] of its text."""
    content = text.content[line.start : line.end]
    indentation = len(content) - len(content.lstrip())
    characters = len(content.lstrip().decode("utf-8", "ignore"))
    for token in range(line.first, line.last + 1):
        guess = int(likeliest[token])
        if guess == ids[token]:
            continue
        start = int(text.starts[token])
        true = text.content[start : line.end + 1]
        spelled = encoder.spelled[guess] if 0 <= guess < encoder.vocab_size else b""
        if token == line.last and spelled.startswith(true):
            continue  # what follows the line end is the next line
        agreeing = 0
        while agreeing < min(len(true), len(spelled)) and true[agreeing] == spelled[agreeing]:
            agreeing += 1
        reached = min(start + agreeing, line.end)
        saved = text.content[line.start + indentation : max(reached, line.start + indentation)]
        return Written(False, characters, len(saved.decode("utf-8", "ignore")))
    return Written(True, characters, characters)
