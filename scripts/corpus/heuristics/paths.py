"""What is known of a file without reading it: from its path, its folder, and what its repository declares.

    check_path("target/debug/main.rs", excluded=["vendor"])                  # Dropped: an output of a build
    FolderLicences.of(archive).below_root("third_party/zlib/inflate.c")      # "Zlib"
    declared = Declarations.of(texts)             # path → text of `.gitattributes`, `REUSE.toml`, `x.py.license`, ...
    declared.licence("src/x.py")                  # "GPL-3.0-only"
    declared.attribute("src/x.py")                # "linguist-generated"

Declarations are a `file.license` beside a file, the tables of each `REUSE.toml`, `.reuse/dep5` in Debian's format
(REUSE specification 3.2), and `linguist-generated` and `linguist-vendored` in each `.gitattributes`.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

from scripts.corpus.formats.tar_reader import first_look
from scripts.corpus.heuristics.quality import Dropped
from scripts.languages import paths
from scripts.licences.expressions import UNKNOWN
from scripts.licences.recognition import joined, licence_in, licence_of_file

# of any language; what is one language's own stands in its file
GENERATED_NAMES = r"[._-](generated|autogen)\.\w+|\.g\.\w+|\.designer\.\w+|[.-]min\.(js|css)|(^|/)package-lock\.json"
# what builds write into folders whose names are those of packages, too
OUTPUTS = re.compile(
    r"(^|/)(target/(debug|release|classes|test-classes|generated-[\w-]+|maven-[\w-]+|package|doc)"
    r"|build/(lib|temp|bdist|scripts|classes|generated|intermediates|tmp|CMakeFiles|outputs|libs|reports)([.-][^/]*)?"
    r"|CMakeFiles|cmake-build-[^/]+|[^/]+\.egg-info)/"
)


@cache
def generated_name() -> re.Pattern:
    """What finds generated files by their names."""
    of_languages = [rules.generated for rules in paths().values() if rules.generated]
    return re.compile(f"({'|'.join([GENERATED_NAMES, *of_languages])})$", re.IGNORECASE)


def check_path(path: str, excluded: Collection[str]) -> None:
    """Check a file's path alone.

    Args:
        excluded: names of folders in lower case.

    Raises:
        Dropped: `folder` or `generated`.
    """
    for folder in path.split("/")[:-1]:
        if folder.lower() in excluded:
            raise Dropped("folder", folder)
    output = OUTPUTS.search(path)
    if output:
        raise Dropped("folder", output[0].strip("/"))
    name = generated_name().search(path)
    if name:
        raise Dropped("generated", f"its name: {name[0].strip('/')}")


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


LICENCE_FILE = re.compile(r"(?:un)?licen[sc]es?(?:[._-].*)?|copying(?:[._-].*)?", re.IGNORECASE)
NO_TEXT = re.compile(r"\.(?!md$|txt$|rst$)[a-z]{1,4}$")  # as license.go, which is code about licences
MOST_BYTES = 1 << 16


class FolderLicences:
    """Licences by folder. Several in one are joined by OR if the files' names say which is which, else by AND.

    Attributes:
        declared: what the archive declares of its files in other ways.
    """

    def __init__(self, texts: dict[str, dict[str, str]], declared: Declarations):
        self.licences, self.declared = {}, declared
        for folder, by_name in texts.items():
            found = [licence_of_file(text) for _, text in sorted(by_name.items())]
            found = list(dict.fromkeys(licence for licence in found if licence))
            if UNKNOWN in found:
                self.licences[folder] = UNKNOWN
            elif found:
                # LICENSE-MIT beside LICENSE-APACHE is a choice
                choice = all(re.match(r"(?i)licen[sc]e[._-](?!md$|txt$|rst$)", name) for name in by_name)
                self.licences[folder] = joined(found, "OR" if choice else "AND")

    @classmethod
    def of(cls, archive: Path) -> "FolderLicences":
        """Those of an archive."""
        texts, declarations = defaultdict(dict), {}
        for path, _, content in first_look(archive, MOST_BYTES):
            folder, _, name = path.rpartition("/")
            if content and LICENCE_FILE.fullmatch(name) and not NO_TEXT.search(name):
                texts[folder][name] = bytes(content).decode("utf-8", "replace")
            elif content and is_declaration(path):
                declarations[path] = bytes(content).decode("utf-8", "replace")
        return cls(texts, Declarations.of(declarations))

    def below_root(self, path: str) -> str | None:
        """The licence of the nearest folder around a file that has one, but for the root."""
        folder = path.rpartition("/")[0]
        while folder:
            if folder in self.licences:
                return self.licences[folder]
            folder = folder.rpartition("/")[0]
        return None

    @property
    def root(self) -> str | None:
        """The licence of the whole archive."""
        return self.licences.get("")
