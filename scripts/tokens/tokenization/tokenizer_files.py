"""What a tokenizer's own files say: its control tokens, and which of them begins, ends and pads a text.

    files = TokenizerFiles(Path("/models/gemma-3-270m"))
    files.end, files.controls["<end_of_turn>"], files.infill

Neither the vocabulary's engine nor the chat template is loaded, so a workflow can ask before its first job.
"""

import json
import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import read_json

# Qwen2.5's pre-tokenizer: words with one leading mark, single digits, runs of punctuation, line ends, spaces.
PRE_TOKENIZER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# all that is read of a tokenizer; only the first must be there
FILES = [
    *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    *("special_tokens_map.json", "generation_config.json", "config.json"),
]
# What ends a document where a model has it: an instruction-tuned model's own end token ends a turn.
ENDS = ("<|endoftext|>", "<|end_of_text|>")
# prefix, suffix and middle, as Qwen2.5-Coder and CodeGemma, StarCoder, SantaCoder, DeepSeek-Coder, CodeLlama write them
FIM = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)
INFILL_END = "▁<EOT>"  # with which CodeLlama ends a middle
NAMES = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")

# what frames files and tool calls in models of Qwen2.5's and StarCoder's kind; not special in Qwen2.5
FRAMES = ("<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", "<|file_separator|>", "<fim_pad>", "<file_sep>")
FRAMES += ("<repo_name>", "<tool_call>", "</tool_call>")
RESERVED = {*(token for tokens in FIM for token in tokens), *FRAMES}

# Added tokens that stand for text: runs of blanks, words and HTML tags, as in Gemma and GPT-NeoX; and whatever else is
# not special, as a user's own `<entity>` or `[CITE]`, unless it is in brackets and the chat template writes it, or it
# frames files or tool calls.
BRACKETED = re.compile(r"[▁ ]?[<\[|｜{].*[>\]|｜}]", re.DOTALL)
HTML = re.compile(
    r"</?(table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|a|b|i|u|s|sub|sup|code|html|body|img|span"
    r"|bbox|ul|ol|li|p|div|iframe|footer)>"
)


BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def is_byte(token: dict) -> bool:
    return BYTE.fullmatch(token["content"]) is not None


def is_text(token: dict, template: str) -> bool:
    """Whether an added token is a piece of text, which a source file or a chat may hold. `template`: for chats."""
    content = token["content"]
    if token.get("special") or content in RESERVED:
        return False
    return HTML.fullmatch(content) is not None or not BRACKETED.fullmatch(content) or content not in template


class Strips(NamedTuple):
    """Ids of control tokens that take the blanks on their left, and on their right."""

    left: set[int]
    right: set[int]


