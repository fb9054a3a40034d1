"""Changes to the small pipeline, each with the steps that it concerns: whose code, settings or inputs it changes.

Steps whose result changes with it, as those downstream of these, are found by running the edited project from scratch.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """A change: what it does to a project's folder, and the steps that it concerns itself."""

    apply: Callable[[Path], Path | None]
    concerns: set[str] = frozenset()


def replace(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Replace a text in a file below scripts/."""

    def apply(folder: Path) -> None:
        path = folder / "scripts" / file
        text = path.read_text()
        assert old in text, (file, old)
        path.write_text(text.replace(old, new, 1))

    return apply


def setting(old: str, new: str) -> Callable[[Path], None]:
    """Replace a text in the settings, whichever tool reads them."""

    def apply(folder: Path) -> None:
        (path,) = (folder / name for name in ("config.yaml", "params.yaml") if (folder / name).exists())
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return apply


def input_line(old: str, new: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "repositories/first.txt"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    return apply


def touch(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not {".snakemake", ".dvc"} & set(path.parts):
            os.utime(path)


def touch_input(folder: Path) -> None:
    os.utime(folder / "repositories/first.txt")


def rename_input(folder: Path) -> None:
    """The order of the files stays, and so does what is read."""
    (folder / "repositories/second.txt").rename(folder / "repositories/third.txt")


def rename_module(folder: Path) -> None:
    (folder / "scripts/common/text.py").rename(folder / "scripts/common/texts.py")
    for step in ("filter", "pack"):
        replace(f"steps/{step}.py", "common.text ", "common.texts ")(folder)


def another_checkout(folder: Path) -> Path:
    """The project with its results and the tool's records in another folder, with new times, as a clone has them."""
    checkout = folder.with_name(folder.name + "-elsewhere")
    shutil.copytree(folder, checkout, copy_function=shutil.copyfile, symlinks=True)
    return checkout


EDITS = {
    "nothing": Edit(lambda folder: None),
    "a comment in a step": Edit(replace("steps/filter.py", "    lines = [", "    # all lines\n    lines = [")),
    "a comment in a shared helper": Edit(replace("common/text.py", "    stop = ", "    # common words\n    stop = ")),
    "a docstring": Edit(replace("common/text.py", '"""The words of a line."""', '"""Words, less common ones."""')),
    "reformatting of a helper": Edit(
        replace("common/signs.py", '    return "".join(', "    return ''.join(\n            ")
    ),
    "order of definitions": Edit(
        replace("common/constants.py", "DECAY = 0.5\nMARGIN = 2\n", "MARGIN = 2\nDECAY = 0.5\n")
    ),
    "a new unused helper in a shared module": Edit(
        replace("common/signs.py", "def squeeze", "def unused():\n    return 1\n\n\ndef squeeze")
    ),
    "an unused helper changed": Edit(replace("common/text.py", 'split(". ")', 'split(".")')),
    "an unused constant changed": Edit(replace("common/constants.py", "MARGIN = 2", "MARGIN = 3")),
    "an unused method of a used class": Edit(replace("common/reader.py", "st_size", "st_blocks")),
    "an unused import in a step": Edit(replace("steps/score.py", "import json\n", "import json\nimport math\n")),
    "the same result written in another way": Edit(
        replace("steps/score.py", "sum(weights) / len(weights)", "(sum(weights) / len(weights))+ 0"), {"score"}
    ),
    "a step's own function": Edit(replace("steps/score.py", "round(sum", "round(2 * sum"), {"score"}),
    "a used helper": Edit(
        replace("common/text.py", "word not in stop", "word not in stop and word[0] != 's'"), {"filter", "pack"}
    ),
    "a helper's helper": Edit(replace("common/signs.py", ".isalnum()", ".isalpha()"), {"filter", "pack"}),
    "a method of a used class": Edit(replace("common/reader.py", ".splitlines()", ".splitlines()[1:]"), {"filter"}),
    "a helper imported late": Edit(replace("common/numbering.py", "len(known))", "len(known) + 1)"), {"pack"}),
    "a helper taken by `getattr`": Edit(replace("common/schedules.py", "1 - number", "2 - number"), {"train"}),
    "a constant": Edit(replace("common/constants.py", "DECAY = 0.5", "DECAY = 0.25"), {"train"}),
    "a data file of the library": Edit(replace("common/stopwords.txt", "of\n", "of\nholds\n"), {"filter", "pack"}),
    "own setting of the first step, with the same outcome": Edit(setting("min_words: 4", "min_words: 10"), {"filter"}),
    "setting of a later step": Edit(setting("rate: 0.25", "rate: 0.5"), {"train"}),
    "setting of the last step": Edit(setting("digits: 9", "digits: 2"), {"score"}),
    "a touched input": Edit(touch_input),
    "every file touched": Edit(touch),
    "a changed input": Edit(input_line("line of number 3", "row of number 3"), {"filter"}),
    "a changed input, in a line that is filtered out": Edit(input_line("short line", "brief line"), {"filter"}),
    "a renamed input file": Edit(rename_input, {"filter"}),
    "a renamed helper module": Edit(rename_module),
    "another checkout": Edit(another_checkout),
}
