"""Make chats from the syntax tree of a file: an analysis of it in Chinese or English, tasks on its functions.

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

from scripts.common.text import code_block, enumeration, fraction_of, text_digest
from scripts.corpus.instruct.facts import Facts, Type, facts_from
from scripts.corpus.instruct.functions import Function, functions_from, is_informative, is_test
from scripts.corpus.instruct.grammars import CJK, WORD, parse
from scripts.experiment.settings.corpus import InstructDataset
from scripts.languages import chats, languages

SYSTEM = {
    "zh": "你是一名专业的代码分析助手，请根据用户给出的源代码，准确、简明地说明它的功能和实现。",
    "en": "You are an expert code analyst. Explain accurately and concisely what the given source code does and how.",
}
QUESTION = {
    "zh": "请分析以下{language}代码的功能和实现：",
    "en": "Analyze what the following {language} code does and how it is implemented:",
}
LISTED = 8  # names in a list; a longer one ends with "and others"
KINDS_ZH = {
    "class": "类",
    "interface": "接口",
    "enum": "枚举",
    "record": "记录类",
    "annotation": "注解",
    "struct": "结构体",
    "union": "联合体",
    "trait": "特征",
    "type": "类型",
}


def plural(kind: str) -> str:
    return kind + ("es" if kind.endswith("s") else "s")


def in_backticks(names: list[str]) -> list[str]:
    return [f"`{name}`" for name in names[:LISTED]]


def type_kinds(types: list[Type]) -> list[str]:
    """The kinds of the types that the file defines; the kind "type" is defined in another file."""
    return list(dict.fromkeys(item.kind for item in types if item.kind != "type"))


def names_zh(names: list[str]) -> str:
    """`a`、`b` 等"""
    listed = "、".join(in_backticks(names))
    if len(names) > LISTED:
        listed += " 等"
    return listed


def names_en(names: list[str]) -> str:
    """`a`, `b` and others"""
    if len(names) > LISTED:
        return ", ".join(in_backticks(names)) + " and others"
    return enumeration(in_backticks(names))


def number_of(word: str, names: list[str]) -> str:
    """The word as it stands before these names: `method`, or `methods` before several."""
    return plural(word) if len(names) > 1 else word


def answer_zh(facts: Facts, language: str) -> str:
    """The answer in Chinese: what it defines, the author's sentence, main parts, imports.

    It holds no figures, which a reader would have to count, and says nothing about what it does not find.
    """
    title = languages()[language].title
    defined = [KINDS_ZH[kind] for kind in type_kinds(facts.types)]
    if facts.functions:
        defined.append("函数")
    if any(item.methods for item in facts.types):
        defined.append("方法")
    listed = "和".join(filter(None, ["、".join(defined[:-1]), *defined[-1:]]))
    opening = ""
    if defined:
        opening = f"这段 {title} 代码定义了{listed}。"
    elif facts.sentence:
        opening = f"这段 {title} "
    if facts.sentence:
        opening += f"源码中的说明写道：“{facts.sentence}”"
    paragraphs = [opening]
    lines = []
    for item in facts.types[:LISTED]:
        has = f"：包含方法 {names_zh(item.methods)}" if item.methods else ""
        lines.append(f"- {KINDS_ZH[item.kind]} `{item.name}`{has}；")
    if len(facts.types) > LISTED:
        lines.append("- 另有其他类型；")
    if facts.functions:
        lines.append(f"- 函数 {names_zh(facts.functions)}；")
    if lines:
        lines[-1] = lines[-1][:-1] + "。"
        paragraphs.append("主要组成部分如下：\n\n" + "\n".join(lines))
    if facts.imports:
        start = "实现上" if any(paragraphs) else f"这段 {title} 代码"
        paragraphs.append(f"{start}引用了{chats()[language].imported[0]}：{names_zh(facts.imports)}。")
    return "\n\n".join(filter(None, paragraphs))


def answer_en(facts: Facts, language: str) -> str:
    """The answer in English, with the same parts as the Chinese one."""
    title = languages()[language].title
    defined = [plural(kind) for kind in type_kinds(facts.types)]
    if facts.functions:
        defined.append("functions")
    if any(item.methods for item in facts.types):
        defined.append("methods")
    opening = []
    if defined:
        opening = [f"This {title} code defines {enumeration(defined)}."]
    if facts.sentence:
        whose = "Its documentation"
        if not opening:
            whose = f"The documentation of this {title} code"
        opening.append(f'{whose} says: "{facts.sentence}"')
    paragraphs = [" ".join(opening)]
    lines = []
    for item in facts.types[:LISTED]:
        line = f"- {item.kind} `{item.name}`"
        if item.methods:
            line += f" with {number_of('method', item.methods)} {names_en(item.methods)}"
        lines.append(line)
    if len(facts.types) > LISTED:
        lines.append("- further types")
    if facts.functions:
        lines.append(f"- {number_of('function', facts.functions)} {names_en(facts.functions)}")
    if lines:
        paragraphs.append("Its main parts are:\n\n" + "\n".join(lines))
    if facts.imports:
        start = "It builds"
        if not any(paragraphs):
            start = f"This {title} code builds"
        _, singular_form, plural_form = chats()[language].imported
        paragraphs.append(
            f"{start} on the {singular_form if len(facts.imports) == 1 else plural_form} {names_en(facts.imports)}."
        )
    return "\n\n".join(filter(None, paragraphs))


ANSWER = {"zh": answer_zh, "en": answer_en}


def messages(text: str, facts: Facts, language: str, chat_language: str, system: str | None) -> list[dict]:
    """A chat of three messages about `text`.

    Args:
        language: of the code, e.g. "cpp".
        chat_language: "zh" or "en".
        system: the system prompt; None for the default one of `chat_language`.
    """
    question = QUESTION[chat_language].format(language=languages()[language].title)
    return [
        {"role": "system", "content": SYSTEM[chat_language] if system is None else system},
        {"role": "user", "content": f"{question}\n\n{code_block(text, language)}"},
        {"role": "assistant", "content": ANSWER[chat_language](facts, language)},
    ]


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
    sentence = function.documentation
    if own_name:
        sentence = sentence[own_name.end() :]
    if ASIDE.match(sentence):
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
    # with CRLF, textwrap.dedent would leave methods indented
    text, path, language = document["text"].replace("\r\n", "\n"), document["path"], document["language"]
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
        whole = {"name": "", "messages": turns}
        if len(settings.tasks) > 1:
            whole["task"] = "analysis"
        made.append(whole)
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
    if made:
        return iter(made)
    return "no_facts"
