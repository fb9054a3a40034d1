"""Which licence a text declares: a notice above code, a line such as `License: GPLv3`, or the text of a licence.

    licence_in("Licensed under the Apache License, Version 2.0")         # "Apache-2.0"
    licence_in("Licensed under the terms of our agreement")              # "LicenseRef-other": which one is not known
    licence_in("the license is in the file LICENSE")                     # None: the text names none

Known are SPDX tags, and the names and texts of the licences that most code has. What names another one, or adds a
condition, is `LicenseRef-other`, and so is whatever else speaks of a licence. Several licences are joined by AND unless
the text offers a choice. Nothing is assumed that the text does not say, such as "or later". Of code the header is read:
the comments before it, in any language, as the marks that begin a line tell them.
"""

import re
from functools import lru_cache
from itertools import pairwise

import re2
from license_expression import ExpressionError

from scripts.licences.expressions import LICENSING

# marks that begin a comment line in some language, and the directives of C and C# that begin with one of them
LINE = re.compile(
    r"[ \t]*(?!#[ \t]*(?:if|ifdef|ifndef|elif|else|endif|define|undef|include|import|pragma|error|region|nullable)\b)"
    r"(//+[!/]*|#+[!:|]*|--+\[*|;+|%+|!+|\\\*|REM\b|dnl\b|\.\.(?=\s)|\"(?=[ \t])|'(?=[ \t]))(.*)",
    re.IGNORECASE,
)
OPENING = re.compile(r"[ \t]*(/\*+!?|<!--+|\(\*|\{-|<#|#\||#=|--\[=*\[|=begin\b|=pod\b|[rRuU]{0,2}(?:\"\"\"|\'\'\'))")
CLOSING = {"/*": "*/", "<!": "-->", "(*": "*)", "{-": "-}", "<#": "#>", "#|": "|#", "#=": "=#", "--": "]", "=b": "=end",
           "=p": "=cut", '""': '"""', "''": "'''"}  # fmt: skip
# lines of code that may stand before or within a header
PREAMBLE = re.compile(
    r"\s*$|\s*(?:<[?!%/\w]|#|[\"']use |@charset|__\w+__\s*="
    r"|(?:package|module|import|from|using|namespace|library)\b)"
)
DECLARED = re.compile(r"\s*__licen[sc]e__\s*(?::\s*str\s*)?=\s*[rbu]?[\"']+([^\"'\n]+)")
MARKS = re.compile(r"^[ \t]*(?:\*+(?!/)|#+|//+|\|)?[ \t]?", re.MULTILINE)  # of the lines inside a block comment


def until(text: str, mark: str, start: int) -> int:
    """Where a mark stands next, or the end of the text."""
    place = text.find(mark, start)
    return place if place >= 0 else len(text)


def header_of(text: str) -> str:
    """The comments before a text's code, without their marks; `__license__ = "..."` as a line `License: ...`."""
    found, at = [], 0
    while at < len(text):
        end = until(text, "\n", at)
        opening = OPENING.match(text, at, end)
        if opening:
            closing = until(text, CLOSING[opening[1].lstrip("rRuU")[:2]], opening.end())
            found.append(MARKS.sub("", text[opening.end() : closing]))
            end = until(text, "\n", closing)
        elif comment := LINE.match(text, at, end):
            found.append(comment[2].rstrip("\r"))
        elif licence := DECLARED.match(text, at, end):
            found.append(f"\nLicense: {licence[1]}\n")
        elif PREAMBLE.match(text, at, end):
            found.append("")
        else:
            break
        at = end + 1
    return "\n".join(found)


SPDX = re.compile(
    r"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+() :/-]{2,200}?)[ \t/*#;-]*(?:-->|[\"'`,]|\\n|\r|\n|$)", re.I
)
WORD = re.compile(r"[^\W\d_]+?(?=v\d)|v(?=\d)|[^\W\d_]+|\d+(?:\.\d+)*\+?")  # GPLv3 is `gpl`, `v`, `3`
TITLE = 40  # words of a licence's text that hold its title

