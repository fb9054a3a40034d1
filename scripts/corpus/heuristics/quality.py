"""Quality filters on the characters of a text.

The Stack (arXiv 2211.15533): line lengths, share of alphanumeric characters. StarCoder2 (arXiv 2402.19173): markers of
generated files, encoded data.

Bytes methods (`translate`, `count`, `find`) do most of the work at hundreds of MB/s; expressions of `re` run only on
texts in which RE2 found such data. There is no compiled kernel, since importing one takes longer than filtering a
typical source.
"""

import re
from functools import cache

import re2

from scripts.experiment.settings.corpus import Filter


def byte_options(**chosen: object) -> re2.Options:
    """RE2's options for texts as bytes, valid UTF-8 or not: each byte is a character. `chosen` are further ones.

    RE2's `\\s` has no vertical tab, unlike that of `re`.
    """
    result = re2.Options()
    result.encoding, result.log_errors = re2.Options.Encoding.LATIN1, False
    for name, value in chosen.items():
        setattr(result, name, value)
    return result


ASCII = bytes(range(128))
ALPHANUMERIC = bytes(code for code in ASCII if chr(code).isalnum())
BOM = b"\xef\xbb\xbf"
LONE_RETURN = re.compile(rb"\r(?!\n)")
BIDIRECTIONAL = re.compile(rb"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")  # U+202A to U+202E, U+2066 to U+2069
REPLACEMENT, MOST_LOST = "\ufffd".encode(), 0.002  # most of a text's characters that may be U+FFFD
LATIN = re.compile(rb"\xc3[\x82-\xb4]")  # a letter as which the first byte of a character of UTF-8 is read
# the bytes 0x80 to 0xBF as Windows-1252 and Latin-1 read them; behind them the first byte of two, three or four
FURTHER = "[\u0080-\u00bf" + bytes(set(range(0x80, 0xA0)) - {0x81, 0x8D, 0x8F, 0x90, 0x9D}).decode("cp1252") + "]"
MOJIBAKE = re.compile(f"[Â-ß]{FURTHER}|[à-ï]{FURTHER}{{2}}|[ð-ô]{FURTHER}{{3}}")
LONG_LINE, LONG_MEAN = 1000, 100  # most characters of a line, and of the lines on average (The Stack)
LETTERS_AND_DIGITS = 0.25  # the least share of them (The Stack)
HEAD_LINES = 10  # the first lines, which are searched for markers of a generated file
ENCODED_RUN = 1024  # most characters of one run of base64, hex or \u-escaped data (StarCoder2)
ENCODED_SHARE = 0.5  # most of a text that may be such data (StarCoder2)

# What generators write at the top of a file: protoc, Thrift, Bison, flex, moc, uic, SWIG, Cython, ANTLR and others, as
# in linguist's generated.rb. A text about what something generates has none of it.
GENERATED = [
    r"@generated\b",
    r"<auto-?generated",
    r"\b(?:auto(?:matically)?|machine)[ -]?generated (?:by|from|file|code|using|with|parser|source|do not)\b",
    r"\bthis (?:file|code|source|class|module|header|script|document)\b[\w ]{0,30} (?:is|was|has been) (?:\w+[ -]){0,2}"
    r"(?:generated|created automatically)",
    r"^\W*(?:(?:code|file|source|class|this)\W+)?(?:auto|automatically|machine)?[ -]?generated\W*$",
    r"^\W*(?:code|file|source) generated (?:by|from|with|using|on)\b",
    r"^\W*(?-i:Generated|GENERATED) (?:by|from|with|using|code|file)\b",
    r"\bdo not (?:edit|modify)(?: (?:this|by|manually|it|or|directly)\b|\W*$)",
    r"\ba (?:bison|yacc) parser\b|\blexical scanner generated\b|\bmeta object code from reading\b",
    r"\bform generated from reading\b|\bresource object code\b",
    r"\b(?:created|made|produced|written|emitted) (?:automatically )?by:? (?:gnu |the )?"
    r"(?:bison|byacc|yacc|flex|qt |swig|gperf|re2c|f2c|antlr|javacc|cython|protoc)",
    # pages of documentation: doxygen, rustdoc, Sphinx and pdoc name themselves so; jazzy and JSDoc do not
    r"<meta [^>]*name=[\"']?generator\b|\bcss/jazzy\.css\b|<title>JSDoc: ",
]

