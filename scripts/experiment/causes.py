"""Describe why a job runs again: the differences between its recorded params and the present ones.

    param_changes(["'0123456789abcdef'", "'{\"learning_rate\": 2e-05}'"], {"settings": '{"learning_rate": 1e-05}', ...})
    # ["learning_rate 2e-5 → 1e-5", "function scripts/training/train.py:train changed"]

Snakemake records the values of a job's params without their names, sorted. A value that is gone is therefore compared
with the new value that resembles it: a fingerprint with a fingerprint, settings with settings of the same keys.
"""

import ast
import json
import re
from typing import Any

from scripts.experiment.arguments import words_of
from scripts.experiment.code_records import FINGERPRINT, read_code, unit_changes, units_of
from scripts.experiment.fingerprint import fingerprint


def value_text(value: Any) -> str:
    """A value in a line: numbers as short as they can be, long texts cut."""
    if isinstance(value, float):
        return re.sub(r"e([-+])0*", lambda match: f"e{match[1].strip('+')}", f"{value:g}")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def setting_changes(old: Any, new: Any, key: str = "") -> list[str]:
    """The settings that differ between two JSON values, as `a.b 1 → 2`; one may be `not set` in one of them."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*new, *(name for name in old if name not in new)]
        inner = (
            setting_changes(old.get(name, "not set"), new.get(name, "not set"), f"{key}.{name}" if key else name)
            for name in names
        )
        return [line for lines in inner for line in lines]
    if isinstance(old, list) and isinstance(new, list) and all(isinstance(item, str) for item in [*old, *new]):
        added, removed = ([item for item in a if item not in b] for a, b in ((new, old), (old, new)))
        parts = [*(f"+ {item}" for item in added), *(f"- {item}" for item in removed)]
        return [f"{key} {value_text(', '.join(parts) or 'in another order')}"] if old != new else []
    return [f"{key} {value_text(old)} → {value_text(new)}".strip()] if old != new else []


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


def likeness(old: Any, new: Any) -> int:
    """How much two values look like one param at two times; 0 where they do not."""
    if isinstance(old, dict) and isinstance(new, dict):
        return 2 + len(old.keys() & new.keys())
    codes = [isinstance(value, str) and bool(FINGERPRINT.fullmatch(value)) for value in (old, new)]
    return 1 if type(old) is type(new) and codes[0] == codes[1] else 0


def code_changes(old: str, new: str, module: str) -> list[str]:
    """The functions, classes and constants that differ between two fingerprints of a module."""
    recorded = read_code(old)
    if recorded is None:
        return [f"code changed (there is no record of the code {old})"]
    now = units_of(module) if fingerprint(module) == new else read_code(new).units
    return unit_changes(recorded.units, now) or [f"code changed, {old} → {new}"]


def param_changes(recorded: list[str], params: dict[str, Any], module: str) -> list[str]:
    """What differs between a job's recorded params and its present ones, settings first.

    Args:
        recorded: as Snakemake's records hold them: `repr` of each value.
        params: name → value of those that are not derived from inputs and outputs.
        module: the rule's, as `scripts.corpus.filter`.
    """
    present = {name: repr(value) for name, value in params.items()}
    recorded_only = [ast.literal_eval(text) for text in recorded if text not in present.values()]
    settings, code = [], []
    for name, text in present.items():
        if text in recorded:
            continue
        new = parsed(params[name])
        by_likeness = sorted(recorded_only, key=lambda old: -likeness(parsed(old), new))
        old = by_likeness[0] if by_likeness and likeness(parsed(by_likeness[0]), new) else None
        if old is not None:
            recorded_only.remove(old)
        if name == "code" and old is not None:
            code = [*code_changes(old, new, module), *code]
        elif old is None:
            settings.append(f"{name} {value_text(new)} is new")
        else:
            before = parsed(old)
            codes = [side.pop("codes", None) if isinstance(side, dict) else None for side in (before, new)]
            settings += setting_changes(before, new, "" if isinstance(new, dict) else name)
            code += ["the code that made its inputs is another"] if codes[0] != codes[1] else []
    return [*settings, *(f"{value_text(old)} is no longer a setting" for old in recorded_only), *code]
