"""The requests of instruction chats: for each task 20 phrasings in Chinese and in English (5 beginnings × 4 requests).

A dataset with `phrasings: 1` uses the first one.

    phrasing("signature_to_body", "en", 7).format(language="Go", name="Read", english="")
"""

BEGINNINGS = {
    "zh": ("请", "", "请你", "麻烦", "能否"),
    "en": ("", "Please ", "Can you ", "Could you ", "I need you to "),
}
QUESTIONS = {"能否", "Can you ", "Could you "}  # they end with a question mark
REQUESTS = {
    "analysis": {
        "zh": (
            "分析以下{language}代码的功能和实现",
            "说明下面这段{language}代码做什么、怎么实现",
            "解读下列{language}源码的作用与结构",
            "概括这份{language}代码的内容及其实现方式",
        ),
        "en": (
            "analyze what the following {language} code does and how it is implemented",
            "describe the purpose and the structure of this {language} file",
            "explain what is in the {language} source below and how it works",
            "summarize the following {language} code and its implementation",
        ),
    },
    "parts": {
        "zh": (
            "说明以下{language}代码的各个部分分别有什么用途",
            "逐一介绍下面{language}代码中各组成部分的作用",
            "列出这份{language}源码的主要部分，并说明各自的用途和调用关系",
            "解释下列{language}代码里每个有文档的部分是做什么的",
        ),
        "en": (
            "say what each part of the following {language} code is for",
            "go through the parts of this {language} file and explain the purpose of each",
            "list the main parts of the {language} source below, what each does and what it calls",
            "explain what the documented parts of the following {language} code do",
        ),
    },
    "docstring_to_function": {
        "zh": (
            "用{language}编写{name}，要求如下",
            "根据下面的说明，用{language}实现{name}",
            "按以下文档写出{language}的{name}",
            "实现{language}代码中的{name}，其文档如下",
        ),
        "en": (
            "write {name} in {language} to this description",
            "implement {name} in {language} as documented here",
            "write the {language} code of {name}, whose documentation is",
            "turn this documentation into {name} in {language}",
        ),
    },
    "function_to_docstring": {
        "zh": (
            "为以下{language}代码{english}写出文档说明",
            "{english}描述下面这个{language}函数的作用，作为它的文档",
            "给下列{language}函数{english}补上文档注释的内容",
            "阅读这段{language}代码，{english}写出它的文档",
        ),
        "en": (
            "write the documentation of this {language} function",
            "document the following {language} function",
            "say what the {language} function below does, as its documentation would",
            "write the text of a documentation comment for this {language} code",
        ),
    },
    "signature_to_body": {
        "zh": (
            "补全以下{language}函数的实现",
            "根据签名和文档，写出这个{language}函数的函数体",
            "完成下面的{language}代码，给出完整的函数",
            "按照给出的签名和说明，实现这个{language}函数",
        ),
        "en": (
            "complete the implementation of the following {language} function",
            "write the body of this {language} function from its signature and documentation",
            "finish the {language} code below and give the whole function",
            "implement this {language} function as its signature and documentation say",
        ),
    },
}


def phrasing(task: str, chat_language: str, number: int) -> str:
    """The request with this number, from 0 to 19, with the fields of its task in braces."""
    requests, beginnings = REQUESTS[task][chat_language], BEGINNINGS[chat_language]
    beginning, request = beginnings[number // len(requests) % len(beginnings)], requests[number % len(requests)]
    text = beginning + request
    if chat_language == "en":
        return text[0].upper() + text[1:] + ("?" if beginning in QUESTIONS else ":")
    return text + ("？" if beginning in QUESTIONS else "：")
