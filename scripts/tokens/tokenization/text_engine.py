"""Text → ids, in which nothing is a control token: fastokens where its ids are the tokenizers library's, else that.

    engine = TextEngine(files)
    ids, offsets = engine.encode(["def main():\\n", "    pass\\n"])     # text i: ids[offsets[i]:offsets[i + 1]]

Most vocabularies of SentencePiece put a blank before a text. `engine.continued` is the engine without it, for a text
that goes on where another one stopped.

Some pre-tokenizers put each digit apart and then cut as GPT-2's: SmolLM2's, StarCoder2's. fastokens cuts GPT-2's words
at 120 MB/s, and digits at 5. Without the rule for digits its tokens are the same but at a digit behind several blanks,
of which GPT-2 leaves the last one to the number, and at digits beyond ASCII, whose bytes may merge with those beside
them. There the text is cut in advance (`DigitsAlone`): a part ends where the rule for digits would end it.
"""

import copy
import json
import re
import unicodedata
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import fastokens
import numpy as np
from tokenizers import Tokenizer

from scripts.common.errors import UserError
from scripts.tokens.tokenization.tokenizer_files import TokenizerFiles

ASCII_DIGIT = re.compile(r"[0-9]")
OTHER, BLANK, DIGIT, NUMERAL = range(4)  # kinds of characters; a numeral is none of ASCII's ten digits
LAST = 0x1FFFF  # Unicode has neither blanks nor numerals behind it, and it is none itself


@cache
def kinds() -> np.ndarray:
    """uint8 [LAST + 1]: the kind of each code point."""
    found = np.zeros(LAST + 1, np.uint8)
    for code in range(LAST):
        character = chr(code)
        if character.isspace():
            found[code] = BLANK
        elif "0" <= character <= "9":
            found[code] = DIGIT
        elif unicodedata.category(character).startswith("N"):
            found[code] = NUMERAL
    return found


def places(text: str) -> list[int]:
    """Where a text is cut, in ascending order."""
    if text.isascii():
        codes = np.frombuffer(text.encode(), np.uint8)
    else:
        codes = np.minimum(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), LAST)
    kind = kinds()[codes]
    starts = np.zeros(len(text) + 1, bool)
    starts[2:-1] = (kind[2:] == DIGIT) & (kind[1:-1] == BLANK) & (kind[:-2] == BLANK)
    numerals = np.flatnonzero(kind == NUMERAL)
    starts[numerals] = starts[numerals + 1] = True
    starts[0] = starts[-1] = False
    return np.flatnonzero(starts).tolist()


class DigitsAlone(NamedTuple):
    """A pre-tokenizer's rule that puts each digit apart. `description`: as tokenizer.json, without that rule.

    rule = DigitsAlone.of(description)      # None for another pre-tokenizer
    parts, last = rule.cut(texts)           # encode `parts` by a tokenizer of `rule.description`
    """

    description: dict

    @classmethod
    def of(cls, description: dict) -> Self | None:
        """The rule of a tokenizer; None where it has another one, or a token that holds a digit and more."""
        rules = (description.get("pre_tokenizer") or {}).get("pretokenizers") or []
        if [rule.get("type") for rule in rules] != ["Digits", "ByteLevel"] or description.get("normalizer"):
            return None
        digits, words = rules
        plain = words.get("use_regex", True) and not words.get("add_prefix_space")
        if not digits.get("individual_digits") or not plain:
            return None
        for merge in description["model"].get("merges", []):
            text = merge if isinstance(merge, str) else " ".join(merge)
            if ASCII_DIGIT.search(text):
                return None
        return cls(description | {"pre_tokenizer": words})

    def cut(self, texts: list[str]) -> tuple[list[str], np.ndarray]:
        """The parts of all texts, one after the other, and int64 [texts]: how many parts end with each text."""
        parts, ends = [], np.zeros(len(texts), np.int64)
        for number, text in enumerate(texts):
            for start, end in pairwise([0, *places(text), len(text)]):
                parts.append(text[start:end])
            ends[number] = len(parts)
        return parts, ends


