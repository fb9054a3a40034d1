"""Arguments that may be too long for a command line go to a script in a file that is named by its content.

    params:
        sources=argument_file(folder, "--sources", *names)     # @results/work/arguments/3f0c….txt

Linux refuses an argument of more than 128 KiB; 10,000 sources take several times that. argparse reads `@FILE` as the
arguments in it, one a line. As the name follows from the content, it is a rule's param like any other: other arguments
are another name, and rerun the job.
"""

import hashlib
from pathlib import Path

from scripts.common.files import atomic

named: dict[str, list[str]] = {}  # the words behind each value that this process gave


def words_of(value: str) -> list[str] | None:
    """The words behind a value of `argument_file`; None where this process did not name it and its file is gone."""
    if value in named:
        return named[value]
    path = Path(value.removeprefix("@"))
    if path.is_file():
        return path.read_text(encoding="utf-8").splitlines()
    return None


def argument_file(folder: Path, *words: str, write: bool = True) -> str:
    """Write the file if it is not there; with `write=False`, as for a dry run, only name it.

    Returns:
        `@` and its path.
    """
    text = "".join(f"{word}\n" for word in words)
    assert text.count("\n") == len(words), "an argument with a line break would be read as two"
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    if write and not path.exists():
        with atomic(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    named[f"@{path}"] = list(words)
    return f"@{path}"