class TokenizerFiles:
    """The files of the tokenizer in a folder.

    Attributes:
        description: the content of tokenizer.json.
        added: its added tokens.
        vocabulary: token → id, of the model and the added tokens.
        names: `eos_token` and the like → the token.
        unknown: the id for what the vocabulary has no token for; None where there is none.
        controls: control token → id.

    Raises:
        UserError: there is no tokenizer.json, or it does not describe a tokenizer.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / "tokenizer.json"
        if not self.path.is_file():
            raise UserError(f"{folder}: has no tokenizer.json; give a model folder with a fast tokenizer")
        self.description = read_json(self.path)
        try:
            # a byte of byte fallback is in the model's vocabulary, and is no text
            self.added = [token for token in self.description.get("added_tokens") or [] if not is_byte(token)]
            model = self.description["model"]
            if isinstance(model["vocab"], dict):
                self.vocabulary = dict(model["vocab"])
            else:  # Unigram: (token, log probability) in the order of the ids
                self.vocabulary = {entry[0]: number for number, entry in enumerate(model["vocab"])}
            self.model_vocabulary = 1 + max(self.vocabulary.values(), default=-1)
            self.vocabulary.update({token["content"]: token["id"] for token in self.added})
            self.vocab_size = 1 + max(self.vocabulary.values())
            self.names = self.named()
            self.controls = {token["content"]: token["id"] for token in self.added if not is_text(token, self.template)}
            self.unknown = self.vocabulary.get(model.get("unk_token"), model.get("unk_id"))
            named = [token for token, number in self.vocabulary.items() if number == self.unknown]
            named += self.names.values()
            self.controls.update({token: self.vocabulary[token] for token in named if token in self.vocabulary})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.path}: not a tokenizer of the tokenizers library: {error!r}; give a model folder with a fast"
                " tokenizer"
            ) from error

    def read(self, name: str) -> dict:
        path = self.folder / name
        content = read_json(path) if path.is_file() else {}
        if isinstance(content, dict):
            return content
        return {}

    @cached_property
    def config(self) -> dict:
        return self.read("tokenizer_config.json")

    @cached_property
    def template(self) -> str:
        """The text of the chat templates of the folder's files; empty without any."""
        path = self.folder / "chat_template.jinja"
        if path.is_file():
            return path.read_text(encoding="utf-8", errors="replace")
        return json.dumps(self.config.get("chat_template") or "", ensure_ascii=False)

    def named(self) -> dict[str, str]:
        """The tokens that the folder's files name: tokenizer_config.json first, the model's own ids last."""
        names = {}
        for place in (self.config, self.read("special_tokens_map.json")):
            for name in NAMES:
                token = place.get(name)
                if isinstance(token, dict):
                    token = token.get("content")
                if name not in names and isinstance(token, str) and token:
                    names[name] = token
        tokens = {number: token for token, number in self.vocabulary.items()}
        for place in (self.read("generation_config.json"), self.read("config.json")):
            for name in NAMES[:3]:
                number = place.get(f"{name}_id")
                if isinstance(number, list) and number:
                    number = number[0]
                if name not in names and number in tokens:
                    names[name] = tokens[number]
        return names

    @cached_property
    def end(self) -> int:
        """The id of the token that ends a document. Raises UserError: no file names one."""
        own = self.names.get("eos_token")
        ends = [own] if own in ENDS else [*ENDS, own, self.names.get("sep_token")]
        for token in ends:
            if token in self.controls:
                return self.controls[token]
        raise UserError(
            f"{self.folder}: no file names the token that ends a text; give eos_token in tokenizer_config.json"
        )

    @cached_property
    def lead(self) -> list[int]:
        """The ids that the tokenizer puts before a text, as `<bos>`: of its template, or as its configuration says."""
        ids = []
        processor = self.description.get("post_processor") or {}
        for part in [processor, *(processor.get("processors") or [])]:
            if part.get("type") == "TemplateProcessing":
                for item in part["single"]:
                    if "Sequence" in item:
                        break
                    ids += part["special_tokens"][item["SpecialToken"]["id"]]["ids"]
            elif part.get("type") in ("BertProcessing", "RobertaProcessing"):
                ids.append(part["cls"][1])
        beginning = self.names.get("bos_token")
        if self.config.get("add_bos_token") is False:
            return []
        if self.config.get("add_bos_token") and not ids and beginning in self.controls:
            return [self.controls[beginning]]
        return ids

    @cached_property
    def strips(self) -> "Strips":
        """Control tokens beside which the library drops blanks."""
        controls = [token for token in self.added if token["content"] in self.controls]
        left = {token["id"] for token in controls if token.get("lstrip")}
        return Strips(left, {token["id"] for token in controls if token.get("rstrip")})

    @property
    def pad(self) -> int:
        """The id of the token that fills a row."""
        return self.controls.get(self.names.get("pad_token"), self.end)

    def find(self, token: str) -> int | None:
        """The id of a control token, spelled as Qwen2.5 has it, or without the bars as StarCoder has it."""
        return self.controls.get(token, self.controls.get(token.replace("<|", "<").replace("|>", ">")))

    @property
    def infill(self) -> tuple[int, int, int] | None:
        """The ids of prefix, suffix and middle of fill-in-the-middle; None without them."""
        for tokens in FIM:
            if all(token in self.controls for token in tokens):
                return tuple(self.controls[token] for token in tokens)
        return None


# A byte-level vocabulary writes a printable byte as itself, the others as 256, 257, ... in order.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {256 + rank: byte for rank, byte in enumerate(sorted(set(range(256)) - set(PRINTABLE)))}


def spelled_tokens(files: TokenizerFiles) -> list[bytes]:
    """The bytes of each id; none for control tokens and for ids without a token.

    Byte-level vocabularies write a byte as a character. SentencePiece's write a blank as `▁`, and a byte that has no
    token of its own as `<0xE4>`. WordPiece marks what continues a word, and WordLevel has whole words; blanks before
    the others are one byte here, whatever the text had.
    """
    description = files.description
    model = description["model"]
    parts = [description.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")]
    components = json.dumps(parts, ensure_ascii=False)
    byte_level, metaspace = '"ByteLevel"' in components, "▁" in components
    byte_fallback = model.get("byte_fallback") or '"ByteFallback"' in components
    continuing, word_end = model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")
    kind = model.get("type")

    spelled = [b""] * files.vocab_size
    added = {token["content"] for token in files.added}
    for token, number in files.vocabulary.items():
        if token in files.controls:
            continue
        if byte_level and token not in added:
            try:
                spelled[number] = token.translate(BYTE_OF).encode("latin-1")
            except UnicodeEncodeError:  # no byte is written so
                spelled[number] = token.encode()
            continue
        if byte_fallback and BYTE.fullmatch(token):
            spelled[number] = bytes([int(token[3:5], 16)])
            continue
        text = token.replace("▁", " ") if metaspace else token
        if continuing and text.startswith(continuing):
            text = text.removeprefix(continuing)
        elif kind in ("WordPiece", "WordLevel") and not metaspace:
            text = f" {text}"
        if word_end and text.endswith(word_end):
            text = text.removesuffix(word_end) + " "
        spelled[number] = text.encode("utf-8", "surrogatepass")
    return spelled
