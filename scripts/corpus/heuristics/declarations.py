"""What a repository declares of its files, outside of them: licences as REUSE has them, and linguist's attributes.

    declared = Declarations.of(texts)             # path → text of `.gitattributes`, `REUSE.toml`, `x.py.license`, ...
    declared.licence("src/x.py")                  # "GPL-3.0-only"
    declared.attribute("src/x.py")                # "linguist-generated"

Read are a `file.license` beside a file, the tables of each `REUSE.toml`, `.reuse/dep5` in Debian's format (REUSE
specification 3.2), and `linguist-generated` and `linguist-vendored` in each `.gitattributes`.
"""

import re
import tomllib
from typing import NamedTuple, Self

from scripts.licences.recognition import licence_in

BESIDE = ".license"  # behind the name of the file that it is about
ATTRIBUTES = ("linguist-generated", "linguist-vendored")
TAG = "SPDX-License-Identifier"


def is_declaration(path: str) -> bool:
    """Whether a file of an archive declares something of other files."""
    name = path.rpartition("/")[2]
    return name in (".gitattributes", "REUSE.toml") or path == ".reuse/dep5" or name.endswith(BESIDE)


def pattern_of(glob: str, folder: str, anywhere: bool, star_crosses: bool = False) -> re.Pattern:
    """What finds the paths that a pattern means.

    Args:
        folder: of the file that holds the pattern.
        anywhere: whether a pattern without a slash means a name in any folder, as git's do.
        star_crosses: whether `*` crosses folders, as in Debian's format.
    """
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob.lstrip("/"))
    inner = ".*" if star_crosses else "[^/]*"
    words = {"**/": "(?:.*/)?", "**": ".*", "*": inner, "?": "[^/]"}
    text = "".join(words.get(part, re.escape(part)) for part in parts)
    start = f"{re.escape(folder)}/" if folder else ""
    if anywhere and "/" not in glob:
        start += "(?:.*/)?"
    return re.compile(f"{start}{text}(?:/.*)?")


class Rule(NamedTuple):
    """What is said of the files that a pattern finds; of several rules the last counts."""

    pattern: re.Pattern
    value: str  # a licence, or an attribute of `ATTRIBUTES`
    holds: bool = True  # of an attribute, False where the rule takes it back


def attribute_rules(text: str, folder: str) -> list[Rule]:
    """The rules of a `.gitattributes`."""
    rules = []
    for line in text.splitlines():
        glob, *attributes = line.split() or ["#"]
        if glob.startswith("#"):
            continue
        for attribute in attributes:
            name, _, value = attribute.lstrip("-!").partition("=")
            if name in ATTRIBUTES:
                holds = not attribute.startswith(("-", "!")) and value != "false"
                rules.append(Rule(pattern_of(glob, folder, anywhere=True), name, holds))
    return rules


def toml_rules(text: str, folder: str) -> list[Rule]:
    """The rules of a `REUSE.toml`; none of one that is not TOML, or not REUSE's."""
    rules = []
    try:
        for table in tomllib.loads(text).get("annotations", []):
            paths, licences = table["path"], table.get(TAG, [])
            paths = [paths] if isinstance(paths, str) else paths
            licences = [licences] if isinstance(licences, str) else licences
            for path in paths if licences else []:
                rules.append(Rule(pattern_of(path, folder, anywhere=False), " AND ".join(licences)))
    except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError):
        return []
    return rules


def dep5_rules(text: str) -> list[Rule]:
    """The rules of a `.reuse/dep5`: paragraphs with `Files` and `License`."""
    rules = []
    for paragraph in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^(Files|License):[ \t]*((?:.*)(?:\n[ \t]+\S.*)*)", paragraph, re.MULTILINE))
        if fields.keys() == {"Files", "License"}:
            licence = fields["License"].splitlines()[0].strip()
            for path in fields["Files"].split():
                rules.append(Rule(pattern_of(path, "", anywhere=False, star_crosses=True), licence))
    return rules


class Declarations:
    """What the files of one archive declare."""

    def __init__(self, beside: dict[str, str], licences: list[Rule], attributes: list[Rule]):
        self.beside, self.licences, self.attributes = beside, licences, attributes

    @classmethod
    def of(cls, texts: dict[str, str]) -> Self:
        """Those of an archive. `texts`: path → text of the files that `is_declaration` finds."""
        beside, licences, attributes = {}, [], []
        for path in sorted(texts, key=lambda path: (path.count("/"), path)):  # the nearest statement last
            folder, _, name = path.rpartition("/")
            if name == ".gitattributes":
                attributes += attribute_rules(texts[path], folder)
            elif name == "REUSE.toml":
                licences += toml_rules(texts[path], folder)
            elif name.endswith(BESIDE):
                licence = licence_in(texts[path])
                if licence:
                    beside[path.removesuffix(BESIDE)] = licence
        dep5 = dep5_rules(texts.get(".reuse/dep5", ""))
        return cls(beside, [*dep5, *licences], attributes)

    def licence(self, path: str) -> str | None:
        """The licence that the repository declares of a file, elsewhere than in a licence file of its folder."""
        found = None
        for rule in self.licences:
            if rule.pattern.fullmatch(path):
                found = rule.value
        return found

    def attribute(self, path: str) -> str | None:
        """The attribute by which linguist, and so the filter, leaves a file out; None without one."""
        holding = dict.fromkeys(ATTRIBUTES, False)
        for rule in self.attributes:
            if rule.pattern.fullmatch(path):
                holding[rule.value] = rule.holds
        return next((name for name, holds in holding.items() if holds), None)
