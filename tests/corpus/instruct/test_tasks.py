"""Instruction tasks out of real structure: every answer stands in the file, every task has its share."""

import ast
import multiprocessing
import sysconfig
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.corpus.compose import compose
from scripts.corpus.instruct.functions import functions_of
from scripts.corpus.instruct.tasks import REQUESTS, SYSTEM, examples_of, function_chat
from scripts.experiment.layout import SPLITS
from scripts.experiment.settings.corpus import InstructDataset

TASKS = dict.fromkeys(("analysis", *REQUESTS), 1)
SETTINGS = InstructDataset(kind="instruct", language="en", tasks=TASKS, max_characters=10**6)
SAID = "Returns the larger one of both."
CODE = {
    "python": (f"class T:\n    def bigger(self, b):\n        \"\"\"{SAID}\"\"\"\n        x = max(self, b)\n        return x\n", "T"),  # noqa: E501
    "java": (f"class T {{\n    /**\n     * {SAID}\n     */\n    @Override\n    int bigger(int b) {{\n        return max(a, b);\n    }}\n}}\n", "T"),  # noqa: E501
    "go": (f"package a\n\n// {SAID}\nfunc (t *T) bigger(b int) int {{\n\treturn max(t.a, b)\n}}\n", "T"),
    "rust": (f"impl T {{\n    /// {SAID}\n    #[inline]\n    fn bigger(&self, b: i32) -> i32 {{\n        max(self.a, b)\n    }}\n}}\n", "T"),  # noqa: E501
    "c": (f"/* {SAID} */\nint *bigger(int a, int b)\n{{\n    return max(a, b);\n}}\n", None),
    "cpp": (f"class T {{\n  // {SAID}\n  template <class B>\n  B bigger(B b) {{\n    return max(a, b);\n  }}\n}};\n", "T"),  # noqa: E501
}  # fmt: skip


def document(text: str, path: str = "a.py", language: str = "python", source: str = "demo") -> dict:
    return {"text": text, "path": path, "language": language, "source": source}


@pytest.mark.parametrize("language", CODE)
def test_a_documented_function_is_found_whole_in_every_language(language):
    text, holder = CODE[language]
    (function,) = functions_of(text, "a.x", language)
    assert (function.name, function.documentation, function.summary) == ("bigger", SAID, SAID)
    assert function.holder == (holder if language != "c" else None)
    assert SAID not in function.source and SAID in function.documented
    body = function.source.splitlines()[1:]
    assert textwrap.dedent("\n".join(body)) in textwrap.dedent(
        "\n".join(line[4:] for line in text.splitlines())
    ) or all(line.strip() in text for line in body)
    assert not functions_of(text, "src/tests/a.x", language)


CLASSES = {
    "python": f'class T:\n    def bigger(self, b):\n        """{SAID}"""\n        a = self.a\n\n        return max(a, b)\n',  # noqa: E501
    "java": f"class T {{\n    /** {SAID} */\n    int bigger(int b) {{\n        int a = c;\n\n        return max(a, b);\n    }}\n}}\n",  # noqa: E501
}


@pytest.mark.parametrize("language", CLASSES)
def test_a_file_whose_lines_end_with_crlf_gives_the_same_chats(language):
    """Of methods, too, which are dedented: an empty line of CRLF would keep `textwrap.dedent` from that."""
    found = []
    for line_end in ("\n", "\r\n"):
        text = CLASSES[language].replace("\n", line_end)
        found.append(list(examples_of(document(text, "a.x", language), SETTINGS, 1)))
    said = "".join(message["content"] for message in found[0][-1]["messages"])
    assert found[0] == found[1] and "\n\n    return max" in said


@pytest.mark.parametrize(
    "text",
    [
        "def f(a): return a\n",
        'def f(a):\n    """For internal use."""\n    b = a\n    return b\n',
        'def f(a):\n    """Returns the larger one of both."""\n',
        'def f(a): """Returns the larger one of both."""; return a\n',
        'def f(a):\n    "Returns the larger one of both."; b = 1\n    return b\n',
        'def test_f(a):\n    """Returns the larger one of both."""\n    b = a\n    return b\n',
        'def g(b):\n    def f():\n        """Returns the larger one of both."""\n        a = b\n        return a\n',
        "# Copyright 2020 of the authors of this.\ndef f(a):\n    b = a\n    return b\n",
        'def f(a):\n    """Returns the larger one of both."""\n' + "    a = 1\n" * 80,
        "((((((((" * 50,
        "",
    ],
)
def test_functions_that_make_no_useful_task_are_left_out(text):
    assert functions_of(text, "a.py", "python") == []


