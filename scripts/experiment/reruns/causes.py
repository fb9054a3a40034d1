"""Describe why a job runs again: the differences between the params in its provenance and the present ones.

param_changes({"settings": "'{\"learning_rate\": 2e-05}'"}, {"settings": "'{\"learning_rate\": 1e-05}'"}, ...)
# ["learning_rate 2e-5 → 1e-5"]
"""

import ast
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.common.files import read_cache, write_cache
from scripts.experiment.arguments import words_of
from scripts.experiment.optimizers import OPTIMIZERS, STAGE, modules_of_others
from scripts.experiment.reruns.fingerprint import ROOT, reach
from scripts.experiment.reruns.kept_fingerprints import fingerprint


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
    content = read_cache(code_file(code, folder))
    return CodeRecord(**content) if content else None


def codes_of(module: str) -> dict[str, tuple[str, ...]]:
    """Fingerprint of a rule's code as it is now → the modules that are no part of it: of a stage other optimizers'."""
    left_out = [()]
    if module == STAGE:
        left_out = map(modules_of_others, OPTIMIZERS)
    return {fingerprint(module, without): without for without in left_out}


def record_codes(modules: list[str], folder: Path) -> None:
    """Record the code of rules' modules as it is now."""
    for module in modules:
        for code, without in codes_of(module).items():
            if read_code(code, folder) is None:
                write_cache(code_file(code, folder), asdict(CodeRecord(module, reach(module, without).units())))


def rule_modules() -> list[str]:
    """The modules of all rules: those that an area's folder shows, and the suites."""
    areas = ("sources", "corpus", "tokens", "training", "evaluation", "evaluation/suites", "report")
    modules = ["scripts.release.release"]
    for area in areas:
        names = sorted(path.stem for path in (ROOT / "scripts" / area).glob("[a-z]*.py"))
        modules += [f"scripts.{area.replace('/', '.')}.{name}" for name in names]
    return modules


def unit_changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What changed from one record's units to another's, a phrase each; what both have comes first."""

    def named(place: str, units: dict[str, str]) -> str:
        kind = units[place].split()[0]
        if kind == "file":
            return place
        return f"{kind} {place}"

    changed = [f"{named(place, new)} changed" for place in new if place in old and old[place] != new[place]]
    added = [f"{named(place, new)} is new or newly used" for place in new if place not in old]
    removed = [f"{named(place, old)} is gone or no longer used" for place in old if place not in new]
    imports = [phrase for phrase in [*added, *removed] if phrase.startswith("import ")]
    return [*changed, *(phrase for phrase in [*added, *removed] if phrase not in imports), *imports]


def value_text(value: Any) -> str:
    """A value in a line: numbers as short as they can be, long texts cut."""
    if isinstance(value, float):
        return re.sub(r"e([-+])0*", lambda match: f"e{match[1].strip('+')}", f"{value:g}")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def setting_changes(old: Any, new: Any, key: str = "") -> list[str]:
    """The settings that differ between two JSON values, as `a.b 1 → 2`; one may be `not set` in one of them."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for name in [*new, *(name for name in old if name not in new)]:
            inner = name
            if key:
                inner = f"{key}.{name}"
            found += setting_changes(old.get(name, "not set"), new.get(name, "not set"), inner)
        return found
    if old == new:
        return []
    if isinstance(old, list) and isinstance(new, list) and all(isinstance(item, str) for item in [*old, *new]):
        parts = [f"+ {item}" for item in new if item not in old] + [f"- {item}" for item in old if item not in new]
        return [f"{key} {value_text(', '.join(parts) or 'in another order')}"]
    return [f"{key} {value_text(old)} → {value_text(new)}".strip()]


def parsed(value: Any) -> Any:
    """A param's value; settings in JSON and in an argument file as plain values."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    if isinstance(value, str) and value.startswith("@") and (words := words_of(value)):
        return {words[at].lstrip("-"): parsed(words[at + 1]) for at in range(0, len(words) - 1, 2)}
    return value


def code_changes(old: str, new: str, module: str, records: Path) -> list[str]:
    """The functions, classes and constants that differ between two fingerprints of a module. `records`: the folder of
    the records of code."""
    recorded = read_code(old, records)
    if recorded is None:
        return [f"code changed (there is no record of the code {old})"]
    codes = codes_of(module)
    now = reach(module, codes[new]).units() if new in codes else read_code(new, records).units
    return unit_changes(recorded.units, now) or [f"code changed, {old} → {new}"]


def param_changes(recorded: dict[str, str], present: dict[str, str], module: str, records: Path) -> list[str]:
    """What differs between a job's recorded params and its present ones, settings first.

    Args:
        recorded: from the job's provenance: name → `repr` of the value.
        present: the same of today's job.
        module: the rule's, as `scripts.corpus.filter`.
        records: the folder of the records of code.
    """
    settings, code = [], []
    for name, text in present.items():
        if text == recorded.get(name):
            continue
        new = ast.literal_eval(text)
        if name not in recorded:
            settings.append(f"{name} {value_text(parsed(new))} is new")
            continue
        old = ast.literal_eval(recorded[name])
        if name == "code":
            code = [*code_changes(old, new, module, records), *code]
            continue
        before, after = parsed(old), parsed(new)
        codes = [side.pop("codes", None) if isinstance(side, dict) else None for side in (before, after)]
        settings += setting_changes(before, after, "" if isinstance(after, dict) else name)
        if codes[0] != codes[1]:
            code.append("the code that made its inputs is another")
    gone = [f"{name} is no longer a setting" for name in recorded if name not in present]
    return [*settings, *gone, *code]
