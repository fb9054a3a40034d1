"""Appended to the tests of a BigCodeBench problem in the judge: runs the unittest class `TestCases`.

The first failure is raised as it is: the judge tells a wrong result from an exception of the program by its class.
"""

# ruff: noqa: F821  the tests above define TestCases

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


result = FirstFailure()
unittest.TestLoader().loadTestsFromTestCase(TestCases).run(result)
if result.error:
    raise result.error
assert result.testsRun, "no test"
