"""The possible outcomes of running generated code under a problem's tests.

`passed` counts, all others do not. With an outcome in `FAULTS` not the program failed but its tests or the sandbox: a
benchmark with such an outcome is not measured. `unjudged` is what two processes cannot tell, as objects whose class
says itself what they equal; the detail names it.
"""

from dataclasses import dataclass

FAULTS = ("test error", "sandbox error")
OUTCOMES = (
    "passed",
    "wrong",
    "exception",
    "compile error",
    "timeout",
    "memory",
    "environment error",
    "unjudged",
    *FAULTS,
)


@dataclass(frozen=True)
class Verdict:
    """One of `OUTCOMES`, and the message that explains it."""

    outcome: str
    detail: str

    def __post_init__(self) -> None:
        # a program can raise a text with half of a surrogate pair, which no file of results can hold
        object.__setattr__(self, "detail", self.detail.encode(errors="backslashreplace").decode())
