"""Encode examples as token ids and targets, in the same way for training and evaluation.

    encoder = Encoder(Path("results/tokens/tokenizer"))
    encoded = encoder.encode([{"text": "def main():\\n    pass\\n"}])

The encoding depends on the example's form:

- text: its ids, `<|endoftext|>` (Llama 3, SmolLM3: `<|end_of_text|>`); `pack` makes fill-in-the-middle of these
  (scripts/tokens/packing/fill_in_middle.py). Where it has `marks`, as a repository has
  (scripts/corpus/formats/repository_documents.py), a control token stands at each;
- messages: the output of the folder's own chat template.

In a text every token but the first is a target. In a chat, targets are the assistant's content and the control token
that ends its turn, but neither the header nor the line end after the turn.

Control ids are added only here. The engine has no added tokens, so a literal control token in a text stays text. This
includes `<|fim_prefix|>` and `<tool_call>`, which are not special in Qwen2.5 and pass `split_special_tokens`.
"""

import json
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import fastokens
import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.tokens.packing.chat_template import ChatTemplate, Content

ENDS = ("<|endoftext|>", "<|end_of_text|>")  # what ends a document: Qwen's token; Llama 3's and SmolLM3's
ROLES = ("system", "user", "assistant")
FORMS = ("text", "messages")

# A byte-level vocabulary writes a byte as a character: a printable one as itself, the others as 256, 257, ... in order.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {256 + rank: byte for rank, byte in enumerate(sorted(set(range(256)) - set(PRINTABLE)))}


@dataclass(frozen=True)
class Encoded:
    """A batch of n examples, concatenated: example i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: np.ndarray  # uint32[tokens]
    targets: np.ndarray  # bool[tokens]
    offsets: np.ndarray  # int64[n + 1]


class Encoder:
    """The tokenizer in a folder.

    Attributes:
        end: id of the token that ends a document (`ENDS`), also used for padding.
        vocab_size: the largest id + 1.
        chats: the chat template.

    Raises:
        UserError: the folder has no byte-level tokenizer.json with one of `ENDS`.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        path = folder / "tokenizer.json"
        description = read_json(path)
        try:
            self.controls = {token["content"]: token["id"] for token in description["added_tokens"]}
            self.vocabulary = description["model"]["vocab"]
            self.vocab_size = 1 + max([*self.vocabulary.values(), *self.controls.values()])
            self.engine = fastokens.Tokenizer.from_json_str(json.dumps({**description, "added_tokens": []}))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: not a byte-level BPE: {error!r}; use a tokenizer of Qwen2.5's form") from error
        if "ByteLevel" not in json.dumps(description.get("decoder")):
            raise UserError(f"{path}: not byte-level; use a tokenizer of Qwen2.5's form")
        self.end = self.control(next((end for end in ENDS if end in self.controls), ENDS[0]))
        self.chats = ChatTemplate(folder, self.controls)

    def control(self, token: str) -> int:
        """The id of a control token.

        Raises:
            UserError: the tokenizer has no such token.
        """
        if token not in self.controls:
            raise UserError(
                f"{self.folder / 'tokenizer.json'}: no added token {token}; use a tokenizer of Qwen2.5's form"
            )
        return self.controls[token]

    @cached_property
    def bytes_of(self) -> np.ndarray:
        """int64[vocab_size]: how many UTF-8 bytes each id decodes to; 0 for control tokens."""
        sizes = np.zeros(self.vocab_size, np.int64)
        for token, number in self.vocabulary.items():  # in a byte-level vocabulary a character is a byte
            sizes[number] = len(token)
        sizes[list(self.controls.values())] = 0
        return sizes

    @cached_property
    def spelling(self) -> tuple[np.ndarray, np.ndarray]:
        """The UTF-8 bytes of all ids, one after the other, and int64[vocab_size + 1] where those of each id begin."""
        tokens = [""] * self.vocab_size
        for token, number in self.vocabulary.items():
            tokens[number] = token
        for number in self.controls.values():
            tokens[number] = ""
        spelt = "".join(tokens).translate(BYTE_OF).encode("latin-1")
        return np.frombuffer(spelt, np.uint8), np.concatenate([[0], np.cumsum(self.bytes_of)])

    def encode(self, examples: list[dict]) -> Encoded:
        """Encode a batch.

        Raises:
            UserError: an example has none of the forms above, or the tokenizer lacks a token or template for it.
        """
        batch = _Batch(self)
        for example in examples:
            batch.add(example)
        return batch.encoded()


