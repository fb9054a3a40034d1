"""Code of the training split that resembles what stands before a place, by BM25: what a user's editor would retrieve.

    pieces = Pieces(read_jsonl(train), count=2)
    pieces.before("source/path.py", text_before)     # code as one text, the best piece last

One way for all: suite perplexity, the tasks of suite completion and `stagecraft try` show a model the same text.
"""

import io
import logging
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import bm25s

PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def words(text: str) -> list[str]:
    """The identifiers of a text and, of those with several, their parts, in lower case."""
    found = []
    for identifier in re.findall(r"\w+", text):
        parts = PARTS.findall(identifier)
        found.append(identifier.lower())
        if len(parts) > 1:
            found += [part.lower() for part in parts]
    return found


class Search:
    """BM25 (Robertson and Zaragoza 2009, with the defaults of bm25s) over pieces of text."""

    def __init__(self, pieces: list[str]):
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        self.count, self.index = len(pieces), bm25s.BM25()
        if pieces:
            self.index.index([words(piece) for piece in pieces], show_progress=False)

    def best(self, query: str, count: int) -> list[int]:
        """The numbers of the pieces that share words with the query, at most `count`, the best one first."""
        wanted = words(query)
        if not wanted or not self.count:
            return []
        found, scores = self.index.retrieve([wanted], k=min(count, self.count), show_progress=False)
        return [int(place) for place, score in zip(found[0], scores[0], strict=True) if score > 0]


# Lines of a piece: it ends before a line without indentation behind an empty one, as functions and classes do, once it
# has so many lines, and in any case with the last of so many.
FEWEST, MOST = 8, 24
OWN_PIECES = 64  # of its own file that may be better than the best of another
QUERY = 8  # lines before a place by which is searched: what is being written, rather than all that is shown


class Piece(NamedTuple):
    """A run of lines of a document.

    Attributes:
        id: of the document, `source/path`.
        line: its first line, from 1.
    """

    id: str
    line: int
    text: str


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """(first line from 1, text) of a file cut into runs of lines, in any language at the beginning of functions and the
    like; none is empty."""
    block: list[str] = []
    first = 1
    for number, line in enumerate(io.StringIO(text, newline="\n"), 1):  # a form feed ends no line
        begins = block and not block[-1].strip() and line.strip() and not line[0].isspace()
        if len(block) >= MOST or (len(block) >= FEWEST and begins):
            yield first, "".join(block).strip("\n") + "\n\n"
            block, first = [], number
        block.append(line)
    if "".join(block).strip():
        yield first, "".join(block).strip("\n") + "\n\n"


class Pieces:
    """Documents cut into blocks, each found by its words and by those of its file's path.

    Args:
        documents: `id` (the path) and `text` of the training split; held-out files are not among them.
        count: pieces before a place.
    """

    def __init__(self, documents: Iterable[dict], count: int):
        self.count, self.pieces, described = count, [], []
        for document in documents:
            for line, block in blocks(document["text"]):
                self.pieces.append(Piece(document["id"], line, block))
                described.append(f"{document['id']}\n{block}")
        self.search = Search(described)

    def best(self, path: str, text: str, own: str = "") -> list[Piece]:
        """The pieces that resemble the end of a text and the path of its file, the best one last. Without the path
        retrieval helps a third as much (docs/DECISIONS.md). `own`: a file whose pieces are left out, by the end of its
        path; it holds what is to be written."""
        lines = "\n".join(text.split("\n")[-QUERY:])
        found = []
        for place in self.search.best(f"{path}\n{lines}", self.count + OWN_PIECES * bool(own)):
            piece = self.pieces[place]
            if own and f"/{own}".endswith(f"/{piece.id.partition('/')[2]}"):  # behind the name of its source
                continue
            found.append(piece)
        return found[: self.count][::-1]

    def before(self, path: str, text: str) -> str:
        """The pieces as one text, the best one last; empty where none resembles it."""
        return "".join(piece.text for piece in self.best(path, text))
