"""Make instruction chats from the syntax tree of a file: an analysis of it, tasks on its functions.

    for example in examples_of(document, settings, seed=42):
        example["task"], example["messages"]

Each documented function is used for one task only, chosen by a hash of its place with the tasks' weights. Otherwise the
request of one task could hold the answer of another.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import accumulate

from scripts.common.hashing import fraction_of, text_digest
from scripts.common.text import code_block
from scripts.corpus.instruct.chat import SYSTEM, messages
from scripts.corpus.instruct.facts import facts_from
from scripts.corpus.instruct.functions import Function, functions_from, is_informative, is_test
from scripts.corpus.syntax.comments import CJK, WORD
from scripts.corpus.syntax.grammars import parse
from scripts.experiment.settings.corpus import InstructDataset
from scripts.languages import chats, languages

SHORT = 5  # lines of a function with a single statement, below which nothing is asked about it
SENTENCE_END = re.compile(r"[.!?。！？][\"')\]”’`*]*$")
SIGNATURE = re.compile(r".*?(?:\{\s*\n|:\n|$)", re.DOTALL)  # of a function, up to its body
ASIDE = re.compile(
    r"(?i)\W*(?:warning|note|todo|fixme|deprecated|overload|see|must|should|cannot|do not|don't|requires|since)\b"
    r"|`+\w+`+ (?:is|are|should|must|may|can)\b|\W*(?:[\w-]+ )?version\W*[<>=\d]"
)
STUB = re.compile(
    r"(?m)^\s*(?:\.\.\.|pass|raise NotImplementedError\b.*|(?:todo|unimplemented)!\(.*"
    r"|panic\(\"(?:not implemented|TODO).*|throw new (?:UnsupportedOperation|NotImplemented)\w*\(.*)$"
)
# words that say nothing of a function
EMPTY_WORDS = frozenset(
    WORD.findall(
        "with from this that into when then than given using used uses will have been does each such also only some"
        " return returns create creates call calls gets sets make makes perform performs helper function method"
        " class object instance value values current information"
    )
)
REQUESTS = {
    "function_to_docstring": {
        "zh": "请为以下{language}代码{english}写出文档说明：",
        "en": "Write the documentation of this {language} function:",
    },
    "signature_to_body": {
        "zh": "请补全以下{language}函数的实现：",
        "en": "Complete the implementation of the following {language} function:",
    },
}


def fraction(*words: object) -> float:
    """A number in [0, 1) by a hash of some values."""
    return fraction_of(text_digest("\0".join(map(str, words))))


def chat(request: str, material: str, answer: str, settings: InstructDataset) -> list[dict]:
    """The messages of a chat; `material` is the code or documentation that the request is about."""
    system = SYSTEM[settings.language] if settings.system is None else settings.system
    turns = (("system", system), ("user", f"{request}\n\n{material}"), ("assistant", answer))
    return [{"role": role, "content": content} for role, content in turns]


def is_complete(sentence: str) -> bool:
    """Whether a sentence is one, and not a heading or the beginning of one: it says something, and it ends."""
    return is_informative(sentence) and bool(SENTENCE_END.search(sentence))


def says_more(function: Function) -> bool:
    """Whether a function's documentation says more than its signature: `Calls a tool by name.` of `call_tool(name)`
    does not, and what begins with a parameter or a warning does not say what the function does."""
    own_name = re.match(rf"\W*{re.escape(function.name)}\b", function.documentation)  # as Go's documentation begins
    if ASIDE.match(function.documentation[own_name.end() if own_name else 0 :]):
        return False
    signature = f"{function.name} {function.holder or ''} {SIGNATURE.match(function.source)[0]}"
    parts = WORD.findall(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", signature).lower())
    named = tuple(part[:4] for part in parts if len(part) > 3)
    words = {word for word in WORD.findall(function.documentation.lower()) if len(word) > 3}
    other = [word for word in words - EMPTY_WORDS if not word.startswith(named)]
    return len(other) >= 2 or bool(CJK.search(function.documentation))


def function_chat(task: str, function: Function, language: str, settings: InstructDataset) -> list[dict]:
    """The chat of a task on a function."""
    english = "" if settings.language == "en" or CJK.search(function.documentation) else "用英文"
    request = REQUESTS[task][settings.language].format(language=languages()[language].title, english=english)
    if task == "function_to_docstring":
        return chat(request, code_block(function.source, language), function.documentation, settings)
    answer = code_block(function.source, language)
    return chat(request, code_block(function.documented, language), answer, settings)


@cache
def bounds(weights: tuple[tuple[str, float], ...]) -> list[tuple[str, Fraction]]:
    """Of each task the end of its part of [0, 1), by weights."""
    shares = [Fraction(str(weight)) for _, weight in weights]
    total = sum(shares)
    return [(task, end / total) for (task, _), end in zip(weights, accumulate(shares), strict=True)]


def task_of(weights: dict[str, float], at: float) -> str:
    """The task at a fraction in [0, 1) of the weights' sum."""
    return next(task for task, end in bounds(tuple(weights.items())) if at < end)


def examples_of(document: dict, settings: InstructDataset, seed: int) -> Iterator[dict] | str:
    """The chats about a document, or the reason why there is none.

    Each has `messages`, a `name` that is unique in the document, and `task` (unless `analysis` is the only one).
    """
    text, path, language = document["text"], document["path"], document["language"]
    if len(text) > settings.max_characters:
        return "too_long"
    if language not in chats():
        return "no_grammar"
    if is_test(path):
        return "test"
    captures = parse(text, path, language)
    if captures is None:
        return "unparsed"
    facts = facts_from(captures, text, language)
    made, place = [], f"{document['source']}/{path}"

    # a list of names is no answer to what a file does
    if "analysis" in settings.tasks and facts.sentence and is_complete(facts.sentence):
        turns = messages(text, facts, language, settings.language, settings.system)
        made.append({"name": "", "messages": turns} | ({"task": "analysis"} if len(settings.tasks) > 1 else {}))
    weights = {task: weight for task, weight in sorted(settings.tasks.items()) if task in REQUESTS}
    if settings.tasks.keys() - {"analysis"}:
        functions = functions_from(captures, text, path, language)
    else:
        functions = []
    for function in functions:
        possible = dict(weights)
        if function.statements < 2:
            # a single statement mostly calls something that the request does not show
            possible.pop("signature_to_body", None)
        if function.statements < 2 and (function.source.count("\n") < SHORT or STUB.search(function.source)):
            continue  # as one that returns an attribute: its documentation says what the code does not
        if not possible or not says_more(function):
            continue
        place_in_file = f"#{function.name}:{function.line}"
        task = task_of(possible, fraction(seed, "task", place, place_in_file))
        turns = function_chat(task, function, language, settings)
        made.append({"name": place_in_file, "task": task, "messages": turns})
    return iter(made) if made else "no_facts"