BODY = "    let a = one(x);\n    let b = two(a);\n    three(a, b)\n"


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("#[test]\n", BODY),
        ("#[tokio::test]\n", BODY),
        ("#[rstest]\n#[case(1)]\n", BODY),
    ],
)
def test_a_function_that_its_mark_makes_a_test_is_left_out(before, inside):
    code = "/// Returns the larger one of both.\n{}fn bigger(x: u8) {{\n{}}}\n"
    assert functions_of(code.format("#[inline]\n", inside), "src/a.rs", "rust")
    assert not functions_of(code.format(before, inside), "src/a.rs", "rust")
    module = "#[cfg(test)]\nmod tests {{\n{}\n}}\n".format(code.format("", inside))
    assert not functions_of(module, "src/a.rs", "rust")
    java = (
        "class T {\n  /** Returns the larger one of both. */\n  @Test\n  void bigger() {\n    a();\n    b();\n  }\n}\n"
    )
    assert not functions_of(java, "src/a.java", "java") and functions_of(
        java.replace("@Test", "@Override"), "a.java", "java"
    )


TWO = "    b = one(tool)\n    return two(b, name)\n"


@pytest.mark.parametrize(
    ("documentation", "body", "asked"),
    [
        ("Runs a tool in a thread of its own, and waits for it.", TWO, True),
        ("Calls a tool by name with arguments.", TWO, False),  # its signature says it
        ("Warning: the list of running tools is not copied here.", TWO, False),
        ("``arguments`` should be plain values like strings or numbers.", TWO, False),
        ("call_tool must be kept in sync with the scheduler's own list.", TWO, False),  # what others have to do
        ("Redis-server version >=6.2.0, on every platform.", TWO, False),
        ("call_tool runs a tool in a thread of its own, and waits for it.", TWO, True),
        ("Runs a tool in a thread of its own, and waits for it.", "    ...\n", False),
        ("Runs a tool in a thread of its own, and waits for it.", "    raise NotImplementedError('later')\n", False),
    ],
)
def test_documentation_that_does_not_say_what_a_function_does_is_no_answer(documentation, body, asked):
    signature = "def call_tool(\n    tool,\n    name,\n    arguments,\n    more,\n):\n"
    text = f'{signature}    """{documentation}"""\n{body}'
    made = examples_of(document(text), InstructDataset(kind="instruct", language="en"), 42)
    assert (made != "no_facts") == asked


def test_functions_of_real_python_are_those_that_ast_finds_word_for_word():
    """The reference is `ast`: documentation, and the body without it, are equal for every function that is found."""
    count = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-f]*.py")):
        text = path.read_text(errors="ignore")
        nodes = {
            node.lineno: node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for function in functions_of(text, path.name, "python"):
            node = nodes[function.line]
            assert (function.name, function.documentation) == (node.name, ast.get_docstring(node)), path
            node.decorator_list, node.body = [], node.body[1:]
            assert ast.dump(ast.parse(function.source).body[0]) == ast.dump(node), (path, function.name)
            count += 1
    assert count > 150


def write_splits(folder: Path, documents: list[dict]) -> None:
    for split in SPLITS:
        write_jsonl(folder / f"{split}.jsonl.zst", documents)
    write_manifest(folder, [f"{split}.jsonl.zst" for split in SPLITS], documents=dict.fromkeys(SPLITS, len(documents)))


def library() -> list[dict]:
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("[a-h]*.py"))
    return [document(path.read_text(errors="ignore"), path.name) for path in paths]


@pytest.mark.slow
def test_shares_are_those_of_the_weights_and_the_same_from_run_to_run(tmp_path):
    write_splits(tmp_path / "in", library())
    weights = {"analysis": 1, "function_to_docstring": 2, "signature_to_body": 0.5}
    settings = SETTINGS.model_copy(update={"tasks": weights, "language": "zh"})
    manifest = compose(tmp_path / "in", settings, 42, tmp_path / "out")
    made = list(read_jsonl(tmp_path / "out/train.jsonl.zst"))
    counts = Counter(example["task"] for example in made)
    assert manifest["tasks"]["train"] == counts and manifest["examples"]["train"] == len(made) > 60
    assert abs(counts["function_to_docstring"] - 2 * counts["analysis"]) <= 2
    assert abs(counts["analysis"] - 2 * counts["signature_to_body"]) <= 2
    assert len({example["id"] for example in made}) == len(made) and manifest["dropped"]["train"]["task_share"] > 0
    again = compose(tmp_path / "in", settings, 42, tmp_path / "again")
    assert again["files"] == manifest["files"]
    other_seed = compose(tmp_path / "in", settings, 43, tmp_path / "other")
    assert other_seed["files"] != manifest["files"]


