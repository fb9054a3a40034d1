"""Encode examples as token ids and targets, in the same way for training and evaluation.

    encoder = Encoder(Path("results/tokens/tokenizer"))
    encoded = encoder.encode([{"text": "def main():\\n    pass\\n"}])

The encoding depends on the example's form:

- text: what the tokenizer puts before a text (`<bos>` in Gemma, nothing in Qwen), its ids, and the token that ends a
  document; `pack` makes fill-in-the-middle of these (scripts/tokens/packing/fill_in_middle.py);
- messages: the output of the folder's own chat template.

In a text every token is a target but the first, or those before the text. In a chat, targets are the assistant's
content and the control token that ends its turn, but neither the header nor the line end after the turn; a turn with
`weight: 0` is none.

Control ids are added only here. The engine knows no control token, so a literal one in a text stays text. This includes
`<|fim_prefix|>` and `<tool_call>`, which are not special in Qwen2.5 and pass `split_special_tokens`.
"""

import json
import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.text import is_target
from scripts.tokens.tokenization.chat_template import ChatTemplate, Content
from scripts.tokens.tokenization.text_engine import TextEngine
from scripts.tokens.tokenization.tokenizer_files import INFILL_END, TokenizerFiles, spelled_tokens

ROLES = ("system", "user", "assistant")
FORMS = ("text", "messages")


@dataclass(frozen=True)
class Encoded:
    """A batch of n examples, concatenated: example i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: np.ndarray  # uint32[tokens]
    targets: np.ndarray  # bool[tokens]
    offsets: np.ndarray  # int64[n + 1]


class Encoder:
    """The tokenizer in a folder.

    Attributes:
        lead: ids that the tokenizer puts before a text.
        end: id of the token that ends a document.
        pad: id of the token that fills a row.
        vocab_size: the largest id + 1.
        chats: the chat template.
        spelled_controls: how many chats so far spell a control token in a message, where it stays text.

    Raises:
        UserError: the tokenizers library cannot load the folder's tokenizer.json, or no file names an end token.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.files = TokenizerFiles(folder)
        self.controls, self.vocab_size = self.files.controls, self.files.vocab_size
        self.end, self.pad = self.files.end, self.files.pad
        self.engine = TextEngine(self.files)
        self.lead = self.files.lead
        self.chats = ChatTemplate(self.files)
        self.spelled_controls = 0

    @cached_property
    def infill(self) -> tuple[int, int, int, int]:
        """The ids of prefix, suffix, middle and end of fill-in-the-middle. Raises UserError: the tokenizer has none."""
        if self.files.infill is None:
            raise UserError(f"{self.files.path}: no tokens for fill-in-the-middle, such as <|fim_prefix|>")
        return (*self.files.infill, self.controls.get(INFILL_END, self.end))

    @cached_property
    def spelled(self) -> list[bytes]:
        """The bytes of each id; none for control tokens."""
        return spelled_tokens(self.files)

    @cached_property
    def bytes_of(self) -> np.ndarray:
        """int64[vocab_size]: how many UTF-8 bytes each id decodes to; 0 for control tokens."""
        return np.array([len(text) for text in self.spelled], np.int64)

    @cached_property
    def spelling(self) -> tuple[np.ndarray, np.ndarray]:
        """The UTF-8 bytes of all ids, one after the other, and int64[vocab_size + 1] where those of each id begin."""
        return np.frombuffer(b"".join(self.spelled), np.uint8), np.concatenate([[0], np.cumsum(self.bytes_of)])

    def text(self, ids: list[int]) -> bytes:
        """The text of some ids, without control tokens and ids that the tokenizer does not know."""
        return b"".join(self.spelled[token] for token in ids if token < self.vocab_size)

    def decode(self, ids: list[int]) -> str:
        """`text` as UTF-8; parts of a character become a replacement character."""
        return self.text(ids).decode("utf-8", "replace")

    def encode(self, examples: list[dict]) -> Encoded:
        """Encode a batch. Raises UserError: an example has none of the forms above, or the tokenizer lacks a token or
        template for it."""
        batch = _Batch(self)
        for example in examples:
            batch.add(example)
        return batch.encoded()

    def refusal(self, example: dict) -> str:
        """Why the chat template cannot hold an example, in one line; empty if it can, as it can any text."""
        messages = None
        if isinstance(example, dict):
            messages = example.get("messages")
        plain = isinstance(messages, list) and all(isinstance(turn, dict) and "role" in turn for turn in messages)
        if plain:
            return self.chats.refusal(messages)
        return ""

    def accepted(self, examples: list[dict], label: str) -> list[dict]:
        """The examples that the chat template can hold; how many others there are is logged, with its words."""
        kept, refused = [], []
        for example in examples:
            words = self.refusal(example)
            if words:
                refused.append(f"{example['id']}: {words}")
            else:
                kept.append(example)
        if refused:
            logging.warning(f"{label}: {len(refused):,} chats are left out, as {refused[0]}")
        return kept

    def continuation(self, text: str) -> list[int]:
        """The ids of a text that goes on where a prompt stopped."""
        return self.engine.continued.encode([text])[0].tolist()

    def chat_prompt(self, messages: list[dict]) -> tuple[list[int], int]:
        """(ids up to where the answer to a chat begins, the id that ends the answer). Raises UserError: as `encode`."""
        batch = _Batch(self)
        batch.first.append(0)
        turn_end = batch.add_chat({"messages": [*messages, {"role": "assistant", "content": ""}]}, prompt=True)
        return batch.encoded().ids.tolist(), turn_end


