"""scripts/licences/expressions.py: which expressions are permissive, by ScanCode's categories."""

import json
from importlib.resources import files

import pytest

from scripts.licences.expressions import permissive


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("mit", True),
        ("GPL-2.0-only", False),
        ("NOASSERTION", False),
        ("", False),
        ("MIT OR GPL-2.0-only", True),
        ("MIT AND GPL-2.0-only", False),
        ("(MIT AND GPL-2.0-only) OR Apache-2.0", True),
        ("MIT AND (GPL-2.0-only OR Apache-2.0)", True),
        ("Apache-2.0 WITH LLVM-exception AND MIT", True),
        ("MIT OR", False),
        ("MIT AND", False),
        ("MIT BSD-3-Clause", False),
        ("((", False),
        ("curl", True),
        ("LicenseRef-scancode-public-domain", True),
        ("bsd-new", True),  # ScanCode's own key
        ("Apache-2.0 WITH LicenseRef-scancode-commons-clause", False),
        ("Apache-2.0 WITH Unheard-of-exception", True),
        ("GPL-2.0+", False),
        ("Apache-1.1+", True),
        ("LicenseRef-Ours", False),
    ],
)
def test_an_expression_is_permissive_if_one_may_choose_permissive_licences_alone(expression, expected):
    assert permissive(expression) == expected


def test_every_licence_that_scancode_calls_permissive_is_and_every_proprietary_one_is_not():
    table = json.loads(files("license_expression").joinpath("data", "scancode-licensedb-index.json").read_text())
    permissive_ones = [entry for entry in table if entry["category"] == "Permissive" and not entry["is_exception"]]
    assert len(permissive_ones) > 900
    for entry in permissive_ones:
        assert permissive(entry["license_key"]), entry
        assert not entry["spdx_license_key"] or permissive(entry["spdx_license_key"]), entry
    refused = ("Copyleft", "Copyleft Limited", "Commercial", "Proprietary Free", "Source-available", "Free Restricted")
    names = {
        entry["license_key"] for entry in table if entry["category"] in refused and permissive(entry["license_key"])
    }
    # permissive by BigCode's list, and keys that are the identifier of another licence in SPDX
    assert names == {"artistic-2.0", "vim", "bsl-1.0", "intel"}


def test_a_list_of_names_allows_those_alone_and_can_add_to_the_permissive_ones():
    assert permissive("GPL-2.0-only", {"gpl-2.0-only"}) and not permissive("MIT", {"gpl-2.0-only"})
    assert permissive("MIT AND GPL-2.0-only", {"permissive", "gpl-2.0-only"})
