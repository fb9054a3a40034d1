"""A problem of a benchmark, whatever file it came from."""

import re
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


LANGUAGES = ("python", "cpp")

# Stop strings of the reference harnesses: of HumanEval (Chen et al. 2021, section 2.1, with the decorator,
# assertion and fence that later harnesses added) and of MBPP (bigcode-evaluation-harness).
HUMANEVAL_STOPS = ("\nclass", "\ndef", "\n#", "\n@", "\nif", "\nprint", "\nassert", "\n```")
MBPP_STOPS = ("\nclass", "\nassert", '\n"""', "\nprint", "\nif", "\n<|/", "\n```", "\n[DONE]")

NAMES = {"python": "python", "py": "python", "cpp": "cpp"}

# How a function begins that may be the problem's; the group is its name.
BEGINS = {
    "python": r"^def (\w+)",
    "cpp": r"^[A-Za-z_][\w:<>,&* \t]*?[ \t&*>](\w+)[ \t]*\(",
}


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        prompt: the text that a completion continues.
        head: the part of the program before a completion.
        tests: source of the tests, in the problem's language.
        entry: name of the problem's function; empty for MBPP, where only the tests name it.
        stops: strings that end a completion; none if counting braces ends it.
        canonical: the published solution, as a completion.
        defined: for Python, the names that the tests take from the program even where a builtin has the same; only
            `entry` if there are none.
        imports: for Python, imports of the tests that a program may rely on, as it does where the reference harness
            joins both in one file.
        judge: `calls`: the tests call the program's functions; `stdio`: the program reads standard input, and the tests
            are a JSON list of [input, output].
        preamble: what the judge puts before every program, as the reference harness does.
        request: the chat that asks for the program, where the benchmark has one of its own.
        unjudged: why it cannot be judged in two processes; empty if it can.
        examples: (prompt, solution) of the problems that stand solved before the prompt.
    """

    id: str
    language: str
    prompt: str
    head: str
    tests: str
    entry: str
    stops: tuple[str, ...]
    canonical: str | None = None
    imports: str = ""
    defined: tuple[str, ...] = ()
    judge: str = "calls"
    preamble: str = ""
    request: str = ""
    unjudged: str = ""
    examples: tuple[tuple[str, str], ...] = ()


def language_of(name: str) -> str:
    """This project's name for a benchmark's language. Raises ValueError: the language is not supported."""
    if name.lower() not in NAMES:
        raise ValueError(f"language {name!r} is not judged here, only {', '.join(LANGUAGES)}")
    return NAMES[name.lower()]


def entry_of(head: str, language: str) -> str:
    """The name of the last function that begins in `head`. Raises ValueError: none does."""
    names = re.findall(BEGINS[language], head, re.M)
    opened = language == "python" or re.search(r"\{[ \t]*$", head, re.M)
    if not names or not opened:
        raise ValueError("its prompt does not contain the beginning of a function")
    return names[-1]
