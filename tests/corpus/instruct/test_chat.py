"""scripts/corpus/instruct/chat.py: question and answer about a file, and the files that give no chat."""

import re
import sysconfig
from pathlib import Path

import pytest

from scripts.corpus.instruct.chat import SYSTEM, answer_en, answer_zh, code_block
from scripts.corpus.instruct.facts import Facts, Type
from tests.corpus.documents import CHAT, PYTHON, document, instruct_example


def test_a_chat_is_system_question_with_the_code_and_answer():
    system, user, assistant = instruct_example(document(PYTHON), CHAT)["messages"]
    assert [turn["role"] for turn in (system, user, assistant)] == ["system", "user", "assistant"]
    assert system["content"] == SYSTEM["zh"]
    assert user["content"] == f"请分析以下Python代码的功能和实现：\n\n```python\n{PYTHON}```"
    assert assistant["content"] == (
        "这段 Python 代码定义了函数。源码中的说明写道：“Reads all the tables.”\n\n"
        "主要组成部分如下：\n\n- 函数 `read`。\n\n实现上引用了模块：`os`。"
    )


def test_the_english_chat_says_the_same_in_english():
    _, user, assistant = instruct_example(document(PYTHON), CHAT.model_copy(update={"language": "en"}))["messages"]
    assert user["content"].startswith(
        "Analyze what the following Python code does and how it is implemented:\n\n```python"
    )
    assert assistant["content"] == (
        'This Python code defines functions. Its documentation says: "Reads all the tables."\n\n'
        "Its main parts are:\n\n- function `read`\n\nIt builds on the module `os`."
    )


def test_an_answer_lists_eight_names_and_says_that_there_are_others():
    many = [f"f{i}" for i in range(12)]
    types = [Type("class", "A", ["m", "n"]), Type("enum", "E"), Type("type", "Elsewhere", ["k"])]
    facts = Facts(types=types, functions=many, imports=["a", "b"])
    assert answer_zh(facts, "cpp") == (
        "这段 C++ 代码定义了类、枚举、函数和方法。\n\n"
        "主要组成部分如下：\n\n- 类 `A`：包含方法 `m`、`n`；\n- 枚举 `E`；\n"
        "- 类型 `Elsewhere`：包含方法 `k`；\n"
        "- 函数 `f0`、`f1`、`f2`、`f3`、`f4`、`f5`、`f6`、`f7` 等。\n\n"
        "实现上引用了头文件：`a`、`b`。"
    )
    assert answer_en(facts, "cpp") == (
        "This C++ code defines classes, enums, functions and methods.\n\n"
        "Its main parts are:\n\n- class `A` with methods `m` and `n`\n- enum `E`\n"
        "- type `Elsewhere` with method `k`\n"
        "- functions `f0`, `f1`, `f2`, `f3`, `f4`, `f5`, `f6`, `f7` and others\n\n"
        "It builds on the headers `a` and `b`."
    )


def test_an_answer_says_nothing_about_facts_that_were_not_found():
    """A macro before a class hides it from the parser, so that nothing is found is no reason to say that it is not."""
    assert answer_zh(Facts(imports=["os"]), "python") == "这段 Python 代码引用了模块：`os`。"
    assert answer_en(Facts(imports=["os"]), "python") == "This Python code builds on the module `os`."
    facts = Facts(sentence="Reads all the tables.")
    assert answer_zh(facts, "java") == "这段 Java 源码中的说明写道：“Reads all the tables.”"
    assert answer_en(facts, "java") == 'The documentation of this Java code says: "Reads all the tables."'


def test_answers_about_real_code_hold_no_figure_and_only_names_and_quotes_out_of_it():
    library = Path(sysconfig.get_path("stdlib"))
    answers = 0
    for path in sorted(library.glob("[a-d]*.py")):
        text = path.read_text(errors="ignore")
        for language in ("zh", "en"):
            settings = CHAT.model_copy(update={"language": language, "max_characters": 10**6})
            example = instruct_example(document(text, path.name), settings)
            if isinstance(example, str):
                continue
            answer = example["messages"][2]["content"]
            names, quotes = re.findall("`([^`]*)`", answer), re.findall('[“"](.*)[”"]', answer)
            assert all(part in text for name in names for part in name.split(".")), path
            assert all(quote in " ".join(text.split()) for quote in quotes), path
            assert not re.search(r"\d", re.sub('`[^`]*`|[“"].*[”"]', "", answer)), path
            answers += 1
    assert answers > 40


@pytest.mark.parametrize("text", ["", "x", "x\n", "```\n", "a ```` b", "`" * 50, "~~~"])
def test_a_fence_is_longer_than_any_run_of_backticks_within(text):
    block = code_block(text, "c")
    fence = re.match("`{3,}", block).group()
    assert fence not in text and block.endswith(f"\n{fence}") and block.startswith(f"{fence}c\n{text}")


@pytest.mark.parametrize(
    ("text", "path", "language", "reason"),
    [
        (PYTHON + "#" * 1000, "a.py", "python", "too_long"),
        ("This is prose; it's no (code at all! " * 20, "A.java", "java", "unparsed"),
        ("x = 1\n" * 20, "a.py", "python", "no_facts"),
        ("", "a.py", "python", "no_facts"),
        ("((((((((" * 100, "a.h", "c", "unparsed"),
    ],
)
def test_files_that_make_no_chat_are_dropped_for_a_reason(text, path, language, reason):
    assert instruct_example(document(text, path, language), CHAT) == reason


def test_the_limit_counts_characters_and_lets_its_own_length_pass():
    text = '"""' + "函数读取文件。" * 30 + '"""\n'
    assert "messages" in instruct_example(document(text), CHAT.model_copy(update={"max_characters": len(text)}))
    assert instruct_example(document(text), CHAT.model_copy(update={"max_characters": len(text) - 1})) == "too_long"
