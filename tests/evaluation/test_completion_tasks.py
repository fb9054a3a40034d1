"""The tasks of suite completion: none that copying solves or that was trained on, few of a file, the same each time."""

import hashlib
import shutil

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.code_tasks.answers import Task
from scripts.evaluation.completion_tasks import completion_tasks
from scripts.evaluation.suites.completion import CompletionTasks, figures


def function(name: str, count: int = 3) -> str:
    """A function none of whose lines is like one of another function."""

    def word(*place: object) -> str:
        digest = hashlib.sha256(" ".join(map(str, (name, *place))).encode()).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest[: 5 + digest[9] % 12])

    lines = "".join(f"    {word(n)} = {word(n, 'call')}({word(n, 'first')}, value)\n" for n in range(count))
    return f"def {name}(value):\n{lines}    return {word('last')}(value)\n\n\n"


def write(folder, **splits):
    for split in ("train", "validation", "test"):
        examples = [
            {"id": f"repo/{path}", "language": "python", "source": "repo", "text": text}
            for path, text in splits.get(split, {}).items()
        ]
        write_jsonl(folder / f"{split}.jsonl.zst", examples)
    names = [f"{split}.jsonl.zst" for split in ("train", "validation", "test")]
    write_manifest(folder, names, examples={split: len(splits.get(split, {})) for split in ("train", "test")})


@pytest.fixture
def datasets(tmp_path):
    """Functions fresh_*, one that stands twice in its file, one that nearly does, one that was trained on, indented as
    a method, and a test."""
    held_out = {
        "app/one.py": "import app.util\n\n\n" + "".join(function(f"fresh_{number}") for number in range(4)),
        "app/two.py": function("twice") + "class A:\n    pass\n\n\n" + function("twice"),
        "app/three.py": function("trained"),
        "app/four.py": function("near") + function("near").replace("return ", "return 1 + ").replace("near", "far"),
        "tests/test_one.py": function("only_a_test"),
    }
    method = "class B:\n" + "".join(f"    {line}\n" for line in function("trained").split("\n"))
    write(tmp_path / "code", test=held_out, train={"app/util.py": "limit = 3\n", "app/b.py": method})
    return tmp_path


def test_of_a_language_without_a_grammar_there_are_lines_and_their_figures(tmp_path):
    lines = [
        "// Copyright 2026",
        "import kotlin.math",
        "",
        "fun area(width: Int): Int {",
        "    // the sides",
        "    val a = 1",
    ]
    lines += [f"    val side_{number} = width * height({number})" for number in range(4)] + [
        "    return side_0 + 1",
        "}",
    ]
    examples = [{"id": "repo/A.kt", "language": "kotlin", "source": "repo", "text": "\n".join(lines) + "\n"}]
    write(tmp_path / "code")
    for split, rows in (("test", examples), ("train", [])):
        write_jsonl(tmp_path / f"code/{split}.jsonl.zst", rows)
    names = [f"{split}.jsonl.zst" for split in ("train", "validation", "test")]
    write_manifest(tmp_path / "code", names, examples={"train": 0, "test": 1})
    completion_tasks(tmp_path, ["code"], CompletionTasks(dataset="code"), tmp_path / "out")
    tasks = [Task(**row) for row in tasks_in(tmp_path / "out")]
    # `val a` is too short, comments, imports and what is not indented are left out, and sides are nearly copies
    assert [(task.size, task.answer) for task in tasks] == [("line", "return side_0 + 1")]
    right, wrong = figures(tasks[0], ["return side_0 + 1"]), figures(tasks[0], ["return 'side_0' + none"])
    assert right["completion_match"] == right["identifier_f1"] == 1 and right["not_blank"] == right["parses"] == 0
    assert wrong["completion_match"] == 0 and wrong["identifier_f1"] == 0.5


def tasks_in(folder):
    return list(read_jsonl(folder / "tasks.jsonl.zst"))


def test_no_task_is_copied_or_trained_on_and_the_counts_add_up(datasets, tmp_path):
    settings = CompletionTasks(dataset="code")
    manifest = completion_tasks(datasets, ["code"], settings, tmp_path / "out")
    tasks = tasks_in(tmp_path / "out")
    assert tasks and {task["path"] for task in tasks} == {"app/one.py"}
    for size, count in manifest["counts"].items():
        of_size = [task for task in tasks if task["size"] == size]
        assert len(of_size) == sum(count["tasks"].values()) <= 2  # of one file
        assert count["copied"] >= 4 and count["in_training"]
    assert manifest["tests"] == 1
    for task in tasks:
        assert (task["before"] + task["answer"] + task["after"]).startswith("import app.util\n")


AREA = """def area(width, height):
    if width < 0:
        raise ValueError(f"width {width} is below zero")
    total = width * height
    return total


def volume(width, height, depth):
    if width < 0:
"""


def test_a_size_without_a_task_and_a_missing_dataset_are_one_line_errors(datasets, tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.evaluation.completion_tasks.LONGEST", 2)
    with pytest.raises(UserError, match=r"^evaluation\.completion\.dataset: no task of size 'function' .*\(0 tried"):
        completion_tasks(datasets, ["code"], CompletionTasks(dataset="code"), tmp_path / "out")
    with pytest.raises(UserError, match=r"^evaluation\.completion\.dataset: no 'other' here; known: code$"):
        completion_tasks(datasets, ["code"], CompletionTasks(dataset="other"), tmp_path / "out")
    shutil.rmtree(datasets / "code")
    assert not (tmp_path / "out/manifest.json").exists()


def test_retrieved_code_is_of_the_training_split_and_found_by_the_path(datasets, tmp_path):
    completion_tasks(datasets, ["code"], CompletionTasks(dataset="code", retrieval=True), tmp_path / "out")
    tasks = {task["path"]: task["retrieved"] for task in tasks_in(tmp_path / "out")}
    assert "limit = 3\n\n" in tasks["app/one.py"]  # which imports app.util, the path of that file
    completion_tasks(datasets, ["code"], CompletionTasks(dataset="code"), tmp_path / "without")
    assert {task["retrieved"] for task in tasks_in(tmp_path / "without")} == {""}
