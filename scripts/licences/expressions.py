"""Which SPDX licence expressions are permissive.

    permissive("MIT OR GPL-2.0-only")      # True: one may choose MIT

The licences and their categories are those of ScanCode (https://scancode-licensedb.aboutcode.org), as the package
license-expression carries them. A licence is known by its SPDX identifier, former ones too, and by ScanCode's own key.
"""

import json
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from license_expression import ExpressionError, LicenseExpression, LicenseWithExceptionSymbol, Licensing

LICENSING = Licensing()
UNKNOWN = "NOASSERTION"  # there is a licence, but which one is not known
CATEGORIES = {"Permissive", "Public Domain"}
BIGCODE = {"artistic-2.0", "vim"}  # permissive by BigCode's list, though not by ScanCode's categories
# categories of what takes permissions away where it stands in the place of an exception, as the Commons Clause does
RESTRICTING = {"Source-available", "Proprietary Free", "Commercial", "Free Restricted", "Patent License"}


class Known(NamedTuple):
    """A licence or exception: its SPDX identifier, ScanCode's category of it, and which of both it is."""

    identifier: str
    category: str
    exception: bool


@cache
def known_licences() -> dict[str, Known]:
    """Every name of a licence or exception, in lower case → what is known of it."""
    table = files("license_expression").joinpath("data", "scancode-licensedb-index.json")
    named = {}
    for entry in json.loads(table.read_text(encoding="utf-8")):
        identifier = entry["spdx_license_key"] or f"LicenseRef-scancode-{entry['license_key']}"
        known = Known(identifier, entry["category"], entry["is_exception"])
        for name in (entry["license_key"], *entry["other_spdx_license_keys"]):
            named.setdefault(name.lower(), known)
        named[identifier.lower()] = known
    return named


def category_of(name: str) -> str:
    """ScanCode's category of a licence; empty for an unknown one."""
    # `GPL-2.0+` is how `or later` was written before SPDX 3
    known = known_licences().get(name.lower()) or known_licences().get(name.lower().removesuffix("+"))
    return known.category if known else ""


def permissive(expression: str, allowed: Collection[str] = ("permissive",)) -> bool:
    """Whether an SPDX expression lets one choose allowed licences alone; what is unknown is not allowed. `allowed`: the
    licences that count, in lower case; `permissive` stands for all permissive ones."""
    try:
        tree = LICENSING.parse(expression)
    except ExpressionError:
        return False
    return tree is not None and lets_choose(tree, allowed)


def lets_choose(tree: LicenseExpression, allowed: Collection[str]) -> bool:
    """As `permissive`, of a parsed expression."""
    if isinstance(tree, LICENSING.OR):
        return any(lets_choose(part, allowed) for part in tree.args)
    if isinstance(tree, LICENSING.AND):
        return all(lets_choose(part, allowed) for part in tree.args)
    if isinstance(tree, LicenseWithExceptionSymbol):
        exception = tree.exception_symbol.key.lower()  # most add permissions
        restricts = category_of(exception) in RESTRICTING and exception not in allowed
        return lets_choose(tree.license_symbol, allowed) and not restricts
    name = tree.key.lower()
    return name in allowed or ("permissive" in allowed and (name in BIGCODE or category_of(name) in CATEGORIES))
