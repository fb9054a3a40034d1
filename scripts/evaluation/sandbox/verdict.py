"""The outcomes of running generated code under a problem's tests."""

from dataclasses import dataclass

OUTCOMES = (
    "passed",
    "wrong",
    "exception",
    "compile error",
    "timeout",
    "memory",
    "environment error",
    "sandbox error",
)


@dataclass(frozen=True)
class Verdict:
    """One of `OUTCOMES`, and the message that explains it."""

    outcome: str
    detail: str
