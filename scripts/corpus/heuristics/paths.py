"""What the path of a file says: in an excluded folder, generated, an output of a build."""

import re
from collections.abc import Collection
from functools import cache

from scripts.corpus.heuristics.quality import Dropped
from scripts.languages import paths

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
