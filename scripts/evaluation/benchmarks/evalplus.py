"""HumanEval+ and MBPP+ in EvalPlus' own format, as HumanEvalPlus.jsonl.gz and MbppPlus.jsonl.gz of its releases.

    problem = humaneval_plus(record)

A record has a reference solution and inputs, no expected outputs. The judge runs the reference and compares by the
rules of EvalPlus (evalplus_tests.py), on the base inputs and on those that EvalPlus added: what it calls `plus`.
"""

import json
from pathlib import Path

from scripts.judge.problem import HUMANEVAL_STOPS, MBPP_STOPS, Problem

RUNNER = Path(__file__).with_name("evalplus_tests.py").read_text(encoding="utf-8")


def tests(record: dict, reference: str) -> str:
    """The tests of a record.

    Raises:
        ValueError: it has no inputs.
    """
    entry, inputs = record["entry_point"], [*record["base_input"], *record["plus_input"]]
    if not inputs:
        raise ValueError("base_input and plus_input are empty")
    facts = {"REFERENCE": reference, "ENTRY": entry, "TASK": record["task_id"], "INPUTS": json.dumps(inputs)}
    lines = [*(f"{name} = {value!r}" for name, value in facts.items()), f"ATOL = {float(record['atol'])!r}"]
    return "\n".join([*lines, f"candidate = {entry}", RUNNER])


def humaneval_plus(record: dict) -> Problem:
    prompt, entry, solution = record["prompt"], record["entry_point"], record["canonical_solution"]
    return Problem(
        record["task_id"], "python", prompt, prompt, tests(record, prompt + solution), entry, HUMANEVAL_STOPS, solution
    )


def mbpp_plus(record: dict) -> Problem:
    entry, solution = record["entry_point"], record["canonical_solution"]
    own_tests = tests(record, solution)
    return Problem(record["task_id"], "python", record["prompt"], "", own_tests, entry, MBPP_STOPS, solution)
