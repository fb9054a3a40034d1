"""Whether a header (`.h`) is C or C++, by its content.

    header_language(b"namespace a { class B; }")       # "cpp"

Comments, strings and what `#ifdef __cplusplus` encloses, as the `extern "C"` of a C header, are taken away; of the rest
linguist's patterns for C++ headers are searched, and words that C cannot have in such places.
"""

import re

# What is not looked at: in one pass, so that a quote in a comment or a comment sign in a string misleads nothing. The
# region of `#ifdef __cplusplus` may hold other complete conditions; it ends at its own #else, #elif or #endif.
ASIDE = re.compile(
    rb"//[^\n]*+(?:\\\n[^\n]*+)*+|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?", re.DOTALL
)
CONDITION = re.compile(rb"^[ \t]*#[ \t]*(if(?:n?def)?|elif|else|endif)\b([^\n]*(?:\\\n[^\n]*)*)", re.MULTILINE)
NEGATED = re.compile(rb"![ \t]*(?:defined)?[ \t(]*__cplusplus")
CPP = re.compile(
    rb"""
      ^[ \t]*\#[ \t]*include[ \t]*<(?:algorithm|any|array|atomic|bitset|cassert|c(?:float|limits|math|stddef|stdint
        |stdio|stdlib|string|time)|chrono|deque|exception|filesystem|forward_list|fstream|functional|future|initializer_list
        |[io]?o?stream|[io]?sstream|iomanip|iosfwd|iterator|limits|list|map|memory|mutex|numeric|optional|queue|random
        |regex|set|span|sstream|stack|stdexcept|string|string_view|thread|tuple|typeindex|typeinfo|type_traits
        |unordered_map|unordered_set|utility|variant|vector)>
    | ^[ \t]*template[ \t]*<
    | ^[ \t]*(?:inline[ \t]+)?namespace(?:[ \t]+[\w:]+)?\s*\{
    | ^[ \t]*using[ \t]+(?:namespace[ \t]+\w|\w+[ \t]*=|[\w:]+::\w+[ \t]*;)
    | ^[ \t]*(?:enum[ \t]+)?class[ \t]+(?:\w+[ \t]+)*\w+(?:[ \t]+final)?\s*(?:[:{;]|$)
    | ^[ \t]*(?:struct[ \t]+\w+[ \t]*:[ \t]*)(?:public|private|protected|\w)
    | ^[ \t]*(?:private|public|protected)[ \t]*:[ \t]*(?:\r?$)
    | ^[ \t]*(?:virtual|explicit|friend|constexpr)[ \t]+[\w~]
    | \b(?:static|const|dynamic|reinterpret)_cast[ \t]*<
    | \b\w+[ \t]*::[ \t]*~?\w+
    | \boperator[ \t]*(?:[-+*/%^&|~!=<>]+|\(\)|\[\])[ \t]*\(
    | =[ \t]*(?:delete|default)[ \t]*;
    | \bnoexcept\b | \bdecltype[ \t]*\( | \bstd::
    """,
    re.VERBOSE | re.MULTILINE,
)


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


def header_language(source: bytes) -> str:
    """ "c" or "cpp"."""
    return "cpp" if CPP.search(without_cplusplus(ASIDE.sub(b" ", source))) else "c"