V = r"(?: license)?,?(?: version| v)?"
# licence → its names, in a text's words; of several names that begin at a word the first counts
NAMES = {
    "Apache-2.0": rf"apache(?: software)?{V} 2(?:\.0)?|asl 2(?:\.0)?",
    "BSD-2-Clause": r"bsd 2(?: clause)?|(?:2|two) clause bsd|simplified bsd|freebsd",
    "BSD-4-Clause": r"bsd 4(?: clause)?|(?:4|four) clause bsd",
    "BSD-3-Clause": r"(?:new |modified |revised |(?:3|three) clause )?bsd(?: 3)?(?: clause)?",
    "MIT": r"mit|expat",
    "ISC": r"isc",
    "PSF-2.0": rf"psf(?:{V} 2(?:\.0)?)?|python software foundation",
    "Zlib": r"zlib(?: libpng)?",
    "Unlicense": r"unlicense",
    "0BSD": r"0 bsd|zero clause bsd",
    "CC0-1.0": r"cc 0(?: 1(?:\.0)?)?(?: universal)?|creative commons zero|publicdomain zero 1\.0",
    "BSL-1.0": rf"boost(?: software)?{V}(?: 1(?:\.0)?)?|bsl 1(?:\.0)?",
    "MPL-1.1": rf"(?:mozilla public|mpl){V} 1\.1",
    "MPL-2.0": rf"(?:mozilla public|mpl){V} 2(?:\.0)?",
    "EPL-1.0": rf"(?:eclipse public|epl){V} 1(?:\.0)?",
    "EPL-2.0": rf"(?:eclipse public|epl){V} 2(?:\.0)?",
    "AGPL": r"agpl",
    "LGPL": r"lgpl",
    "GPL": r"gpl",
}
NAME = re.compile("|".join(rf"(?P<g{number}>\b(?:{names})(?!\S))" for number, names in enumerate(NAMES.values())))
ACRONYM_VERSION = re.compile(r"(?: license)?(?: version| v)? ?([123](?:\.[01])?)(\+| or later)?(?!\S)")
# Sentences of licences' texts, the narrower first within each group; the first that occurs counts.
SENTENCES = [
    [
        ("the name of a copyright holder shall not be used in advertising", "curl"),
        ("permission to use copy modify and or distribute this software for any purpose", "ISC"),
        ("permission to use copy modify and distribute this software for any purpose", "ISC"),
        ("permission to use copy modify and distribute this software and its documentation", "HPND"),
        ("permission to use copy modify and distribute this software and its associated documentation", "HPND"),
        ("permission to use copy modify distribute and sell this software and its documentation", "HPND-sell-variant"),
    ],
    [("permission is hereby granted free of charge to any person obtaining a copy", "MIT")],
    [
        ("all advertising materials mentioning features or use of this software", "BSD-4-Clause"),
        ("used to endorse or promote products derived from", "BSD-3-Clause"),
        ("redistributions in binary form must reproduce the above copyright notice", "BSD-2-Clause"),
    ],
    [("altered source versions must be plainly marked as such", "Zlib")],
    [("free and unencumbered software released into the public domain", "Unlicense")],
    [("permission is hereby granted free of charge to any person or organization obtaining a copy", "BSL-1.0")],
    [("apache org licenses license 2.0", "Apache-2.0")],
    [("mit style license", "MIT"), ("bsd style license", "BSD-3-Clause")],
]
PUBLIC_DOMAIN = "LicenseRef-scancode-public-domain"
OTHER = "LicenseRef-other"
DEDICATED = re.compile(
    r"(?:placed|put|released|dedicated) (?:in|into|to|under)(?: the)? public domain|is in the public domain"
    r"|(?:file|code|program) is public domain|dedicated .{0,90}to the public domain"
)
GNU = {"affero general public license": "AGPL", "lesser general public license": "LGPL",
       "library general public license": "LGPL", "general public license": "GPL"}  # fmt: skip