# StarCoder2's `[a-zA-Z0-9+/\n=]{64,}` needs no regular expression: its runs are the runs of one class.
BASE64_CLASS = bytes(ord("a" if code in ALPHANUMERIC + b"+/\n=" else ".") for code in range(256))
BASE64_RUN = b"a" * 64
# StarCoder2's `(?:\b(?:0x|\\x)?[0-9a-fA-F]{2}(?:,|\b\s*)){8,}`, corrected in two places: it missed bytes separated
# by ", " (as in C arrays), and the first `\x` after a quote.
HEX = re.compile(rb"(?:(?:\b(?:0x)?|\\x)[0-9a-fA-F]{2}\b,?+\s*+){8,}")
UNICODE = re.compile(rb"(?:\\u[0-9a-fA-F]{4}){8,}")


def encoded_kinds() -> re2.Set:
    """A set that tells in one pass whether a text holds a run of base64 (0), hex (1) or \\u-escaped data (2).

    RE2 knows no possessive repeats; without them the expression for hex matches at least what it matched.
    """
    result = re2.Set.SearchSet(byte_options())
    result.Add(rb"[a-zA-Z0-9+/\n=]{64}")
    result.Add(rb"(?:(?:\b(?:0x)?|\\x)[0-9a-fA-F]{2}\b,?[\s\v]*){8}")
    result.Add(rb"(?:\\u[0-9a-fA-F]{4}){8}")
    result.Compile()
    return result


ENCODED_KINDS = encoded_kinds()


@cache
def generated(markers: tuple[str, ...]) -> re2._Regexp:
    """What finds any of the markers of generated files."""
    return re2.compile(("(?im)" + "|".join(f"(?:{marker})" for marker in markers)).encode(), byte_options())


class Dropped(Exception):
    """A filter rejects the text: `reason` is the filter's short name, `detail` the value that it rejected."""

    def __init__(self, reason: str, detail: str):
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def decode(raw: bytes) -> tuple[bytes, str]:
    """A file's content as (UTF-8 bytes, text), without a byte order mark; its lines end with a line feed. Raises
    Dropped: `encoding` or `binary`."""
    raw = raw.removeprefix(BOM)
    if b"\r" in raw and raw.count(b"\r") - raw.count(b"\r\n") > raw.count(b"\n"):
        raw = LONE_RETURN.sub(b"\n", raw)  # lines that end with a carriage return alone, as on the first Macintosh
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Dropped("encoding", f"not UTF-8 at byte {error.start}: {error.reason}") from error
    if b"\0" in raw:
        raise Dropped("binary", f"NUL at byte {raw.index(0)}")
    return raw, text


def check_characters(raw: bytes, text: str) -> None:
    """Refuse a text whose characters were damaged, or which shows other lines than a compiler reads.

    Args:
        raw: the UTF-8 of `text`.

    Raises:
        Dropped: `bidirectional` (a control character that reverses what follows, CVE-2021-42574), `replacement` (a run
            of U+FFFD, or many), `mojibake` (UTF-8 that was read as Windows-1252 and written again).
    """
    if raw.isascii():
        return
    control = BIDIRECTIONAL.search(raw)
    if control:
        raise Dropped("bidirectional", f"U+{ord(control[0].decode()):04X} at byte {control.start()}")
    lost = raw.count(REPLACEMENT)
    if lost and (REPLACEMENT * 3 in raw or lost > MOST_LOST * len(text)):
        raise Dropped("replacement", f"{lost} characters U+FFFD")
    garbled = []
    if LATIN.search(raw):
        garbled = [len(match[0]) for match in MOJIBAKE.finditer(text)]
    others = len(raw.translate(None, ASCII).decode())
    if len(garbled) > 2 and sum(garbled) > 0.5 * others:
        raise Dropped("mojibake", f"{len(garbled)} characters")