def excerpt(example: object) -> str:
    """The first 100 characters of an example, so that a user can find it."""
    return json.dumps(example, ensure_ascii=False)[:100]


class _Batch:
    """Collects the parts of many examples, so that the engine is called once. A part is a text or a control id."""

    def __init__(self, encoder: Encoder):
        self.encoder = encoder
        self.texts = []  # str of each part that is text
        self.later = []  # of each text, whether a control token or text of its example stands before it
        self.parts = []  # control id of each part, -1 for text
        self.first = []  # number of the first part of each example
        self.answers = []  # (number of the part, its text, characters before the answer) of each assistant turn
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
        self.parts += self.encoder.lead
        self.add_text(example["text"], later=False)
        self.parts.append(self.encoder.end)

    def add_text(self, text: str, later: bool) -> None:
        self.parts.append(-1)
        self.texts.append(text)
        self.later.append(later)

    def add_chat(self, example: dict, prompt: bool = False) -> int | None:
        """Add a chat; with `prompt` only what stands before its last answer, and return the id that ends the answer."""
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
        if any(token in content for token in self.encoder.controls for content in contents):
            self.encoder.spelled_controls += 1
        layout, strips = self.encoder.chats.layout(roles), self.encoder.files.strips
        for number, part in enumerate(layout):
            if isinstance(part, int):
                self.parts.append(part)
                continue
            pieces = [item.of(contents) if isinstance(item, Content) else item for item in part]
            before = after = None
            if number and isinstance(layout[number - 1], int):
                before = layout[number - 1]
            if number + 1 < len(layout):
                after = layout[number + 1]
            if before in strips.right:
                pieces = strip_left(pieces)
            if after in strips.left:
                pieces = strip_left([piece[::-1] for piece in pieces[::-1]])
                pieces = [piece[::-1] for piece in pieces[::-1]]
            text = "".join(pieces)
            if len(part) > 1 and roles[part[-2].number] == "assistant":
                # a blank before the answer belongs to its first token
                header = "".join(pieces[:-2]).rstrip(" ")
                if prompt and part[-2].number == len(roles) - 1:
                    if header:
                        self.add_text(header, later=number > 0)
                    return after
                if is_target(example["messages"][part[-2].number]):
                    self.answers.append((len(self.parts), text, len(header)))
            self.add_text(text, later=number > 0)
        return None

    def encode_texts(self) -> tuple[np.ndarray, np.ndarray]:
        """uint32 [tokens] of all texts, int64 [texts] how many each has."""
        first, after_control = self.encoder.engine, self.encoder.engine.after_control
        if first is after_control:
            ids, offsets = first.encode(self.texts)
            return ids, np.diff(offsets)
        encoded = {}
        for later, engine in ((False, first), (True, after_control)):
            numbers = [number for number, is_later in enumerate(self.later) if is_later == later]
            ids, offsets = engine.encode([self.texts[number] for number in numbers])
            for number, start, end in zip(numbers, offsets, offsets[1:], strict=False):
                encoded[number] = ids[start:end]
        lists = [encoded[number] for number in range(len(self.texts))]
        lengths = np.array([len(ids) for ids in lists], np.int64)
        return np.concatenate([np.empty(0, np.uint32), *lists]), lengths

    def encoded(self) -> Encoded:
        text_ids, text_lengths = self.encode_texts()
        parts = np.array(self.parts, np.int64)
        lengths = np.ones(len(parts), np.int64)
        lengths[parts < 0] = text_lengths
        starts = np.concatenate([[0], np.cumsum(lengths)])
        offsets = starts[np.array([*self.first, len(parts)], np.int64)]

        ids = np.empty(starts[-1], np.uint32)
        is_text = np.ones(len(ids), bool)
        is_text[starts[:-1][parts >= 0]] = False
        ids[is_text] = text_ids
        ids[~is_text] = parts[parts >= 0]

        targets = np.ones(len(ids), bool)
        for place in range(max(1, len(self.encoder.lead))):
            targets[np.minimum(offsets[:-1] + place, len(ids) - 1)] = False
        for number in self.chats:
            targets[offsets[number] : offsets[number + 1]] = False
        for part, text, header in self.answers:
            start, end = starts[part], starts[part + 1]
            skipped = 0
            if header:
                # a token across the end of the header and the beginning of the answer belongs to the header: the model
                # generates the tokens after it
                engine = self.encoder.engine if part in self.first else self.encoder.engine.after_control
                skipped = engine.tokens_before(text, header, self.encoder.bytes_of[ids[start:end]])
            targets[start + skipped : end + 1] = True  # with the control token after it
        return Encoded(ids, targets, offsets)


def strip_left(pieces: list[str]) -> list[str]:
    """Pieces of a text without its blanks on the left."""
    kept = []
    for piece in pieces:
        kept.append(piece if any(kept) else piece.lstrip())
    return kept
