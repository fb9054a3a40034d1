"""SplitMix64 for compiled code (Steele, Lea and Flood 2014): well-mixed 64 bits out of a counter or a hash.

    mixed(U64(0) + GOLDEN)     # 0xE220A8397B1DCDAF, the generator's first number of seed 0

A numba cache does not notice when a function of another file changes. These are fixed by definition: what results hold
depends on them, so they never change.
"""

import numpy as np
from numba import njit

U64 = np.uint64
GOLDEN, FIRST_MIX, SECOND_MIX = U64(0x9E3779B97F4A7C15), U64(0xBF58476D1CE4E5B9), U64(0x94D049BB133111EB)


@njit(cache=True)
def mixed(value):
    """The generator's finalizer: 64 bits of which each depends on all bits of `value`."""
    value = (value ^ (value >> U64(30))) * FIRST_MIX
    value = (value ^ (value >> U64(27))) * SECOND_MIX
    return value ^ (value >> U64(31))