def has_long_line(raw: bytes, limit: int) -> bool:
    """Whether a line has more than `limit` bytes. Each step jumps to the last line end within `limit` bytes."""
    position = 0
    while len(raw) - position > limit:
        end = raw.rfind(b"\n", position, position + limit + 1)
        if end < 0:
            return True
        position = end + 1
    return False


def ascii_alphanumeric(raw: bytes) -> int:
    """How many bytes are ASCII letters or digits."""
    return len(raw) - len(raw.translate(None, ALPHANUMERIC))


def count_alphanumeric(raw: bytes, text: str) -> int:
    """How many characters of `text` are letters or digits by `str.isalnum`; `raw` is its UTF-8."""
    count = ascii_alphanumeric(raw)
    if not raw.isascii():
        # in UTF-8 no byte of a longer character is ASCII: without ASCII bytes exactly these characters are left
        count += sum(map(str.isalnum, raw.translate(None, ASCII).decode()))
    return count


def base64_runs(raw: bytes) -> list[int]:
    """Lengths of the runs of base64 data in `raw`."""
    lengths, marked = [], raw.translate(BASE64_CLASS)
    start = marked.find(BASE64_RUN)
    while start >= 0:
        end = marked.find(b".", start)
        if end < 0:
            end = len(marked)
        lengths.append(end - start)
        start = marked.find(BASE64_RUN, end)
    return lengths


def encoded_runs(raw: bytes) -> list[int]:
    """Lengths (characters) of all runs of base64, hex and \\u-escaped data; all are ASCII."""
    runs, kinds = [], ENCODED_KINDS.Match(raw) or ()
    if 0 in kinds:
        runs += base64_runs(raw)
    for kind, expression in ((1, HEX), (2, UNICODE)):
        if kind in kinds:
            runs += [match.end() - match.start() for match in expression.finditer(raw)]
    return runs


def check_quality(raw: bytes, text: str, settings: Filter) -> None:
    """Apply the quality filters to `text`; `raw` is its UTF-8.

    A line ends with "\\n" (a "\\r" before it belongs to the line); after the last one there is no further line.

    Raises:
        Dropped: by the first filter that rejects the text.
    """
    characters = len(text)
    if characters < settings.min_characters:
        raise Dropped("too_short", f"{characters} characters")
    if characters > settings.max_characters:
        raise Dropped("too_long", f"{characters} characters")
    newlines = raw.count(b"\n")
    lines = newlines + (not raw.endswith(b"\n") and characters > 0)
    if lines < settings.min_lines:
        raise Dropped("few_lines", f"{lines} lines")
    if has_long_line(raw, LONG_LINE):  # in bytes; in characters it may pass
        longest = max(map(len, text.split("\n")))
        if longest > LONG_LINE:
            raise Dropped("long_line", f"{longest} characters")
    mean = (characters - newlines) / max(lines, 1)
    if mean > LONG_MEAN:
        raise Dropped("mean_line", f"{mean:.1f} characters")
    # most texts have enough of them in their first part
    share = ascii_alphanumeric(raw[: int(2 * LETTERS_AND_DIGITS * characters)]) / max(characters, 1)
    if share < LETTERS_AND_DIGITS:
        share = count_alphanumeric(raw, text) / max(characters, 1)
    if share < LETTERS_AND_DIGITS:
        raise Dropped("alphanumeric", f"{share:.1%}")
    end = -1
    for _ in range(min(HEAD_LINES, lines)):
        end = raw.find(b"\n", end + 1)
    head = raw[:end] if end >= 0 else raw
    marker = generated(tuple(GENERATED)).search(head)
    if marker:
        raise Dropped("generated", " ".join(marker[0].decode("utf-8", "replace").split()))
    runs = encoded_runs(raw)
    if runs and max(runs) > ENCODED_RUN:
        raise Dropped("encoded_data", f"a run of {max(runs)} characters")
    if sum(runs) > ENCODED_SHARE * characters:
        raise Dropped("encoded_data", f"{sum(runs) / characters:.1%} of the characters")
