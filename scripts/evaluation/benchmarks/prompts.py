"""What a model is given for a problem, and the program that its answer makes: completion or chat.

    prompt = prompt_of(problem, "completion")
    code = program(problem, written, "completion")

A completion ends where the benchmark's reference harness ends it: at a stop string, or, for HumanEval-X, where the
braces close that the head opened (CodeGeeX, codegeex/benchmark/utils.py; it counts them in strings and comments too).
Of a chat answer the first code block that names the function counts, else the first, else the whole answer.
"""

import re

from scripts.evaluation.benchmarks.formats import BEGINS, Problem
from scripts.evaluation.generation.transformers_engine import Prompt
from scripts.evaluation.sandbox.compiled_programs import DEFINED, divided, java_type, shared

TITLES = {"python": "Python", "java": "Java", "go": "Go", "rust": "Rust", "cpp": "C++"}
REQUEST = (
    "Complete the following {title} code. Answer with the whole code in one code block.\n\n```{language}\n{prompt}\n```"
)

# Lines that a program may have twice: what another file would be included with.
IMPORTS = r"^(?:#include|using|import|use|package)\b.*$"


def prompt_of(problem: Problem, style: str) -> Prompt:
    """The text to continue, or the chat to answer."""
    if style == "completion":
        return problem.prompt
    values = {"title": TITLES[problem.language], "language": problem.language, "prompt": problem.prompt.strip()}
    return [{"role": "user", "content": REQUEST.format(**values)}]


def end(problem: Problem, text: str) -> int | None:
    """Where a completion ends; None where it does not yet."""
    if problem.stops:
        return min((place for stop in problem.stops if (place := text.find(stop)) >= 0), default=None)
    depth = problem.head.count("{") - problem.head.count("}")
    outside = 1 if problem.language == "java" else 0  # the class around the method stays open
    needed = shared(problem) - {problem.entry} if problem.language == "rust" else set()
    for found in re.finditer("[{}]", text):
        depth += 1 if found[0] == "{" else -1
        if depth == outside and needed <= set(re.findall(DEFINED, text[: found.end()])):
            return found.end()
    return None


def block(problem: Problem, answer: str) -> str:
    """The code in an answer; the last block may lack its end."""
    blocks = re.findall(r"^ *```[^\n]*\n(.*?)(?:^ *```|\Z)", answer, re.M | re.S)
    return next((code for code in blocks if problem.entry in code), (blocks or [answer])[0])


def completed(problem: Problem, text: str) -> str:
    """The program of a completion."""
    code = problem.head + text[: end(problem, text)]
    closing = "\n}" if problem.tests.lstrip().startswith("}") else ""  # MultiPL-E's tests begin with what is cut off
    return code + closing + ("\n}" if problem.language == "java" else "")


def program(problem: Problem, text: str, style: str) -> str:
    """The source of the program that a model's text makes."""
    if style == "completion":
        return completed(problem, text)
    code = block(problem, text)
    if problem.language == "python":
        # after the prompt, whose function the code's replaces, and its imports and helpers
        whole = not problem.entry or re.search(rf"^def {problem.entry}\b", code, re.M)
        return f"{problem.head}\n{code}" if whole else completed(problem, code)
    defined = re.findall(BEGINS[problem.language], code, re.M)
    if problem.entry not in defined:
        return completed(problem, code)
    before, _ = divided(problem)
    imports = "\n".join(re.findall(IMPORTS, before, re.M))
    if problem.language == "java":
        whole = re.search(rf"\bclass {java_type(problem)}\b", code)
        return f"{imports}\n{code}" if whole else f"{before}{code}\n}}"
    repeated = set(re.findall(BEGINS[problem.language], before, re.M)) & set(defined)
    return f"{imports if repeated else before}\n{code}"
