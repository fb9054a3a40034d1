"""Find what the modules of a package define, by listing its folder: a new file is in no list kept by hand.

    constants_in("scripts.languages", "SYNTAX")     # {"c": Syntax(...), "cpp": Syntax(...), ...}

Fingerprints understand such a call where both arguments are written out, or the package is `__name__`: it reaches this
constant of each module, and none of the module's others.
"""

import pkgutil
from importlib import import_module
from typing import Any


def constants_in(package: str, name: str) -> dict[str, Any]:
    """Name of the module → its constant `name`, of each module of the package that has it, by name."""
    constants = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(import_module(package).__path__)):
        members = vars(import_module(f"{package}.{module}"))
        if name in members:
            constants[module] = members[name]
    return constants
