"""Appended to the tests of a BigCodeBench problem in the judge: runs the unittest class `TestCases`.

The first failure is raised as it is: the judge tells a wrong result from an exception of the program by its class.
"""

# ruff: noqa: F821  the tests above define TestCases

import contextlib
import sys
import unittest


class FirstFailure(unittest.TestResult):
    error = None

    def addError(self, test, error):
        self.error = self.error or error[1]
        self.stop()

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error:
            self.addError(test, error)

    def addUnexpectedSuccess(self, test):
        self.addError(test, (None, AssertionError("passed though a failure was expected")))


def in_both(name):
    """pyplot's function, run here and where the figures are that the program draws."""
    here, there = getattr(pyplot, name), __remote__(f"matplotlib.pyplot.{name}")

    def run(*arguments):
        with contextlib.suppress(Exception):  # a program need not use pyplot
            there(*arguments)
        if not any(type(argument) is type(there) for argument in arguments):
            here(*arguments)

    return run


pyplot = sys.modules.get("matplotlib.pyplot")
for name in ("close", "clf", "cla") if pyplot else ():
    setattr(pyplot, name, in_both(name))
result = FirstFailure()
unittest.TestLoader().loadTestsFromTestCase(TestCases).run(result)
if result.error:
    raise result.error
assert result.testsRun, "no test"
