"""A released format that costs more than rounding does is another model, and its release is not written."""

import numpy as np
import pytest

from scripts.release.proof import failed, lost_bits

BEFORE = np.linspace(0.8, 1.4, 8)


@pytest.mark.parametrize(
    ("lost", "exact", "refused"),
    [(0.003, False, False), (0.176, False, True), (-0.1, False, False), (0.003, True, True), (0.0, True, False)],
)
def test_what_rounding_costs_is_said_and_more_is_refused(lost, exact, refused):
    line = lost_bits("x-q8_0.gguf", BEFORE, BEFORE + lost, 0.95, exact)
    assert bool(failed([line])) == refused
    assert f"{lost:+.5f}" in line.text and "8 documents" in line.text
    assert bool(failed([lost_bits("x", BEFORE[:3], BEFORE[:3] + lost, 0.95, exact)])) == refused