# Parts of byte-level vocabularies, on which fastokens was compared (tests/tokens/kinds.py). Vocabularies of
# SentencePiece are left to the library: of random texts with control characters or CRLF a third got other ids.
FAST = {"NFC", "Split", "ByteLevel", "Digits", "Sequence"}
# Each engine is compared on these when it is loaded too: a pre-tokenizer may hold any regular expression.
SAMPLES = [
    "def main(a, b=1_000):\n\tif a:\r\n        return  [a , b]   # x\n\n\n}\n",
    "  I'LL don't HTTPServer2 camelCaseWord snake_case 0123456789 3.14e-10 ===>>> //// \t \t\n \n",
    "中文，标点。１２３ ٣٤٥ x² Ünïcödé e\u0301 \ufb01 Привет, мир! ελληνικά हिन्दी ภาษา 한국어",
    "👩‍👩‍👧‍👦🏳️‍🌈 \u202e\ufeff\u200b\x00\x7f\x85\u2028\U0010ffff\ufffd",
    "a" * 300 + " " * 300 + "\n" * 300 + "'s 's\u017f \u0130i <s></s> ▁▁ <0x0A>",
    *("", " ", "\n", " x", "x "),
]


def components(part: object) -> set[str]:
    """The types of a normalizer or pre-tokenizer and of all its parts."""
    if isinstance(part, list):
        return set().union(*map(components, part))
    if not isinstance(part, dict):
        return set()
    return {part[key] for key in ("type",) if isinstance(part.get(key), str)} | components(list(part.values()))


def hidden_controls(files: TokenizerFiles) -> dict:
    """tokenizer.json with control tokens under names that no text can hold, and without what would lose tokens.

    Their ids stay. Merges that make a control token out of text go; so do truncation, padding and dropout.
    """
    hidden = {token: f"\ufdd0{number}\ufdd1" for token, number in files.controls.items()}
    model = dict(files.description["model"])
    if model.get("dropout"):
        model["dropout"] = None
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        inside = hidden.keys() & vocabulary.keys()
        if inside:
            model["vocab"] = {hidden.get(token, token): number for token, number in vocabulary.items()}
            merges = []
            for merge in model.get("merges", []):
                left, right = merge.split(" ") if isinstance(merge, str) else merge
                if not inside & {left, right, left + right}:
                    merges.append(merge)
            if "merges" in model:
                model["merges"] = merges
    else:
        model["vocab"] = [[hidden.get(token, token), score] for token, score in vocabulary]
    if model.get("unk_token") in hidden:
        model["unk_token"] = hidden[model["unk_token"]]
    plain = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    added = []
    for token in files.added:
        added.append(token | plain | {"content": hidden[token["content"]]} if token["content"] in hidden else token)
    without = {"truncation": None, "padding": None, "post_processor": None}
    return files.description | without | {"model": model, "added_tokens": added}


def prefixes(description: dict) -> list[dict]:
    """The parts of a tokenizer's description that put a blank before a text."""
    found = []
    for part in (description.get("normalizer"), description.get("pre_tokenizer")):
        for item in [part, *((part or {}).get("normalizers") or []), *((part or {}).get("pretokenizers") or [])]:
            if not isinstance(item, dict):
                continue
            blank = item.get("type") == "Prepend"
            blank |= item.get("type") == "Metaspace" and item.get("prepend_scheme", "always") != "never"
            blank |= item.get("type") == "ByteLevel" and bool(item.get("add_prefix_space"))
            if blank:
                found.append(item)
    return found


def load_library(files: TokenizerFiles, description: dict | None = None) -> Tokenizer:
    """The tokenizers library's tokenizer; of the files' own description by default. Raises UserError: the library
    cannot load it."""
    try:
        return Tokenizer.from_str(json.dumps(description or files.description))
    except Exception as error:  # the library raises nothing narrower
        raise UserError(f"{files.path}: the tokenizers library cannot load it: {error}") from error


