"""Code-analysis chats in Chinese and English: system prompt, question, and an answer made from the file's facts."""

import re
from collections import Counter

from scripts.corpus.instruct.facts import Facts, Type

NAMES = {"python": "Python", "java": "Java", "go": "Go", "rust": "Rust", "cpp": "C++", "c": "C"}
SYSTEM = {
    "zh": "你是一名专业的代码分析助手，请根据用户给出的源代码，准确、简明地说明它的功能和实现。",
    "en": "You are an expert code analyst. Explain accurately and concisely what the given source code does and how.",
}
QUESTION = {
    "zh": "请分析以下{language}代码的功能和实现：",
    "en": "Analyze what the following {language} code does and how it is implemented:",
}
LISTED = 8  # names in a list; the others are counted
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
IMPORTED = {  # language of the code -> (Chinese, English singular, plural)
    "python": ("模块", "module", "modules"),
    "java": ("类或包", "class or package", "classes or packages"),
    "go": ("包", "package", "packages"),
    "rust": ("路径", "path", "paths"),
    "c": ("头文件", "header", "headers"),
    "cpp": ("头文件", "header", "headers"),
}


def fenced(text: str, language: str) -> str:
    """`text` as a Markdown code block whose fence is longer than any run of backticks in it."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 line`, `2 lines`; `many` is the plural unless it is `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def joined(parts: list[str]) -> str:
    """English enumeration: a, b and c."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def ticked(names: list[str]) -> list[str]:
    return [f"`{name}`" for name in names[:LISTED]]


def kinds(types: list[Type]) -> Counter:
    """How many types of each kind the file defines; the kind "type" is defined in another file."""
    return Counter(item.kind for item in types if item.kind != "type")


def names_zh(names: list[str], noun: str) -> str:
    """`a`、`b` 等 12 个函数"""
    rest = f" 等 {len(names)} 个{noun}" if len(names) > LISTED else ""
    return "、".join(ticked(names)) + rest


def names_en(names: list[str]) -> str:
    """`a`, `b` and 10 more"""
    rest = len(names) - LISTED
    return ", ".join(ticked(names)) + f" and {rest} more" if rest > 0 else joined(ticked(names))


def answer_zh(facts: Facts, language: str) -> str:
    """The answer in Chinese: size and contents, the author's sentence, main parts, imports, longest function."""
    defined = [f"{count} 个{KINDS_ZH[kind]}" for kind, count in kinds(facts.types).items()]
    if facts.functions:
        defined.append(f"{len(facts.functions)} 个函数")
    if methods := sum(len(item.methods) for item in facts.types):
        defined.append(f"{methods} 个方法")
    listed = "和 ".join(filter(None, ["、".join(defined[:-1]), *defined[-1:]]))
    contents = f"定义了 {listed}" if defined else "没有定义类型或函数"
    paragraphs = [f"这段 {NAMES[language]} 代码共 {facts.lines} 行，{contents}。"]
    if facts.sentence:
        paragraphs[0] += f"源码中的说明写道：“{facts.sentence}”"
    parts = []
    for item in facts.types[:LISTED]:
        has = f"：包含 {len(item.methods)} 个方法，即 {names_zh(item.methods, '方法')}" if item.methods else ""
        parts.append(f"- {KINDS_ZH[item.kind]} `{item.name}`{has}；")
    if len(facts.types) > LISTED:
        parts.append(f"- 另有 {len(facts.types) - LISTED} 个类型；")
    if facts.functions:
        parts.append(f"- 函数 {names_zh(facts.functions, '函数')}；")
    if parts:
        parts[-1] = parts[-1][:-1] + "。"
        paragraphs.append("主要组成部分如下：\n\n" + "\n".join(parts))
    closing = []
    if facts.imports:
        noun = IMPORTED[language][0]
        closing.append(f"实现上引用了 {len(facts.imports)} 个{noun}：{names_zh(facts.imports, noun)}。")
    if facts.longest and facts.longest[2] > facts.longest[1]:
        name, first, last = facts.longest
        closing.append(f"篇幅最长的是 `{name}`，位于第 {first} 行到第 {last} 行，共 {last - first + 1} 行。")
    return "\n\n".join([*paragraphs, *filter(None, ["".join(closing)])])


def answer_en(facts: Facts, language: str) -> str:
    """The answer in English, with the same parts as the Chinese one."""
    defined = [
        counted(count, kind, kind + "es" if kind == "class" else None) for kind, count in kinds(facts.types).items()
    ]
    if facts.functions:
        defined.append(counted(len(facts.functions), "function"))
    if methods := sum(len(item.methods) for item in facts.types):
        defined.append(counted(methods, "method"))
    contents = joined(defined) if defined else "no types or functions"
    paragraphs = [f"This {NAMES[language]} code has {counted(facts.lines, 'line')} and defines {contents}."]
    if facts.sentence:
        paragraphs[0] += f' Its documentation says: "{facts.sentence}"'
    parts = []
    for item in facts.types[:LISTED]:
        has = f" with {counted(len(item.methods), 'method')}: {names_en(item.methods)}" if item.methods else ""
        parts.append(f"- {item.kind} `{item.name}`{has}")
    if len(facts.types) > LISTED:
        parts.append(f"- {counted(len(facts.types) - LISTED, 'further type')}")
    if facts.functions:
        parts.append(f"- {'functions' if len(facts.functions) > 1 else 'function'} {names_en(facts.functions)}")
    if parts:
        paragraphs.append("Its main parts are:\n\n" + "\n".join(parts))
    closing = []
    if facts.imports:
        _, one, many = IMPORTED[language]
        closing.append(f"It builds on {counted(len(facts.imports), one, many)}: {names_en(facts.imports)}.")
    if facts.longest and facts.longest[2] > facts.longest[1]:
        name, first, last = facts.longest
        closing.append(f"The longest is `{name}`, in lines {first} to {last} ({last - first + 1} lines).")
    return "\n\n".join([*paragraphs, *filter(None, [" ".join(closing)])])


ANSWER = {"zh": answer_zh, "en": answer_en}


def messages(text: str, facts: Facts, language: str, chat_language: str, system: str | None) -> list[dict]:
    """A chat of three messages about `text`.

    Args:
        language: of the code, e.g. "cpp".
        chat_language: "zh" or "en".
        system: the system prompt; None for the default one of `chat_language`.
    """
    question = QUESTION[chat_language].format(language=NAMES[language])
    return [
        {"role": "system", "content": SYSTEM[chat_language] if system is None else system},
        {"role": "user", "content": f"{question}\n\n{fenced(text, language)}"},
        {"role": "assistant", "content": ANSWER[chat_language](facts, language)},
    ]
