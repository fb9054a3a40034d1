"""Encode examples as token ids and targets, in the same way for training and evaluation.

    encoder = Encoder(Path("results/tokens/tokenizer"))
    encoded = encoder.encode([{"text": "def main():\\n    pass\\n"}])

The encoding depends on the example's form:

- text: its ids, `<|endoftext|>`; `pack` makes fill-in-the-middle of these (scripts/tokens/packing/fill_in_middle.py);
- messages: the output of the folder's own chat template.

In a text every token but the first is a target. In a chat, targets are the assistant's content and the control token
that ends its turn, but neither the header nor the line end after the turn.

Control ids are added only here. The engine has no added tokens, so a literal control token in a text stays text. This
includes `<|fim_prefix|>` and `<tool_call>`, which are not special in Qwen2.5 and pass `split_special_tokens`.
"""

import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import fastokens
import jinja2
import numpy as np
from jinja2.sandbox import ImmutableSandboxedEnvironment

from scripts.common.cli import UserError
from scripts.common.files import read_json

END = "<|endoftext|>"
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
        end: id of `<|endoftext|>`, also used for padding.
        vocab_size: the largest id + 1.
        turn_ends: ids that end an answer in the chats encoded so far.

    Raises:
        UserError: the folder has no byte-level tokenizer.json with `<|endoftext|>`.
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
        self.end = self.control(END)
        self.layouts = {}
        self.turn_ends: set[int] = set()

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

    @cached_property
    def template(self) -> jinja2.Template:
        """The folder's chat template, compiled as by transformers' `apply_chat_template`."""
        path = self.folder / "chat_template.jinja"
        config = read_json(self.folder / "tokenizer_config.json")
        source = path.read_text() if path.is_file() else config.get("chat_template")
        if not isinstance(source, str):
            raise UserError(
                f"{self.folder}: no chat template, which a dataset of chats requires; use a model that has one"
            )
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        names = [name for name in ("bos_token", "eos_token", "pad_token") if isinstance(config.get(name), str)]
        try:
            return environment.from_string(source, {name: config[name] for name in names})
        except jinja2.TemplateError as error:
            raise UserError(f"{self.folder}: chat template: {error}") from error

    def layout(self, roles: tuple[str, ...]) -> list[int | list[str | int]]:
        """The layout of a chat: control ids, and between them lists of literal texts and message numbers.

        It depends only on the roles: the template is rendered once per sequence of roles, with placeholders instead of
        contents, so contents never pass through the template.

        Raises:
            UserError: the template refuses these roles, or an assistant's content does not end in a control token.
        """
        if roles in self.layouts:
            return self.layouts[roles]
        # private-use characters, which no template contains; the spaces reveal a template that trims contents
        messages = [{"role": role, "content": f" \ue000{i}\ue001 "} for i, role in enumerate(roles)]
        try:
            text = self.template.render(messages=messages, add_generation_prompt=False)
        except jinja2.TemplateError as error:
            raise UserError(f"{self.folder}: chat template: {error} (roles: {', '.join(roles)})") from error
        controls = "|".join(re.escape(token) for token in sorted(self.controls, key=len, reverse=True))
        pieces = [piece for piece in re.split(f"({controls})", text) if piece]
        layout, order = [], []
        for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
            run = re.split(" \ue000(\\d+)\ue001 ", piece)  # literal, number, literal, ...
            numbers = run[1::2] = [int(number) for number in run[1::2]]
            order += numbers
            if any(roles[number] == "assistant" for number in numbers) and (
                len(numbers) > 1 or run[2] or after not in self.controls
            ):
                raise UserError(f"{self.folder}: chat template: an answer must end in a control token, as in ChatML")
            self.turn_ends |= {self.controls[after] for number in numbers if roles[number] == "assistant"}
            layout.append(self.controls.get(piece, run))
        if order != list(range(len(roles))):
            raise UserError(
                f"{self.folder}: chat template: it must copy each message's content unchanged, as in ChatML"
            )
        self.layouts[roles] = layout
        return layout

    def encode(self, examples: list[dict]) -> Encoded:
        """Encode a batch.

        Raises:
            UserError: an example has none of the forms above, or the tokenizer lacks a token or template for it.
        """
        batch = _Batch(self)
        for example in examples:
            batch.add(example)
        return batch.encoded()


def shown(example: object) -> str:
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
            raise UserError(f"{shown(example)}: must have `text` or `messages`")
        if form == "messages":
            self.chats.append(len(self.first) - 1)
            self.add_chat(example)
            return
        if not isinstance(example["text"], str):
            raise UserError(f"{shown(example)}: `text` must be a string")
        self.parts += [-1, self.encoder.end]
        self.texts.append(example["text"])

    def add_chat(self, example: dict) -> None:
        try:
            roles = tuple(message["role"] for message in example["messages"])
            contents = [message["content"] for message in example["messages"]]
            valid = roles and all(role in ROLES for role in roles) and all(isinstance(text, str) for text in contents)
        except (TypeError, KeyError):
            valid = False
        if not valid:
            raise UserError(
                f"{shown(example)}: `messages` must be a list of role ({', '.join(ROLES)}) and content (string)"
            )
        for part in self.encoder.layout(roles):
            if isinstance(part, int):
                self.parts.append(part)
                continue
            if len(part) > 1 and roles[part[1]] == "assistant":
                self.answers.append((len(self.parts), len(unicodedata.normalize("NFC", part[0]).encode())))
            self.parts.append(-1)
            self.texts.append("".join(contents[item] if isinstance(item, int) else item for item in part))

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
