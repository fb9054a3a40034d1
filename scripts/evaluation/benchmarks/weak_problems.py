"""Problems whose tests pass a wrong program or fail a right one: they are scored as usual, and also reported apart.

    why = WEAK.get("CPP/20")

Of HumanEval-X, found by benchmarks/find_weak_problems.py; docs/sandbox.md says more.
"""

NAN = "a program that returns NaN for every number passes"
EMPTY = "a program that returns an empty value passes"
WEAK = {
    **dict.fromkeys(("CPP/20", "CPP/21", "CPP/30", "CPP/37", "CPP/62", "Java/32"), NAN),
    **dict.fromkeys(("Rust/4", "CPP/23"), EMPTY),
    "Rust/32": "its tests are a comment, so any program that compiles passes",
    "Go/95": "the published solution depends on the order of a map, and can fail",
}
