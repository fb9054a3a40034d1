"""scripts/corpus/instruct/tasks.py: question and answer about a file, and the files that give no chat."""

import re
import sysconfig
from pathlib import Path

import pytest

from scripts.corpus.instruct.facts import Facts
from scripts.corpus.instruct.tasks import answer_en, answer_zh
from tests.corpus.documents import CHAT, PYTHON, document, instruct_example


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
