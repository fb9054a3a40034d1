"""Whether a header (`.h`) is C or C++, by its content.

    header_language(b"namespace a { class B; }")       # "cpp"

Comments, strings and what `#ifdef __cplusplus` encloses, as the `extern "C"` of a C header, are taken away; of the rest
linguist's patterns for C++ headers are searched, and words that C cannot have in such places.
"""

import re

import re2

from scripts.corpus.heuristics.quality import byte_options

# What is not looked at: in one pass, so that a quote in a comment or a comment sign in a string misleads nothing. The
# region of `#ifdef __cplusplus` may hold other complete conditions; it ends at its own #else, #elif or #endif.
ASIDE = re.compile(
    rb"//[^\n]*+(?:\\\n[^\n]*+)*+|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?", re.DOTALL
)
CONDITION = re.compile(rb"^[ \t]*#[ \t]*(if(?:n?def)?|elif|else|endif)\b([^\n]*(?:\\\n[^\n]*)*)", re.MULTILINE)
NEGATED = re.compile(rb"![ \t]*(?:defined)?[ \t(]*__cplusplus")
SIGNS_OF_CPP = (
    # headers of the standard library
    rb"""^[ \t]*#[ \t]*include[ \t]*<(?:algorithm|any|array|atomic|bitset|cassert|c(?:float|limits|math|stddef|stdint"""
    rb"""|stdio|stdlib|string|time)|chrono|deque|exception|filesystem|forward_list|fstream|functional|future"""
    rb"""|initializer_list|[io]?o?stream|[io]?sstream|iomanip|iosfwd|iterator|limits|list|map|memory|mutex|numeric"""
    rb"""|optional|queue|random|regex|set|span|sstream|stack|stdexcept|string|string_view|thread|tuple|typeindex"""
    rb"""|typeinfo|type_traits|unordered_map|unordered_set|utility|variant|vector)>""",
    rb"^[ \t]*template[ \t]*<",
    rb"^[ \t]*(?:inline[ \t]+)?namespace(?:[ \t]+[\w:]+)?[\s\v]*\{",
    rb"^[ \t]*using[ \t]+(?:namespace[ \t]+\w|\w+[ \t]*=|[\w:]+::\w+[ \t]*;)",
    rb"^[ \t]*(?:enum[ \t]+)?class[ \t]+(?:\w+[ \t]+)*\w+(?:[ \t]+final)?[\s\v]*(?:[:{;]|$)",
    rb"^[ \t]*(?:struct[ \t]+\w+[ \t]*:[ \t]*)(?:public|private|protected|\w)",
    rb"^[ \t]*(?:private|public|protected)[ \t]*:[ \t]*(?:\r?$)",
    rb"^[ \t]*(?:virtual|explicit|friend|constexpr)[ \t]+[\w~]",
    rb"\b(?:static|const|dynamic|reinterpret)_cast[ \t]*<",
    rb"\b\w+[ \t]*::[ \t]*~?\w+",
    rb"\boperator[ \t]*(?:[-+*/%^&|~!=<>]+|\(\)|\[\])[ \t]*\(",
    rb"=[ \t]*(?:delete|default)[ \t]*;",
    rb"\bnoexcept\b|\bdecltype[ \t]*\(|\bstd::",
)
# `re` takes 60 times as long where it finds nothing
CPP = re2.compile(b"(?m)" + b"|".join(SIGNS_OF_CPP), byte_options())
START = 2048  # bytes, among which most headers of C++ show that they are


def without_cplusplus(source: bytes) -> bytes:
    """The lines of a header that a C compiler sees, as far as `__cplusplus` alone decides."""
    kept, at = [], 0
    hidden, depth = [], 0  # of the open conditions, whether each hides its lines; how many do
    for line in CONDITION.finditer(source):
        if not depth:
            kept.append(source[at : line.start()])
        at = line.end()
        word, rest = line[1], line[2]
        for_cplusplus = b"__cplusplus" in rest
        if word.startswith(b"if"):
            negated = word == b"ifndef" or NEGATED.search(rest) is not None
            hidden.append(for_cplusplus and not negated)
            depth += hidden[-1]
        elif hidden:
            depth -= hidden.pop()
            if word != b"endif":
                hidden.append(False)
    if not depth:
        kept.append(source[at:])
    return b"\n".join(kept)


def is_cpp(source: bytes) -> bool:
    """Whether a header without comments and strings is C++."""
    return CPP.search(without_cplusplus(source)) is not None


def header_language(source: bytes) -> str:
    """ "c" or "cpp"."""
    start = ASIDE.sub(b" ", source[:START])
    # whole lines, as what stands behind the end of one changes nothing before it
    if is_cpp(start[: start.rfind(b"\n") + 1]) or is_cpp(ASIDE.sub(b" ", source)):
        return "cpp"
    return "c"
