"""Record the code behind each fingerprint, from which `stagecraft why` names the functions that changed.

    results/code/{fingerprint}.json
    {"module": "scripts.corpus.filter", "units": {"scripts/corpus/filter.py:accept": "function 9a41…", …}}

The provenance of each result names the fingerprint (scripts/experiment/provenance.py); these records are published
with it.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from scripts.common.files import write_json
from scripts.experiment.fingerprint import ROOT, fingerprint, reach


@dataclass(frozen=True)
class CodeRecord:
    """What the code of a rule was.

    Attributes:
        module: the rule's.
        units: place → kind and hash of each part.
    """

    module: str
    units: dict[str, str]


def code_file(code: str, folder: Path) -> Path:
    """The record of a fingerprint."""
    return folder / f"{code}.json"


def read_code(code: str, folder: Path) -> CodeRecord | None:
    """The record of a fingerprint; None where there is none that can be read."""
    try:
        return CodeRecord(**orjson.loads(code_file(code, folder).read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return None


def record_codes(modules: list[str], folder: Path) -> None:
    """Record the code of rules' modules as it is now."""
    for module in modules:
        if read_code(fingerprint(module), folder) is None:
            write_json(code_file(fingerprint(module), folder), asdict(CodeRecord(module, reach(module).units())))


def rule_modules() -> list[str]:
    """The modules of all rules: those that an area's folder shows."""
    areas = ("sources", "corpus", "tokens", "training", "evaluation", "report")
    paths = [path for area in areas for path in sorted((ROOT / "scripts" / area).glob("[a-z]*.py"))]
    return [f"scripts.{path.parent.name}.{path.stem}" for path in paths]


def unit_changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What changed from one record's units to another's, a phrase each; what both have comes first."""

    def named(place: str, units: dict[str, str]) -> str:
        kind = units[place].split()[0]
        return place if kind == "file" else f"{kind} {place}"

    changed = [f"{named(place, new)} changed" for place in new if place in old and old[place] != new[place]]
    added = [f"{named(place, new)} is new or newly used" for place in new if place not in old]
    removed = [f"{named(place, old)} is gone or no longer used" for place in old if place not in new]
    imports = [phrase for phrase in [*added, *removed] if phrase.startswith("import ")]
    return [*changed, *(phrase for phrase in [*added, *removed] if phrase not in imports), *imports]