def test_a_function_serves_one_task_and_answers_hold_only_what_stands_in_the_file():
    seen = Counter()
    for file in library():
        made = examples_of(file, SETTINGS, 42)
        tree = ast.walk(ast.parse(file["text"]))  # an escape in a docstring is the character that it means
        docstrings = [ast.get_docstring(node) or "" for node in tree if isinstance(node, ast.FunctionDef)]
        flat = " ".join(" ".join([file["text"], *docstrings]).split())
        for example in () if isinstance(made, str) else made:
            task, answer = example["task"], example["messages"][2]["content"]
            if task == "analysis":
                continue
            seen[f"{file['path']}{example['name']}"] += 1
            answer = (
                answer.removeprefix("```python\n").removesuffix("\n```") if task != "function_to_docstring" else answer
            )
            pieces = [" ".join(line.split()) for line in answer.splitlines()]
            assert all(piece in flat for piece in pieces), example
    assert set(seen.values()) == {1} and len(seen) > 200


def test_of_the_analysis_alone_nothing_else_is_parsed_out():
    alone = InstructDataset(kind="instruct", language="zh", tasks={"analysis": 1})
    (example,) = examples_of(document(CODE["python"][0]), alone, 42)
    assert example.keys() == {"name", "messages"} and example["name"] == ""
    assert example["messages"][1]["content"].startswith("请分析以下Python代码的功能和实现：\n\n```python\n")


def test_a_task_that_no_document_serves_is_a_one_line_error_and_too_few_in_validation_are_none(tmp_path):
    plain = [document(f'"""Reads the tables of a data set."""\nx = {number}\n', f"{number}.py") for number in range(5)]
    write_splits(tmp_path / "in", plain)
    with pytest.raises(
        UserError,
        match=r"^corpus.compose.out.tasks.signature_to_body: no document gives an example of it; leave it out$",
    ):
        compose(
            tmp_path / "in",
            SETTINGS.model_copy(update={"tasks": {"analysis": 1, "signature_to_body": 1}}),
            42,
            tmp_path / "out",
        )
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.slow
def test_several_processes_write_the_same_bytes_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.corpus.compose.FEW", 0)
    monkeypatch.setattr("scripts.corpus.compose.BATCH", 8)  # several batches, the last one not full
    write_splits(tmp_path / "in", library())
    manifest = compose(tmp_path / "in", SETTINGS, 42, tmp_path / "one")
    assert compose(tmp_path / "in", SETTINGS, 42, tmp_path / "two", processes=2) == manifest


def test_an_error_in_a_worker_ends_the_job_with_it_and_leaves_no_manifest(tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("scripts.corpus.compose.FEW", 0)
    monkeypatch.setattr("scripts.corpus.compose.examples_of", broken)
    write_splits(tmp_path / "in", library())
    with pytest.raises(RuntimeError, match="broken"):
        compose(tmp_path / "in", SETTINGS, 42, tmp_path / "out", processes=2)
    assert not list((tmp_path / "out").glob("*")) and not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("said", "language", "asked"),
    [
        (SAID, "en", "Write the documentation of this Python function:"),
        (SAID, "zh", "请为以下Python代码用英文写出文档说明："),
        ("返回两个数中较大的一个。", "zh", "请为以下Python代码写出文档说明："),
        ("返回两个数中较大的一个。", "en", "Write the documentation of this Python function:"),
    ],
)
def test_a_request_asks_for_english_only_in_chinese_chats_about_english_documentation(said, language, asked):
    text = CODE["python"][0].replace(SAID, said)
    (function,) = functions_of(text, "a.py", "python")
    settings = SETTINGS.model_copy(update={"language": language})
    default, question, answer = function_chat("function_to_docstring", function, "python", settings)
    assert default == {"role": "system", "content": SYSTEM[language]}
    assert question == {"role": "user", "content": f"{asked}\n\n```python\n{function.source}\n```"}
    assert answer == {"role": "assistant", "content": said}
    own = settings.model_copy(update={"system": ""})
    assert function_chat("function_to_docstring", function, "python", own)[0] == {"role": "system", "content": ""}
