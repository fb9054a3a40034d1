"""Which licence a text declares: a notice above code, a line such as `License: GPLv3`, or the text of a licence.

    licence_in("Licensed under the Apache License, Version 2.0")         # "Apache-2.0"
    licence_in("Apache 2.0 with Commons Clause, as its license says")    # "Apache-2.0 WITH LicenseRef-scancode-comm…"
    licence_in("Licensed under the terms of our agreement")              # "NOASSERTION": which one is not known
    licence_in("the license is in the file LICENSE")                     # None: the text names none

Licences are found by their names, which LicenseLynx and ScanCode collected, by sentences that occur in the text of one
licence only, and by words that forbid. Several are joined by AND unless the text offers a choice. Nothing is assumed
that the text does not say, such as "or later".
"""

import json
import re
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise

from scripts.licences.expressions import UNKNOWN, known_licences

SPDX = re.compile(
    r"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+() :/-]{2,200}?)[ \t/*#;-]*(?:-->|[\"'`,]|\\n|\r|\n|$)", re.I
)
EXPRESSION = re.compile(r"\(*[A-Za-z0-9][A-Za-z0-9.+:-]*\)*(?: (?:AND|OR|WITH) \(*[A-Za-z0-9][A-Za-z0-9.+:-]*\)*)*")
WORD = re.compile(r"[^\W\d_]+?(?=v\d)|v(?=\d)|[^\W\d_]+|\d+(?:\.\d+)*\+?")  # GPLv3 is `gpl`, `v`, `3`
# words that differ between the names of one licence
FILLERS = frozenset(["a", "agreement", "an", "gnu", "license", "licenses", "of", "the", "v", "ver", "version"])
LONGEST_NAME = 10  # words
TITLE = 40  # words of a licence's text that hold its title

