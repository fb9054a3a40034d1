"""The evidence for keeping a result after its code changed: `accepted.json` beside the outputs, newest entry last.

It is published with the outputs. eval.json and the report show the entries that still hold: those that led to the
code of today, for the content that lies here.
"""

from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file, write_json

NAME = "accepted.json"
MARKS = ("manifest.json", "scores.json", "overlaps.json")  # of these a folder has one, which stands for its content


@dataclass(config=ConfigDict(extra="forbid"))
class Evidence:
    """One acceptance.

    Attributes:
        old, new: fingerprints of the code that made the outputs, and of the code that is accepted.
        old_commit, new_commit: the git commits that were replayed.
        changed: the parts of the code that changed.
        sample: what was replayed.
        unseen: what the sample cannot see.
        compared: path → hash of what both made.
        content: sha256 of the manifest or scores of the outputs that stay.
        versions: of packages that the replays ran with.
    """

    job: str
    reason: str
    date: str
    old: str
    new: str
    old_commit: str
    new_commit: str
    changed: list[str]
    sample: str
    unseen: str
    compared: dict[str, str]
    content: str
    versions: dict[str, str]


def content_of(folder: Path) -> str | None:
    """The sha256 of the file that stands for a folder's content; None where there is none."""
    return next((sha256_file(folder / name) for name in MARKS if (folder / name).is_file()), None)


def read_evidence(folder: Path) -> list[Evidence]:
    """The entries of a folder, whether or not they still hold.

    Raises:
        UserError: the file is broken.
    """
    path = folder / NAME
    if not path.is_file():
        return []
    try:
        return TypeAdapter(list[Evidence]).validate_python(read_json(path)["accepted"])
    except (ValidationError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not written by `stagecraft accept`; delete it") from error


def holding(folder: Path, code: str) -> list[Evidence]:
    """The entries that led from the code that made a folder's content to `code`; none where it was made again."""
    chain, content = [], content_of(folder)
    for entry in reversed(read_evidence(folder)):
        if entry.new != (chain[0].old if chain else code) or entry.content != content:
            break
        chain.insert(0, entry)
    return chain


def add_evidence(folder: Path, entry: Evidence) -> None:
    """Append an entry; those that do not lead to it are dropped."""
    kept = [*holding(folder, entry.old), entry]
    write_json(folder / NAME, {"accepted": TypeAdapter(list[Evidence]).dump_python(kept)})
