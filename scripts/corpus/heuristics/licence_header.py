"""The licence that the header of a file names, as an SPDX expression.

    licence_in(b"// SPDX-License-Identifier: MIT OR Apache-2.0")      # "MIT OR Apache-2.0"
    licence_in(b"/* Licensed under the Apache License, Version 2.0")   # "Apache-2.0"
    licence_in(b"int main() {")                                        # None

An SPDX identifier wins; otherwise phrases that occur in one licence only are searched for, special cases first. Nothing
is assumed that the header does not say, such as "or later".
"""

import re

import re2

from scripts.corpus.heuristics.byte_patterns import byte_options

HEAD = 4096  # bytes; headers with the whole text of BSD or MIT have about 1,500
SPDX = re.compile(
    rb"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+() :/-]{2,200}?)[ \t]*(?:\*/|-->|[\"'`,;]|\\n|\r|\n|$)", re.I
)
EXPRESSION = re.compile(r"\(*[A-Za-z0-9][A-Za-z0-9.+:-]*\)*(?: (?:AND|OR|WITH) \(*[A-Za-z0-9][A-Za-z0-9.+:-]*\)*)*")
HINT = rb"licen[sc]e|permission|redistribution|public domain|confidential"  # without one no header is looked at
# comment marks and punctuation, which differ between copies, count as spaces
MARKS = b"*/#;!|\"'(),-"
PLAIN = bytes.maketrans(MARKS, b" " * len(MARKS))
GNU_NAMES = {"affero general public license": "AGPL", "lesser general public license": "LGPL",
             "library general public license": "LGPL", "general public license": "GPL"}  # fmt: skip
TEXTS = [
    ("apache license version 2.0", "Apache-2.0"),
    ("apache 2.0 license", "Apache-2.0"),
    ("mozilla public license v. 2.0", "MPL-2.0"),
    ("mozilla public license version 2.0", "MPL-2.0"),
    ("eclipse public license v2.0", "EPL-2.0"),
    ("eclipse public license v 2.0", "EPL-2.0"),
    ("eclipse public license 2.0", "EPL-2.0"),
    ("eclipse public license v1.0", "EPL-1.0"),
    ("eclipse public license v 1.0", "EPL-1.0"),
    ("boost software license", "BSL-1.0"),
    ("free and unencumbered software released into the public domain", "Unlicense"),
    ("cc0 1.0", "CC0-1.0"),
    ("permission to use copy modify and or distribute this software for any purpose", "ISC"),
    ("permission to use copy modify and distribute this software for any purpose", "ISC"),
    ("permission is hereby granted free of charge to any person obtaining a copy", "MIT"),
    ("used to endorse or promote products derived from", "BSD-3-Clause"),
    ("redistributions in binary form must reproduce the above copyright notice", "BSD-2-Clause"),
    ("altered source versions must be plainly marked as such", "Zlib"),
    ("governed by a bsd style license", "BSD-3-Clause"),
    ("under the bsd 3 clause", "BSD-3-Clause"),
    ("under the bsd 2 clause", "BSD-2-Clause"),
    ("governed by an mit style license", "MIT"),
    ("under the mit license", "MIT"),
    ("under the terms of the mit license", "MIT"),
    ("license: mit", "MIT"),
    ("proprietary and confidential", "LicenseRef-Proprietary"),
    ("confidential and proprietary", "LicenseRef-Proprietary"),
    ("placed in the public domain", "LicenseRef-Public-Domain"),
    ("released to the public domain", "LicenseRef-Public-Domain"),
]


def phrase(words: str) -> bytes:
    """The expression for words with white space and comment marks between them."""
    between = rb"[\s\v%b]+" % re.escape(MARKS)
    return between.join(re.escape(word).encode() for word in words.split())


def all_signs() -> re2.Set:
    """A set that finds in one pass, by number: the phrases of TEXTS, a GNU licence, an SPDX identifier, a hint."""
    result = re2.Set.SearchSet(byte_options(case_sensitive=False))
    for words, _ in TEXTS:
        result.Add(phrase(words))
    result.Add(b"|".join(phrase(f"gnu {name}") for name in GNU_NAMES))
    result.Add(b"spdx-license-identifier:")
    result.Add(HINT)
    result.Compile()
    return result


SIGNS = all_signs()
GNU, IDENTIFIER, HINTED = range(len(TEXTS), len(TEXTS) + 3)


def plain(head: bytes) -> str:
    """A header in lower case, without comment marks, its words separated by one space."""
    return b" ".join(head.lower().translate(PLAIN).split()).decode("ascii", "replace")


def gnu_licence(text: str) -> str | None:
    """The SPDX identifier of a GNU licence that a header names together with its version; None without a version."""
    for name, short in GNU_NAMES.items():
        match = re.search(rf"gnu {name}.{{0,160}}?\bv(?:ersion ?)?([123](?:\.[01])?)\b(.{{0,80}}any later)?", text)
        if match:
            version = match[1] if "." in match[1] else f"{match[1]}.0"
            return f"{short}-{version}-{'or-later' if match[2] else 'only'}"
    return None


def licence_in(raw: bytes) -> str | None:
    """The SPDX expression of the licence in the header of a file; None if it names no known licence."""
    head = raw[:HEAD]
    signs = SIGNS.Match(head) or ()
    if HINTED not in signs:
        return None
    spdx = SPDX.findall(head) if IDENTIFIER in signs else []
    # `MIT/Apache-2.0` is how Cargo wrote a choice before SPDX expressions
    spdx = [re.sub(r"(?<=\w)/(?=\w)", " OR ", expression.decode()) for expression in dict.fromkeys(spdx)]
    expressions = [" ".join(expression.split()) for expression in spdx]
    expressions = [expression for expression in expressions if EXPRESSION.fullmatch(expression)]
    if len(expressions) == 1:
        return expressions[0]
    if expressions:
        return " AND ".join(f"({expression})" if " " in expression else expression for expression in expressions)
    if GNU in signs:
        licence = gnu_licence(plain(head))
        if licence:
            return licence
    first = min(signs)
    return TEXTS[first][1] if first < len(TEXTS) else None
