"""The prompt for a problem, and the program built from the model's text: as a completion, or as an answer in a chat.

    prompt = prompt_of(problem, "completion")
    code = program(problem, text, "completion")

A completion ends where the benchmark's reference harness ends it: at a stop string, or, for HumanEval-X, where the
braces close that the head opened (CodeGeeX, codegeex/benchmark/utils.py, which also counts braces in strings and
comments). In a chat answer the first code block that defines the function is used (`block`); of one without blocks the
code behind a sentence, else the whole answer.
"""

import ast
import builtins
import html
import re
import symtable
import warnings

from scripts.evaluation.generation.examples import Prompt
from scripts.judge.problem import BEGINS, Problem
from scripts.judge.sandbox.cpp_judge import divided
from scripts.languages import languages

REQUEST = (
    "Complete the following {title} code. Answer with the whole code in one code block.\n\n```{language}\n{prompt}\n```"
)

# a container's marks are those of quotations, which stand before each further line too, and of items of lists
CONTAINER = r"(?P<container>(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t]) ?)*)"
FENCE = re.compile(CONTAINER + r"(?P<indent>[ \t]*)(?P<marks>`{3,}|~{3,})(?P<info>[^`]*)$")
BEHIND_COLON = re.compile(r"(?P<container>)(?P<indent>)[^`]{1,80}[:：][ \t]*(?P<marks>`{3,})(?P<info>\w+)[ \t]*$")
# marks of code of HTML and of CodeLlama
MARKED = re.compile(
    r"(?s)<pre\b[^>]*>(?:\s*<code\b[^>]*>)?\n?(.*?)(?:</code>\s*)?</pre>"
    r"|<code\b[^>]*>(?:\n(.*?)|((?:import|from|def|class|#include)\b.*?))</code>"
    r"|\[PYTHON\]\n?(.*?)\[/PYTHON\]"
)
# MBPP's own prompt ends in `[BEGIN]`; the answer goes on, or repeats it, and ends in `[DONE]`
MBPP_MARKS = re.compile(r"(?s)\A(?:.*?^[ \t]*\[BEGIN\][ \t]*$\n?)?(.*?)(?:^[ \t]*)?\[DONE\]", re.M)
# Marks between which models think before they answer; one that is not closed has not been answered.
THINKING = [
    (r"<(?:seed:)?think(?:ing)?>", r"</(?:seed:)?think(?:ing)?>"),
    (r"<reasoning>", r"</reasoning>"),
    (r"<thought>", r"</thought>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    # harmony's channels, with their control tokens or, as decoded, without
    (r"<\|channel\|>analysis<\|message\|>", r"<\|channel\|>final<\|message\|>"),
    (r"analysis(?=[A-Z])", r"assistantfinal"),
]
# the first line of a part of Python, as far as its first word tells
STATEMENT = re.compile(
    r"(?m)^[ \t]*(?:(?:import|from|def|class|async|for|while|if|with|try|print)\b|@\w|[A-Za-z_][^\n=]*=[^=\n])"
)
# C++ from the first line of code to the last brace at the beginning of a line
CODE = re.compile(r"(?ms)^(?:#include|using |template|struct |class |[\w:<>,&* \t]+\([^()\n]*\)[ \t]*\{).*^\};?")
COMMENT = re.compile(r"(?s)//[^\n]*|/\*.*?\*/")
# Lines that a C++ program may repeat.
IMPORTS = r"^(?:#include|using)\b.*$"


def prompt_of(problem: Problem, style: str) -> Prompt:
    """The text to continue, or the chat to answer, behind the solved examples."""
    if style == "completion":
        return "".join(f"{prompt}{solution.rstrip()}\n\n\n" for prompt, solution in problem.examples) + problem.prompt
    chat = []
    for prompt, solution in problem.examples:
        code = f"```{problem.language}\n{prompt}{solution.rstrip()}\n```"
        chat += [request(problem, prompt), {"role": "assistant", "content": code}]
    if problem.request:
        last_turn = {"role": "user", "content": problem.request}
    else:
        last_turn = request(problem, problem.prompt)
    return [*chat, last_turn]


def request(problem: Problem, prompt: str) -> dict:
    """The turn of a chat that wants code."""
    values = {"title": languages()[problem.language].title, "language": problem.language, "prompt": prompt.strip()}
    return {"role": "user", "content": REQUEST.format(**values)}


def end(problem: Problem, text: str) -> int | None:
    """Where a completion ends; None if it has not ended yet."""
    if problem.stops:
        return min((place for stop in problem.stops if (place := text.find(stop)) >= 0), default=None)
    depth = problem.head.count("{") - problem.head.count("}")
    for brace in re.finditer("[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return None


def defines(problem: Problem, code: str) -> bool:
    """Whether a block of code defines the function that is asked for, and does not only call it."""
    if problem.language == "python":
        name = re.escape(problem.entry)
        return re.search(rf"^\s*(?:async\s+)?(?:def|class)\s+{name}\b|^{name}\s*=", code, re.M) is not None
    return problem.entry in re.findall(BEGINS[problem.language], code, re.M)


def fenced(answer: str) -> list[str]:
    """The code of each fenced block, as CommonMark reads them, without what lists and quotations put before its lines.

    The last block may be unterminated.
    """
    blocks, opened, lines = [], None, []
    for line in [*answer.replace("\r\n", "\n").split("\n"), None]:
        if opened is None:
            opened, lines = FENCE.match(line or "") or BEHIND_COLON.match(line or ""), []
            continue
        if line is not None:
            before = re.sub("[^>]", " ", opened["container"])
            line = line.removeprefix(before if line.startswith(before) else before.rstrip())
        fence = FENCE.match(line or "")
        # one that is indented further is text of the block, as in a docstring
        inside = fence and len(fence["indent"].expandtabs()) > len(opened["indent"].expandtabs()) + 3
        bare = fence and not fence["container"] and not fence["info"].strip()[:1].isalnum()
        ends = bare and fence["marks"].startswith(opened["marks"])
        if line is not None and (inside or not ends):
            lines.append(line)
            continue
        if line is None:
            lines = until_marks(lines, opened["marks"])
        if all(code.startswith(opened["indent"]) for code in lines if code.strip()):
            lines = [code.removeprefix(opened["indent"]) for code in lines]
        blocks.append("\n".join(lines if line is None else [*lines, ""]))
        opened = None
    return blocks


def until_marks(lines: list[str], marks: str) -> list[str]:
    """The lines of a block that has no end of its own, up to the last line of code that its marks stand behind."""
    for number in reversed(range(len(lines))):
        if lines[number].endswith(marks) and lines[number].strip("`~ "):
            return [*lines[:number], lines[number].removesuffix(marks)]
    return lines


def without_thinking(answer: str) -> str:
    """The answer behind what a reasoning model thinks; empty where it has not ended thinking.

    A template may have opened the thinking in the prompt, so a mark that only closes it counts, too.
    """
    for opening, closing in THINKING:
        ends = [mark.end() for mark in re.finditer(closing, answer)]
        if re.match(rf"\s*{opening}", answer) and not ends:
            return ""
        if ends and (closing != "assistantfinal" or re.match(rf"\s*{opening}", answer)):
            return answer[ends[-1] :]
    return answer


def block(problem: Problem, answer: str) -> str:
    """The code in an answer; what a reasoning model thinks before it is no part of it.

    Of several blocks it is the first that defines the function, else the first that names it; of a problem that asks
    for a whole program the last one. Python's blocks that define what this one calls stand before it.
    """
    answer = without_thinking(answer)
    marked = MBPP_MARKS.match(answer)
    if marked and not fenced(answer):
        answer = marked[1]
    blocks = fenced(answer) or [html.unescape("".join(filter(None, found))) for found in MARKED.findall(answer)]
    if not blocks:
        return between_words(problem, answer)
    if not problem.entry:
        return blocks[-1]
    defining = [code for code in blocks if defines(problem, code)]
    naming = [code for code in blocks if problem.entry in code]
    chosen = (defining or naming or blocks)[0]
    if problem.language == "python" and len(blocks) > 1:
        return with_helpers(chosen, [code for code in blocks if code != chosen])
    return chosen


def fault_of(code: str) -> int | None:
    """The line, from 1, at which a text stops to be Python; None where it is."""
    try:
        with warnings.catch_warnings(action="ignore"):  # as of "\\d"
            ast.parse(code)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1
    return None


def parses(code: str) -> bool:
    """Whether a text is Python."""
    return fault_of(code) is None


def between_words(problem: Problem, answer: str) -> str:
    """The code that stands without marks among sentences; the answer where there is none that has the function.

    Python begins at a line with a statement and goes on as far as it parses; it may be indented. Other code begins at
    what it includes or the first definition, and ends with a brace.
    """
    lines = answer.split("\n")
    if problem.language != "python":
        code = CODE.search(answer)
        others = COMMENT.sub("", CODE.sub("", answer)).split("\n")
        words = any(line.strip() and line.strip()[-1] not in ";{}" for line in others)
        return code[0] if code and words and defines(problem, code[0]) else answer
    if parses(answer) and (not problem.entry or problem.entry in names(answer)[1] or not STATEMENT.search(answer)):
        return answer
    found, end = [], 0
    for first, line in enumerate(lines):
        if first >= end and STATEMENT.match(line):
            indent = line[: len(line) - len(line.lstrip())]
            code = parsed_part([other.removeprefix(indent) for other in lines[first:]])
            end = first + 1 + code.count("\n")
            if not problem.entry or problem.entry in names(code)[1]:
                found.append(code)
    return max([*found, ""], key=len) or answer


def parsed_part(lines: list[str]) -> str:
    """The longest beginning of lines that is Python; empty where there is none."""
    end = len(lines)
    while end > 0:
        code = "\n".join(lines[:end])
        fault = fault_of(code)
        if fault is None:
            return code
        end = min(end - 1, fault - 1)
    return ""


def names(code: str) -> tuple[set[str], set[str]]:
    """Names that Python code uses and does not define, and those that it defines at its top level.

    Both are empty if it does not parse.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # as of "\\d"
            module = symtable.symtable(code, "answer", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    used, scopes = set(), [module]
    for scope in scopes:
        scopes += scope.get_children()
        for symbol in scope.get_symbols():
            if symbol.is_referenced() and (scope is module or symbol.is_global()):
                used.add(symbol.get_name())
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    return used - defined - set(dir(builtins)), defined


def with_helpers(code: str, others: list[str]) -> str:
    """A block of Python with those of the others before it that define names that it uses."""
    missing, known, helpers = names(code)[0], [(other, *names(other)) for other in others], set()
    for _ in others:  # a helper may need another one
        for other, used, defined in known:
            if missing & defined:
                helpers.add(other)
                missing = missing | used
    return "\n".join([*(other for other in others if other in helpers), code])


def completed(problem: Problem, text: str) -> str:
    """The program built from a completion."""
    code = problem.head + text[: end(problem, text)]
    # MultiPL-E's tests begin with the brace that was cut off
    closing = ""
    if problem.tests.lstrip().startswith("}"):
        closing = "\n}"
    return code + closing


def closed(problem: Problem, code: str) -> str:
    """A whole program with the braces that are left to MultiPL-E's tests, which begin with the function's last one."""
    missing = code.count("{") - code.count("}")
    if problem.tests.lstrip().startswith("}"):
        return f"{code}\n{'}' * missing}"
    return code


def with_solution(problem: Problem, code: str) -> str:
    """A program for LiveCodeBench's functional tests: like its own harness, they take a function of the module where
    there is no class `Solution`."""
    method = re.search(r"^METHOD = '(\w+)'$", problem.tests, re.M)
    if re.search(r"^class Solution\b", code, re.M) or not method:
        return code
    if not re.search(rf"^(?:async )?def {method[1]}\b|^{method[1]}\s*=", code, re.M):
        return code
    return f"{code}\n\n\nclass Solution:\n    {method[1]} = staticmethod({method[1]})\n"


def program(problem: Problem, text: str, style: str) -> str:
    """The source of the program built from a model's text."""
    if style == "completion":
        return completed(problem, text)
    code = block(problem, text)
    if problem.language == "python":
        # placed after the prompt, for its imports and helpers; the code's function replaces the prompt's
        if problem.judge == "stdio":  # LiveCodeBench: an answer is a whole program
            return code
        if "Solution" in problem.defined:
            return with_solution(problem, code)
        is_program = not problem.entry or re.search(rf"^def {problem.entry}\b", code, re.M)
        if is_program:
            return f"{problem.head}\n{code}"
        return completed(problem, code)
    defined = re.findall(BEGINS[problem.language], code, re.M)
    if problem.entry not in defined:
        return completed(problem, code)
    before, _ = divided(problem)
    imports = "\n".join(re.findall(IMPORTS, before, re.M))
    repeated = set(re.findall(BEGINS[problem.language], before, re.M)) & set(defined)
    return f"{imports if repeated else before}\n{code}"
