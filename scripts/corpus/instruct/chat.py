"""Code-analysis chats in Chinese and English: system prompt, question, and an answer made from the file's facts."""

from scripts.common.text import code_block, enumeration
from scripts.corpus.instruct.facts import Facts, Type
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
    return "、".join(in_backticks(names)) + (" 等" if len(names) > LISTED else "")


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
    opening = [f"这段 {title} 代码定义了{listed}。"] if defined else []
    if facts.sentence:
        opening.append(f"{'' if opening else f'这段 {title} '}源码中的说明写道：“{facts.sentence}”")
    paragraphs = ["".join(opening)]
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