class TextEngine:
    """The engine of one tokenizer.

    Args:
        description: as tokenizer.json, without control tokens; `hidden_controls` of the files by default.

    Attributes:
        name: "fastokens" or "tokenizers".

    Raises:
        UserError: the tokenizers library cannot load the file.
    """

    def __init__(self, files: TokenizerFiles, description: dict | None = None):
        self.files = files
        self.description = description or hidden_controls(files)
        self.library = load_library(files, self.description)
        self.digits_alone = DigitsAlone.of(self.description)
        self.fast = self.fast_engine()
        self.name = "fastokens" if self.fast else "tokenizers"

    def fast_engine(self) -> fastokens.Tokenizer | None:
        """fastokens, if it gives the library's ids."""
        description = self.description
        if self.digits_alone:
            description = self.digits_alone.description
        used = components([description.get("normalizer"), description.get("pre_tokenizer")])
        if description["model"].get("type", "BPE") != "BPE" or not used <= FAST:
            return None
        pieces = [token["content"] for token in self.files.added if token["content"] not in self.files.controls]
        samples = SAMPLES + [f"x{piece} {piece * 2}y" for piece in pieces]
        try:
            fast = fastokens.Tokenizer.from_json_str(json.dumps(description))
            ours = self.fast_encode(fast, samples)
        except ValueError:
            return None
        theirs = self.library_encode(samples)
        if np.array_equal(ours[0], theirs[0]) and np.array_equal(ours[1], theirs[1]):
            return fast
        return None

    def fast_encode(self, fast: fastokens.Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """As `encode`, by fastokens. Raises ValueError: it cannot."""
        parts, last = texts, None
        if self.digits_alone:
            parts, last = self.digits_alone.cut(texts)
        flat, ends = fast.encode_batch_flat(parts)
        ids, offsets = np.frombuffer(flat, np.uint32), np.frombuffer(ends, np.uint64).astype(np.int64)
        if last is not None:
            offsets = offsets[np.concatenate([[0], last])]
        return ids, offsets

    def library_encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        encodings = self.library.encode_batch_fast(texts, add_special_tokens=False)
        lists = [encoding.ids for encoding in encodings]
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in lists], dtype=np.int64)])
        flat = np.empty(offsets[-1], np.uint32)
        for ids, start, end in zip(lists, offsets, offsets[1:], strict=False):
            flat[start:end] = ids
        return flat, offsets

    def encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """uint32 [tokens] of all texts, int64 [texts + 1] where each begins."""
        if not self.fast:
            return self.library_encode(texts)
        return self.fast_encode(self.fast, texts)

    def tokens_before(self, text: str, characters: int, sizes: np.ndarray) -> int:
        """How many tokens of a text begin within its first `characters`. `sizes`: int64 [tokens], the bytes of each
        token of the text."""
        if not self.fast:
            starts = [start for start, _ in self.library.encode(text, add_special_tokens=False).offsets]
            return int(np.searchsorted(starts, characters))
        # fastokens gives no offsets. Counted from the end, since a blank may have been put before the text.
        rest = text[characters:]
        normalizer = self.continued.library.normalizer
        if normalizer:
            rest = normalizer.normalize_str(rest)
        if self.blank_is_written:
            rest = rest.replace("▁", " ")
        return int(np.searchsorted(np.cumsum(sizes) - sizes, sizes.sum() - len(rest.encode())))

    @cached_property
    def blank_is_written(self) -> bool:
        """Whether tokens write a blank as `▁`."""
        return "▁" in json.dumps(self.description.get("normalizer"), ensure_ascii=False)

    @cached_property
    def continued(self) -> "TextEngine":
        """The engine for a text that goes on where another one stopped."""
        if not prefixes(self.description):
            return self
        parts = {part: copy.deepcopy(self.description.get(part)) for part in ("normalizer", "pre_tokenizer")}
        description = self.description | parts
        for item in prefixes(description):
            if item["type"] == "Prepend":
                item["prepend"] = ""
            elif item["type"] == "Metaspace":
                item |= {"prepend_scheme": "never", "add_prefix_space": False}
            else:
                item["add_prefix_space"] = False
        return TextEngine(self.files, description)

    @cached_property
    def after_control(self) -> "TextEngine":
        """The engine for a text behind a control token, as the library encodes it: only Metaspace's scheme `first`
        puts no blank there."""
        first = any(item.get("prepend_scheme") == "first" for item in prefixes(self.description))
        return self.continued if first else self
