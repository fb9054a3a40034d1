"""What the path of a file says: vendored, generated, an output of a build, a test."""

import re
from collections.abc import Collection
from functools import cache

from scripts.corpus.heuristics.quality import Dropped
from scripts.experiment.settings.filter import EXCLUDED
from scripts.languages import paths

# of any language; what is one language's own stands in its file
GENERATED_NAMES = r"[._-](generated|autogen)\.\w+|\.g\.\w+|\.designer\.\w+|[.-]min\.(js|css)|(^|/)package-lock\.json"
GENERATED_FOLDERS = r"(^|/)(generated|gen|autogen|__generated__)/[^\n]*"
VENDORED_FILES = r"(^|/)(configure|ltmain)\.\w+$|(^|/)gradle/wrapper/|(^|/)cordova/|(^|/)inst/extdata/"
# what builds write into folders whose names are those of packages, too
OUTPUTS = re.compile(
    r"(^|/)(target/(debug|release|classes|test-classes|generated-[\w-]+|maven-[\w-]+|package|doc)"
    r"|build/(lib|temp|bdist|scripts|classes|generated|intermediates|tmp|CMakeFiles|outputs|libs|reports)([.-][^/]*)?"
    r"|CMakeFiles|cmake-build-[^/]+|[^/]+\.egg-info)/"
)
TEST_FOLDERS = r"(^|/)(tests?|testing|testdata|specs?|fixtures?|__tests__|e2e|benches|benchmarks?|examples?)/"
TESTS = r"_(test|spec|unittest|benchmark)s?\.\w+"


@cache
def expressions() -> dict[str, re.Pattern]:
    """What finds generated files by their names, vendored ones, generated ones by their folders too, and tests."""
    of_languages = [rules.generated for rules in paths().values() if rules.generated]
    tests = [TESTS, *(rules.tests for rules in paths().values() if rules.tests)]
    generated = f"({'|'.join([GENERATED_NAMES, *of_languages])})$"
    vendored = rf"(^|/)({'|'.join(map(re.escape, EXCLUDED))})/|{VENDORED_FILES}"
    return {
        "generated": re.compile(generated, re.IGNORECASE),
        "vendored": re.compile(vendored, re.IGNORECASE),
        "either": re.compile(f"{generated}|{vendored}|({GENERATED_FOLDERS})$", re.IGNORECASE),
        "tests": re.compile(f"{TEST_FOLDERS}|({'|'.join(tests)})$"),
    }


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
    if output := OUTPUTS.search(path):
        raise Dropped("folder", output[0].strip("/"))
    if name := expressions()["generated"].search(path):
        raise Dropped("generated", f"its name: {name[0].strip('/')}")


def origin_of(path: str) -> float:
    """0 for a vendored or generated file, 0.5 for a test or an example, else 1."""
    if expressions()["either"].search(path):
        return 0.0
    return 0.5 if expressions()["tests"].search(path) else 1.0
