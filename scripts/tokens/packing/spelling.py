"""Which bytes of a text each id of a vocabulary stands for.

    spelled_tokens(files)[5]      # b"def"

Byte-level vocabularies write a byte as a character. SentencePiece's write a blank as `▁`, and a byte that has no token
of its own as `<0xE4>`. WordPiece marks what continues a word, and WordLevel has whole words; blanks before the others
are one byte here, whatever the text had.
"""

import json

from scripts.tokens.packing.tokenizer_files import BYTE, TokenizerFiles

# A byte-level vocabulary writes a printable byte as itself, the others as 256, 257, ... in order.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {256 + rank: byte for rank, byte in enumerate(sorted(set(range(256)) - set(PRINTABLE)))}


def spelled_tokens(files: TokenizerFiles) -> list[bytes]:
    """The bytes of each id; none for control tokens and for ids without a token."""
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
