"""scripts/common/text.py: the numbers of the published generator."""

import numpy as np

from scripts.common.splitmix64 import GOLDEN, U64, mixed


def test_the_first_numbers_of_seed_1234567_are_those_of_the_reference_program():
    # https://prng.di.unimi.it/splitmix64.c, as Rosetta Code lists its output
    with np.errstate(over="ignore"):
        numbers = [int(mixed(U64(1234567) + U64(count) * GOLDEN)) for count in range(1, 6)]
    assert numbers == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