GNU_NAME = re.compile("|".join(GNU))
GNU_VERSION = re.compile(r".{0,160}?\bv(?:ersion)? ?([123](?:\.[01])?)\b\+?(.{0,80}?\b(?:any|or) later)?")
OLDEST = {"GPL": "GPL-1.0-or-later", "LGPL": "LGPL-2.0-or-later", "AGPL": "AGPL-1.0-or-later"}
# What is not permissive: conditions that forbid something, and the names of further licences.
OTHERS = re.compile(
    r"unauthori[sz]ed (?:\w+ ){0,3}?(?:copying|use|reproduction|distribution|duplication|disclosure|modification)"
    r"|(?:copying|reproduction|redistribution|distribution|use) (?:\w+ ){0,12}?(?:is|are) (?:strictly )?"
    r"(?:prohibited|forbidden|not permitted)"
    r"|proprietary and confidential|confidential and proprietary|(?:confidential|proprietary) information"
    r"|trade secrets?|(?:for )?internal use only|do not (?:copy|distribute|redistribute)\b"
    r"|may not be (?:copied|reproduced|distributed|redistributed|disclosed|published|sold)\b(?!.{0,60}\bexcept acc)"
    r"|(?<!commercial and )(?<!commercial or )(?<!commercial )\bnon commercial|commons clause"
    r"|server side public|sspl|business source|busl|redis source|elastic license|polyform|eupl|cecill|cddl"
    r"|common development|cc by|creative commons attribution|microsoft public|educational community|artistic license"
    r"|zope public|zpl|open font|ncsa open|university of illinois"
)
# where a name of one word means a licence: right behind these, or up to three words before `license`
BEFORE_NAME = re.compile(
    r"(?:\blicensed?|\blicensing|\bunder(?: the)?(?: terms(?: and conditions)? of)?|\breleased (?:under|as))"
    r"(?: (?:a|an|and|approved|as|by|either|is|name|of|or|osi|terms|the|to|type|under|with|apache|mit|2\.0))*$"
)
BEHIND_NAME = re.compile(
    r" licensed\b|(?: (?:and|or|style|the|a?l?gpl|bsd|mit|apache|2\.0|x|11|open|source))* licenses?\b"
)
CHOICE = re.compile(r"\b(?:dual|dually|alternatively|choice|choose|either (?:of|the|a|an)|at your option)\b")
CHOICE_BEFORE = 15  # words before a name in which it may be offered
CHOICE_GAP = 12  # words between two names of which one may choose, as an `or` says that stands there
LATER = re.compile(r"(?:\beither version .{0,40}?)?\bor (?:at your option )?any later version")
LICENCE_LIKE = re.compile(
    r"\blicensed (?:under|to|for|by|with)\b|\blicense agreement\b|\bspdx license identifier\b"
    r"|\b(?:terms|conditions) of (?:\w+ ){0,8}?(?:license|agreement|contract)"
    r"|\bunder (?:the |a |an )?(?:\w+ ){0,6}?license\b|\bsubject to (?:\w+ ){0,8}?license"
    r"|\bpermission (?:is |to )(?:\w+ ){0,3}?(?:granted|use|copy)|\bredistribution and use\b|\bfree software\b"
)
LICENCE_LINE = re.compile(r"^[\W_]*licen[sc]es?(?:[ \t]*[:=][ \t]*|[ \t]+is[ \t]+)\S", re.I | re.M)
ELSEWHERE = re.compile(
    r"\b(?:see|found|refer|read|included|accompanying|contained|described|specified|detailed|stated|given|in)\b"
    r"(?: \w+){0,9}? (?:license|licenses|copying|unlicense)\b(?! agreement)"
    r"|\blicense (?:file|txt|md)\b|\bfile license\b|\bsame (?:\w+ ){0,3}?(?:license|terms)\b"
)
# the name of a licence that is none of the known ones
NAMED = re.compile(r"\b[Uu]nder\s+(?:the\s+|a\s+)?((?:[A-Z][\w.&-]*\s+){1,6})[Ll]icen[sc]e")
GENERIC = frozenset("software project above following file same source code open terms license".split())  # noqa: SIM905