# Sentences of licences' texts, the narrower first within each group; the first that occurs counts.
SENTENCES = [
    [
        ("the name of a copyright holder shall not be used in advertising", "curl"),
        ("permission to use copy modify and or distribute this software for any purpose", "ISC"),
        ("permission to use copy modify and distribute this software for any purpose", "ISC"),
        ("permission to use copy modify and distribute this software and its documentation", "HPND"),
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
    [("you may obtain a copy of the license at http www apache org licenses license 2.0", "Apache-2.0")],
    [("2 clause bsd", "BSD-2-Clause"), ("3 clause bsd", "BSD-3-Clause"), ("bsd style license", "BSD-3-Clause"),
     ("bsd license", "BSD-3-Clause")],
    [("mit style license", "MIT")],
    [("same terms as perl", "Artistic-1.0-Perl OR GPL-1.0-or-later")],
    [("placed in the public domain", "LicenseRef-scancode-public-domain"),
     ("released to the public domain", "LicenseRef-scancode-public-domain"),
     ("released into the public domain", "LicenseRef-scancode-public-domain"),
     ("is in the public domain", "LicenseRef-scancode-public-domain"),
     ("put into the public domain", "LicenseRef-scancode-public-domain"),
     ("placed under public domain", "LicenseRef-scancode-public-domain"),
     ("file is public domain", "LicenseRef-scancode-public-domain"),
     ("code is public domain", "LicenseRef-scancode-public-domain"),
     ("program is public domain", "LicenseRef-scancode-public-domain"),
     ("dedicated to the public domain", "LicenseRef-scancode-public-domain")],
]  # fmt: skip
COMMONS_CLAUSE = "LicenseRef-scancode-commons-clause"
PROPRIETARY = "LicenseRef-scancode-proprietary-license"
NON_COMMERCIAL = "LicenseRef-Non-Commercial"
NAMES_NC = re.compile(r"-NC\b|noncommercial", re.IGNORECASE)  # identifiers that say so themselves
FORBIDDING = [
    (
        r"unauthori[sz]ed (?:\w+ ){0,3}?(?:copying|use|reproduction|distribution|duplication|disclosure|modification)"
        r"|(?:copying|reproduction|redistribution|distribution|use) (?:\w+ ){0,12}?(?:is|are) (?:strictly )?"
        r"(?:prohibited|forbidden|not permitted)"
        r"|proprietary and confidential|confidential and proprietary|(?:confidential|proprietary) information"
        r"|trade secrets?|(?:for )?internal use only|do not (?:copy|distribute|redistribute)\b"
        r"|may not be (?:copied|reproduced|distributed|redistributed|disclosed|published|sold)\b",
        PROPRIETARY,
    ),
    (r"(?<!commercial and )(?<!commercial or )(?<!commercial )\bnon commercial", NON_COMMERCIAL),
]
GNU = {"affero general public license": "AGPL", "lesser general public license": "LGPL",
       "library general public license": "LGPL", "general public license": "GPL"}  # fmt: skip
GNU_NAME = re.compile(rf"(?:{'|'.join(GNU)})")
GNU_VERSION = re.compile(r".{0,160}?\bv(?:ersion)? ?([123](?:\.[01])?)\b\+?(.{0,80}?\b(?:any|or) later)?")
OLDEST = {"GPL": "GPL-1.0-or-later", "LGPL": "LGPL-2.0-or-later", "AGPL": "AGPL-1.0-or-later"}
# acronyms that mean a licence wherever they stand with a version
ACRONYMS = frozenset(["agpl", "bsl", "busl", "cddl", "cecill", "epl", "eupl", "gpl", "lgpl", "mpl", "rsal", "sspl"])
BEFORE_NAME = re.compile(
    r"(?:\blicensed?|\blicensing|\bunder(?: the)?(?: terms(?: and conditions)? of)?)"
    r"(?: (?:a|an|and|approved|as|by|conditions|either|is|name|of|osi|terms|the|to|type|under|with))*$"
)
NO_LICENCE = {"Unstated License", "CLA"}  # ScanCode's categories for words such as `see license`
NEAR = 8  # words between a name of several words and a word of LICENSING
LICENSING = re.compile(r"licens|terms|distributed|released|copying|commons|governed")
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


def key_of(words: list[str]) -> tuple[str, ...]:
    """What the names of one licence have in common: their words without fillers, versions without `.0`."""
    return tuple(word.replace(".0", "") if word[0].isdigit() else word for word in words if word not in FILLERS)


@cache
def names() -> dict[tuple[str, ...], str]:
    """Key of a name (`key_of`) → SPDX identifier; UNKNOWN for a name without the version that it needs."""
    table = json.loads(files("licenselynx").joinpath("resources", "merged_data.json").read_text(encoding="utf-8"))
    known, looser = {}, []
    for licence in known_licences().values():
        if licence.category not in NO_LICENCE:
            known.setdefault(
                key_of(words_of(licence.identifier.removeprefix("LicenseRef-scancode-"))), licence.identifier
            )
    for name, target in table["stableMap"].items():
        licence = known_licences().get(target["id"].lower())
        identifier = licence.identifier if licence else target["id"]
        # with colons it is a classifier, whose last part is listed, too
        if "::" in name or (licence and licence.category in NO_LICENCE):
            continue
        known.setdefault(key_of(words_of(name)), identifier)
        if "(" in name:
            looser.append((re.sub(r"\([^)]*\)", " ", name), identifier))
            looser += [(short, identifier) for short in re.findall(r"\(([^)]*\d[^)]*)\)", name)]
    for name, identifier in looser:
        known.setdefault(key_of(words_of(name)), identifier)
    choices = {}
    for key, identifier in known.items():
        if len(key) > 1 and key[-1][0].isdigit() and (len(key) > 2 or key[0] in ACRONYMS):
            choices.setdefault(key[:-1], set()).add(identifier)
    for key, identifiers in choices.items():
        known.setdefault(key, identifiers.pop() if len(identifiers) == 1 else UNKNOWN)
    known |= {(short.lower(),): identifier for short, identifier in OLDEST.items()}
    known["bsd",] = "BSD-3-Clause"  # as ScanCode has it
    return {key: identifier for key, identifier in known.items() if key and not key[0][0].isdigit()}


def named(words: list[str]) -> dict[str, int]:
    """SPDX identifier → first word of each name of a licence in `words`, the longest where several begin.

    UNKNOWN stands for a name without its version, unless the same name stands there with one, too.
    """
    places = [at for at, word in enumerate(words) if word not in FILLERS]
    key, found, unversioned, at = key_of(words), {}, {}, 0
    known, whole = names(), set()
    while at < len(key):
        for length in range(min(LONGEST_NAME, len(key) - at), 0, -1):
            name = key[at : at + length]
            start, end = places[at], places[at + length - 1] + 1
            if name in known and end - start < 2 * length + 2 and means_licence(words, start, end, name):
                if known[name] == UNKNOWN:
                    if any(word.startswith("licens") for word in words[start : end + 1]):
                        unversioned.setdefault(name, start)
                else:
                    found.setdefault(known[name], start)
                    whole.update(name[:cut] for cut in range(1, length))
                at += length - 1
                break
        at += 1
    left = [start for name, start in unversioned.items() if name not in whole]
    if left:
        found[UNKNOWN] = min(left)
    return found


def means_licence(words: list[str], start: int, end: int, key: tuple[str, ...]) -> bool:
    """Whether what reads like the name of a licence is one here: `Python 2` and `MIT` mostly are not."""
    letters = [word for word in key if not word[0].isdigit()]
    has_version = len(letters) < len(key)
    if has_version and letters[0] in ACRONYMS:
        return True
    if len(letters) > 1 or any(word.startswith("licens") for word in words[start : end + 1]):
        return any(LICENSING.match(word) for word in words[max(0, start - NEAR) : end + NEAR])
    return BEFORE_NAME.search(" ".join(words[max(0, start - 7) : start])) is not None


def gnu_licences(text: str) -> dict[str, int]:
    """SPDX identifier → position of each GNU licence that a notice spells out, by the version that follows the name."""
    found = {}  # short name → (identifier, position)
    for name in GNU_NAME.finditer(text):
        short = GNU[name[0]]
        version = GNU_VERSION.match(text, name.end())
        if version:
            number = version[1] if "." in version[1] else f"{version[1]}.0"
            identifier = f"{short}-{number}-{'or-later' if version[2] else 'only'}"
            if short not in found or found[short][0] == OLDEST[short]:
                found[short] = identifier, name.start()
        else:
            found.setdefault(short, (OLDEST[short], name.start()))
    return dict(found.values())


def declared(text: str) -> str | None:
    """The expression of the SPDX identifiers in a text; None if it has none that can be read."""
    # `MIT/Apache-2.0` is how Cargo wrote a choice before SPDX expressions
    found = [re.sub(r"(?<=\w)/(?=\w)", " OR ", expression) for expression in dict.fromkeys(SPDX.findall(text))]
    found = [" ".join(expression.split()) for expression in found]
    found = [expression for expression in found if EXPRESSION.fullmatch(expression)]
    return joined(found, "AND") if found else None


def joined(expressions: list[str], operator: str) -> str:
    """One expression of several."""
    if len(expressions) == 1:
        return expressions[0]
    return f" {operator} ".join(f"({expression})" if " " in expression else expression for expression in expressions)


def notices(words: list[str], plain: str) -> dict[str, int]:
    """SPDX identifier → about where it stands, of each licence that a text names or quotes; `plain` is the words."""
    found = {}
    for group in SENTENCES:
        for sentence, identifier in group:
            at = plain.find(sentence)
            if at >= 0:
                found[identifier] = plain.count(" ", 0, at)
                break
    gnu = gnu_licences(plain)
    for identifier, start in named(words).items():
        # the version of a GNU licence that a notice spells out is elsewhere in the sentence
        if not (gnu and identifier.startswith((*OLDEST, UNKNOWN))):
            found.setdefault(identifier, start)
    for identifier, start in gnu.items():
        found.setdefault(identifier, plain.count(" ", 0, start))
    return found


def forbidden(plain: str, licences: list[str]) -> list[str]:
    """Identifiers for what the words of a text forbid beyond its licences."""
    found = [identifier for pattern, identifier in FORBIDDING if re.search(pattern, plain)]
    if NAMES_NC.search(" ".join(licences)):
        found = [identifier for identifier in found if identifier != NON_COMMERCIAL]
    return found


def licence_of_file(text: str) -> str | None:
    """As `licence_in`, of the text of a licence: its title decides, as such texts name other licences further down."""
    words = words_of(text)
    plain = " ".join(words)
    title = " ".join(words[:TITLE])
    found = named(words[:TITLE]) | {name: title.count(" ", 0, at) for name, at in gnu_licences(title).items()}
    found = [name for name in sorted(found, key=found.get) if name not in (UNKNOWN, COMMONS_CLAUSE)]
    if not found:
        return licence_in(text)
    conditions = [COMMONS_CLAUSE] if "commons clause" in plain else []
    return joined([found[0], *conditions, *forbidden(plain, found[:1])], "AND")


def offers_choice(words: list[str], places: list[int]) -> bool:
    """Whether one may choose between the licences that stand at these words."""
    for one, other in pairwise(places):
        if other - one <= CHOICE_GAP and "or" in words[one:other]:
            return True
    # only right before a name: the text of a licence that stands between two names may speak of a choice of its own
    before = [" ".join(words[max(0, place - CHOICE_BEFORE) : place + 1]) for place in places]
    return any(CHOICE.search(LATER.sub(" ", part)) for part in before)


@lru_cache(4096)
def licence_in(text: str) -> str | None:
    """The SPDX expression of the licence that a text declares.

    Returns:
        None if it declares none, or says that the licence is in another file; NOASSERTION if it declares one that is
        not known.
    """
    words = words_of(text)
    plain = " ".join(words)
    expression = declared(text)
    found = {} if expression and "commons clause" not in plain else notices(words, plain)
    unknown = found.pop(UNKNOWN, None) is not None
    licences, conditions = [], []
    for name in sorted(found, key=found.get):
        if name == COMMONS_CLAUSE:
            conditions.append(name)
        elif not (
            name.lower() in known_licences() and known_licences()[name.lower()].exception
        ):  # those add permissions
            licences.append(name)
    if expression:
        unknown = False
    elif licences:
        choice = offers_choice(words, [found[name] for name in licences])
        unknown = unknown and not choice
        expression = joined(licences, "OR" if choice else "AND")
    conditions += forbidden(plain, licences)
    if conditions and not unknown:
        return joined([expression, *conditions] if expression else conditions, "AND")
    if expression and not unknown:
        return expression
    unknown |= any(GENERIC.isdisjoint(name.lower().split()) for name in NAMED.findall(text))
    if not unknown and ELSEWHERE.search(plain):
        return None
    return UNKNOWN if unknown or LICENCE_LIKE.search(plain) or LICENCE_LINE.search(text) else None
