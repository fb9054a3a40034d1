"""The tests of a problem in EvalPlus' own format; it runs in the judge, below the lines that evalplus.py writes.

    REFERENCE   the reference solution as text
    ENTRY       the name of its function
    TASK        HumanEval/32 or Mbpp/2
    INPUTS      the arguments of each call, as JSON
    ATOL        absolute tolerance
    candidate   the function under test

The rules of comparison are those of evalplus/eval/__init__.py (v0.3.1): equal, or close if the expected value is made
of floats or the problem has a tolerance; a few problems have a rule of their own.
"""

# ruff: noqa: F821  the lines above define these names

import copy
import json
import math

import numpy as np

# Problems of MBPP+ by what their results are compared as.
AS_SETS = (2, 7, 111, 140, 232, 249, 579, 769)
NOT_NONE = ("check_str", "text_match_three", "text_starta_endb")

# JSON has no tuples: problems of MBPP+ by the place of theirs (evalplus/data/mbpp.py).
EACH_ARGUMENT = (2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740)
EACH_ARGUMENT += (744, 809)
EACH_ITEM = (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780)
ITEMS_OF_FIRST = (75, 413, 444, 753)
SECOND = (106, 750)
FIRST = (250, 405, 446, 617, 720, 763, 808, 307)
BOTH_LEVELS = (259, 401, 445)
WHERE_LIST = (278,)
EVERYWHERE = (580, 615, 791)


def tuples(value):
    """A value with all its lists as tuples."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def typed(number, arguments):
    """The arguments of one call of problem `number` of MBPP+, as its function expects them."""
    if number in EACH_ARGUMENT:
        return [tuple(argument) for argument in arguments]
    if number in EACH_ITEM:
        return [[tuple(item) for item in argument] for argument in arguments]
    if number in ITEMS_OF_FIRST:
        return [[tuple(item) for item in arguments[0]], arguments[1]]
    if number in SECOND:
        return [arguments[0], tuple(arguments[1])]
    if number in FIRST:
        return [tuple(arguments[0]), *arguments[1:]]
    if number in BOTH_LEVELS:
        return [tuple(tuple(item) for item in argument) for argument in arguments]
    if number in WHERE_LIST:
        return [tuple(tuple(item) if isinstance(item, list) else item for item in arguments[0])]
    if number in EVERYWHERE:
        return [tuples(argument) for argument in arguments]
    if number == 115:
        return [[set(item) if isinstance(item, list) and item else {} for item in arguments[0]]]
    if number == 124:
        return [float(arguments[0]), complex(arguments[1])]
    if number == 252:
        return [complex(arguments[0])]
    if number == 722:
        return [{key: tuple(value) for key, value in arguments[0].items()}, *arguments[1:]]
    return arguments


def pyramid(base, height):
    """The surface of a pyramid whose height is the one above its base, not of a side (MBPP 581)."""
    slant = math.sqrt((base / 2) ** 2 + height**2)
    return round(base**2 + 4 * (base * slant) / 2)


def digit_distance(first, second):
    """The differences of digits from the right (MBPP 558)."""
    first, second = str(first), str(second)
    size = max(len(first), len(second))
    return sum(abs(int(a) - int(b)) for a, b in zip(first.zfill(size), second.zfill(size), strict=True))


def floats(value):
    if isinstance(value, float):
        return True
    if isinstance(value, list | tuple) and value:
        return all(isinstance(item, float) for item in value)
    return isinstance(value, np.ndarray) and value.dtype in (np.float64, np.float32)


def accepted(number, arguments, out, expected):
    """Whether a result is right by a rule of its problem; None if the problem has none."""
    if number == 164:
        return True
    if number == 295:
        return out == expected or out == 0
    if number == 581:
        return out == expected or abs(out - pyramid(*arguments)) <= ATOL
    if number == 558:
        return out == expected or out == digit_distance(*arguments)
    if number in AS_SETS:
        return set(out) == set(expected)
    if ENTRY in NOT_NONE:
        return out == expected if isinstance(out, bool) else expected == (out is not None)
    return None


def check(number, arguments, out, expected):
    """Assert that a result is right.

    Args:
        number: of the problem in MBPP+; None in HumanEval+.
    """
    if number is None and ENTRY == "find_zero":
        assert abs(sum(factor * math.pow(out, power) for power, factor in enumerate(arguments[0]))) <= ATOL
        return
    exact = accepted(number, arguments, out, expected) if number else None
    exact = out == expected if exact is None else exact
    atol = 1e-6 if ATOL == 0 and floats(expected) else ATOL
    if exact or atol == 0:
        assert exact
        return
    assert type(out) is type(expected)
    assert not isinstance(expected, list | tuple) or len(out) == len(expected)
    assert np.allclose(out, expected, rtol=1e-07, atol=atol)


def run():
    solution, number = {}, int(TASK.split("/")[1]) if TASK.startswith("Mbpp/") else None
    exec(REFERENCE, solution)  # noqa: S102, the benchmark's own, in a sandbox
    for call in json.loads(INPUTS):
        arguments = typed(number, call) if number else call
        expected = solution[ENTRY](*copy.deepcopy(arguments))
        if number and ENTRY in NOT_NONE:
            expected = expected is not None
        check(number, arguments, candidate(*copy.deepcopy(arguments)), expected)


run()