def words_of(text: str) -> list[str]:
    """The words and numbers of a text in lower case, with one spelling of what has several."""
    text = text.lower().replace("licence", "license").replace("noncommercial", "non commercial")
    return WORD.findall(text)


def of_version(name: str, version: re.Match) -> str:
    """The SPDX identifier of a GNU licence, as `GPL-3.0-only`, from its short name and what follows that in a text."""
    number = version[1]
    if "." not in number:
        number += ".0"
    return f"{name}-{number}-{'or-later' if version[2] else 'only'}"


def gnu_licences(plain: str) -> dict[str, int]:
    """SPDX identifier → position of each GNU licence that a notice spells out, by the version that follows the name."""
    found = {}  # short name → (identifier, position)
    for name in GNU_NAME.finditer(plain):
        short = GNU[name[0]]
        version = GNU_VERSION.match(plain, name.end())
        if version:
            identifier = of_version(short, version)
            if short not in found or found[short][0] == OLDEST[short]:
                found[short] = identifier, name.start()
        else:
            found.setdefault(short, (OLDEST[short], name.start()))
    return dict(found.values())


def named(plain: str) -> dict[str, int]:
    """SPDX identifier → position of each licence that the words of a text name."""
    found = {}
    for name in NAME.finditer(plain):
        identifier = list(NAMES)[int(name.lastgroup[1:])]
        version = None
        if identifier in OLDEST:
            version = ACRONYM_VERSION.match(plain, name.end())
        meant = (
            version
            or name[0].startswith(("mpl", "epl"))
            or BEFORE_NAME.search(plain[max(0, name.start() - 80) : name.start()].rstrip())
        )
        if not (meant or "licens" in name[0] or BEHIND_NAME.match(plain, name.end())):
            continue
        if version:
            identifier = of_version(identifier, version)
        found.setdefault(OLDEST.get(identifier, identifier), name.start())
    return found


def notices(plain: str) -> dict[str, int]:
    """SPDX identifier → position of each licence that the words of a text name or quote."""
    found = {}
    for group in SENTENCES:
        for sentence, identifier in group:
            position = plain.find(sentence)
            if position >= 0:
                found[identifier] = position
                break
    dedicated = DEDICATED.search(plain)
    if dedicated and "Unlicense" not in found:
        found[PUBLIC_DOMAIN] = dedicated.start()
    gnu = gnu_licences(plain)
    for identifier, position in named(plain).items():
        # the version of a GNU licence that a notice spells out is elsewhere in the sentence
        if not (gnu and identifier.startswith(tuple(OLDEST))):
            found.setdefault(identifier, position)
    return found | gnu


def declared(text: str) -> str | None:
    """The expression of the SPDX identifiers in a text; None if it has none that can be read."""
    found = []
    for tag in dict.fromkeys(SPDX.findall(text)):
        # `MIT/Apache-2.0` is how Cargo wrote a choice before SPDX expressions
        expression = " ".join(re.sub(r"(?<=\w)/(?=\w)", " OR ", tag).split())
        try:
            LICENSING.parse(expression)
        except ExpressionError:
            continue
        found.append(expression)
    return joined(found, "AND") if found else None


def joined(expressions: list[str], operator: str) -> str:
    """One expression of several."""
    if len(expressions) == 1:
        return expressions[0]
    return f" {operator} ".join(f"({expression})" if " " in expression else expression for expression in expressions)


