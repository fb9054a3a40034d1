"""The fixtures of the judge's tests."""

from tests.judge.fixtures import benchmarks, judge, sandbox, unharmed

__all__ = ["benchmarks", "judge", "sandbox", "unharmed"]
