"""What the path and the folder of a file say: excluded, generated, an output of a build; the licence of its folder.

FolderLicences.of(archive).below_root("third_party/zlib/inflate.c")      # "Zlib"
"""

import re
from collections import defaultdict
from collections.abc import Collection
from functools import cache
from pathlib import Path

from scripts.corpus.formats.tar_reader import first_look
from scripts.corpus.heuristics.declarations import Declarations, is_declaration
from scripts.corpus.heuristics.quality import Dropped
from scripts.languages import paths
from scripts.licences.expressions import UNKNOWN
from scripts.licences.recognition import joined, licence_of_file

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