def licence_of_file(text: str) -> str | None:
    """As `licence_in`, of the text of a licence: its title decides, as such texts name other licences further down."""
    words = words_of(text)
    title = " ".join(words[:TITLE])
    found = named(title) | gnu_licences(title)
    if not found or OTHERS.search(title):
        return licence_in(text)
    licences, plain = sorted(found, key=found.get), " ".join(words)
    if not (len(found) > 1 and offers_choice(title, sorted(found.values()))):
        licences = licences[:1]
    # the text of the GPL itself speaks of noncommercial distribution
    gnu = any(name.startswith(tuple(OLDEST)) for name in licences)
    adds = "commons clause" in plain if gnu else OTHERS.search(plain)
    return OTHER if adds else joined(licences, "OR")


def offers_choice(plain: str, positions: list[int]) -> bool:
    """Whether one may choose between the licences that stand at these positions of the words."""
    for one, other in pairwise(positions):
        between = plain[one:other].split()
        if len(between) <= CHOICE_GAP and "or" in between:
            return True
    # only right before a name: the text of a licence that stands between two names may speak of a choice of its own
    before = [" ".join(plain[:position].split()[-CHOICE_BEFORE:]) for position in positions]
    return any(CHOICE.search(LATER.sub(" ", part)) for part in before)


@lru_cache(4096)
def licence_in(text: str) -> str | None:
    """The SPDX expression of the licence that a text declares.

    Returns:
        None if it declares none, or says that the licence is in another file; LicenseRef-other if it declares one that
        is not known.
    """
    plain = " ".join(words_of(text))
    if OTHERS.search(plain):
        return OTHER
    expression = declared(text)
    if expression:
        return expression
    found = notices(plain)
    if found:
        licences = sorted(found, key=found.get)
        choice = len(found) > 1 and offers_choice(plain, sorted(found.values()))
        return joined(licences, "OR" if choice else "AND")
    if any(GENERIC.isdisjoint(name.lower().split()) for name in NAMED.findall(text)):
        return OTHER
    if ELSEWHERE.search(plain):
        return None
    if LICENCE_LIKE.search(plain) or LICENCE_LINE.search(text):
        return OTHER
    return None


HEAD = 4096  # bytes; a header with the whole text of BSD or MIT has about 1,500
OPTIONS = re2.Options()
OPTIONS.encoding = re2.Options.Encoding.LATIN1  # each byte is a character, in UTF-8 or not
# without one of these no header is looked at
HINT = re2.compile(
    rb"(?i)licen[sc]|copying|permission|redistribut|public domain|confidential|proprietary|unauthori[sz]ed|prohibited"
    rb"|trade secret|internal use|commercial|same terms|\b(?:a|l)?gpl|\bsspl|\brsal|\bmpl\b|\beupl|\bcecill",
    OPTIONS,
)
# what belongs to a licence, too, where there is one
PART = re2.compile(HINT.pattern + rb"|altered source|endorse|alternatively", OPTIONS)
BLANK = re.compile(rb"\n[\s*=-]*\n")


def header_licence(raw: bytes) -> str | None:
    """The SPDX expression of the licence in the header of a file, as `licence_in` gives it."""
    head = raw[:HEAD]
    if not HINT.search(head):
        return None
    header = header_of(head.decode("utf-8", "replace")).encode()
    if not HINT.search(header):  # the code has it, or a string
        return None
    # what else a header says about its file differs between the files of a repository
    paragraphs = [paragraph for paragraph in BLANK.split(header) if PART.search(paragraph)]
    return licence_in(b"\n\n".join(paragraphs).decode())


# a comment that holds nothing but the tag, wherever in the file: code that handles such tags has them in strings
TAG_LINE = re.compile(
    rb"^[ \t]*(?:#|//|/?\*|--|;|%|<!--|\"\"\"|dnl)[ \t#/*;%-]*(SPDX-License-Identifier:.*)$", re.MULTILINE
)


def tagged_licence(raw: bytes) -> str | None:
    """The SPDX expression of the tag in a comment of its own, anywhere in a file, as REUSE allows."""
    if b"SPDX-License-Identifier" not in raw:
        return None
    tags = [match[1].decode("utf-8", "replace") for match in TAG_LINE.finditer(raw)]
    return licence_in("\n".join(tags)) if tags else None