def marked(text: str, marks: list) -> list[tuple[str, str]]:
    """(control token or nothing, the text behind it) of each part of a text with marks.

    Raises:
        UserError: a mark is not (character, token), or they are not in the order of the text.
    """
    places = [0]
    for mark in marks:
        valid = isinstance(mark, list | tuple) and len(mark) == 2 and [type(item) for item in mark] == [int, str]
        if not valid or not places[-1] <= mark[0] <= len(text):
            raise UserError(
                f"{excerpt(text)}: `marks` must be (character, token) in the order of the text, not {mark!r}"
            )
        places.append(mark[0])
    tokens, ends = ["", *(mark[1] for mark in marks)], [*places[1:], len(text)]
    parts = [(token, text[start:end]) for token, start, end in zip(tokens, places, ends, strict=True)]
    return parts[1:] if marks and not parts[0][1] else parts


def excerpt(example: object) -> str:
    """The first 100 characters of an example, so that a user can find it."""
    return json.dumps(example, ensure_ascii=False)[:100]


class _Batch:
    """Collects the parts of many examples, so that the engine is called once. A part is a text or a control id."""

    def __init__(self, encoder: Encoder):
        self.encoder = encoder
        self.texts = []  # str of each part that is text
        self.parts = []  # control id of each part, -1 for text
        self.first = []  # number of the first part of each example
        self.answers = []  # (number of the part, bytes of its header) of each assistant turn
        self.chats = []  # numbers of the examples that are chats

    def add(self, example: dict) -> None:
        form = next((form for form in FORMS if form in example), None) if isinstance(example, dict) else None
        self.first.append(len(self.parts))
        if form is None:
            raise UserError(f"{excerpt(example)}: must have `text` or `messages`")
        if form == "messages":
            self.chats.append(len(self.first) - 1)
            self.add_chat(example)
            return
        if not isinstance(example["text"], str):
            raise UserError(f"{excerpt(example)}: `text` must be a string")
        for token, text in marked(example["text"], example.get("marks") or []):
            self.parts += [self.encoder.control(token), -1] if token else [-1]
            self.texts.append(text)
        self.parts.append(self.encoder.end)

    def add_chat(self, example: dict) -> None:
        try:
            roles = tuple(message["role"] for message in example["messages"])
            contents = [message["content"] for message in example["messages"]]
            valid = roles and all(role in ROLES for role in roles) and all(isinstance(text, str) for text in contents)
        except (TypeError, KeyError):
            valid = False
        if not valid:
            raise UserError(
                f"{excerpt(example)}: `messages` must be a list of role ({', '.join(ROLES)}) and content (string)"
            )
        for part in self.encoder.chats.layout(roles):
            if isinstance(part, int):
                self.parts.append(part)
                continue
            if len(part) > 1 and roles[part[1].number] == "assistant":
                self.answers.append((len(self.parts), len(unicodedata.normalize("NFC", part[0]).encode())))
            self.parts.append(-1)
            self.texts.append("".join(item.of(contents) if isinstance(item, Content) else item for item in part))

    def encoded(self) -> Encoded:
        text_ids, ends = self.encoder.engine.encode_batch_flat(self.texts)
        parts = np.array(self.parts, np.int64)
        lengths = np.ones(len(parts), np.int64)
        lengths[parts < 0] = np.diff(np.frombuffer(ends, np.uint64).astype(np.int64))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        offsets = starts[np.array([*self.first, len(parts)], np.int64)]

        ids = np.empty(starts[-1], np.uint32)
        is_text = np.ones(len(ids), bool)
        is_text[starts[:-1][parts >= 0]] = False
        ids[is_text] = np.frombuffer(text_ids, np.uint32)
        ids[~is_text] = parts[parts >= 0]

        targets = np.ones(len(ids), bool)
        targets[offsets[:-1]] = False
        for number in self.chats:
            targets[offsets[number] : offsets[number + 1]] = False
        for part, header in self.answers:
            start, end = starts[part], starts[part + 1]
            # a token across the end of the header and the beginning of the content belongs to the header: the model
            # generates the tokens after it
            sizes = self.encoder.bytes_of[ids[start:end]]
            content = start + np.searchsorted(np.cumsum(sizes) - sizes, header)
            targets[content : end + 1] = True  # with the control token after it
        return Encoded(ids, targets, offsets)
