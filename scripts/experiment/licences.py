"""Which SPDX licence expressions are permissive.

permissive("MIT OR GPL-2.0-only")      # True: one may choose MIT
"""

import re
from collections.abc import Collection

# The permissive licences of The Stack and of BigCode's list that sources name most.
PERMISSIVE = set(
    "0BSD AFL-3.0 Apache-1.1 Apache-2.0 Artistic-2.0 Beerware BlueOak-1.0.0 BSD-1-Clause BSD-2-Clause"
    " BSD-2-Clause-Patent BSD-3-Clause BSD-3-Clause-Clear BSD-4-Clause BSL-1.0 CC-BY-4.0 CC0-1.0 ECL-2.0 FTL HPND ICU"
    " ISC Libpng libtiff MIT MIT-0 MITNFA MulanPSL-2.0 NCSA OpenSSL PHP-3.01 PostgreSQL PSF-2.0 Python-2.0 UPL-1.0"
    " Unicode-3.0 Unicode-DFS-2016 Unlicense Vim W3C WTFPL X11 Zlib zlib-acknowledgement ZPL-2.1".lower().split()
)


def permissive(expression: str, allowed: Collection[str] = PERMISSIVE) -> bool:
    """Whether an SPDX expression lets one choose permissive licences alone; NOASSERTION and what is unknown do not.

    Args:
        allowed: the licences that count, in lower case.
    """
    words = re.findall(r"[()]|[^\s()]+", expression)

    def either(at: int) -> tuple[bool, int]:
        value, at = conjunction(at)
        while at < len(words) and words[at].upper() == "OR":
            other, at = conjunction(at + 1)
            value = value or other
        return value, at

    def conjunction(at: int) -> tuple[bool, int]:
        value, at = term(at)
        while at < len(words) and words[at].upper() == "AND":
            other, at = term(at + 1)
            value = value and other
        return value, at

    def term(at: int) -> tuple[bool, int]:
        if at >= len(words):
            return False, at
        if words[at] == "(":
            value, at = either(at + 1)
            return value, at + 1
        value, at = words[at].lower() in allowed, at + 1
        # an exception only adds permissions
        return value, at + 2 if at < len(words) and words[at].upper() == "WITH" else at

    value, end = either(0)
    return value and end >= len(words)
