"""The suite keywords: what a response mentions, what its code shows, and files of cases that are wrong."""

from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, sha256_file
from scripts.evaluation.generation.examples import Case, read_cases
from scripts.evaluation.keywords import figures, keywords
from scripts.evaluation.metrics.code_keywords import code_of, in_syntax, in_text
from scripts.experiment.settings.evaluation import Keywords

CASES = Path("config/cases/keywords.yaml")
SETTINGS = Keywords(cases=str(CASES), max_new_tokens=8)
QUICKSORT = """
def quick_sort(items):
    if len(items) < 2:
        return items
    pivot, *rest = items
    return quick_sort([x for x in rest if x < pivot]) + [pivot] + quick_sort([x for x in rest if x >= pivot])
"""
SINGLETON = """
public class Settings {
    private static Settings instance;
    private Settings() {}
    public static synchronized Settings getInstance() {
        if (instance == null) { instance = new Settings(); }
        return instance;
    }
}
"""
COUNTER = """
type Counter struct { mu sync.Mutex; n int }
func (c *Counter) Add() { c.mu.Lock(); c.n++; c.mu.Unlock() }
func main() { for i := 0; i < 9; i++ { go c.Add() } }
"""


def case(name: str) -> Case:
    return next(case for case in read_cases(CASES) if case.id == name)


@pytest.mark.parametrize(("name", "code"), [("quicksort", QUICKSORT), ("singleton", SINGLETON), ("counter", COUNTER)])
def test_right_code_shows_every_keyword_of_the_shipped_cases(name, code):
    shipped = case(name)
    assert all(in_syntax(code, shipped.language, shipped.keywords))
    assert figures([f"Here it is:\n\n```{shipped.language}\n{code}```\n"], shipped)["structure"] == 1


@pytest.mark.parametrize(
    ("language", "code", "expected"),
    [
        ("python", "# def quicksort(pivot): recursive\nx = 'def quicksort pivot'\n", []),
        ("python", '"""def quicksort"""\ndef other(pivot):\n    return sorted(pivot)\n', ["def", "pivot"]),
        ("python", "def quicksort(a):\n    return sorted(a)  # recursive\n", ["def", "quicksort"]),
        ("python", "Quicksort is recursive: it picks a pivot, def.", []),
        ("java", "interface Classy { void get(); }", []),
        ("java", 'class A { String a = "private static getInstance"; }', ["class"]),
        ("go", 'func main() { println("goroutine sync.Mutex") }', ["func"]),
        ("go", "func main() { var async Mutex; sync.MutexLike() }", ["func"]),
    ],
)
def test_comments_strings_and_prose_show_nothing(language, code, expected):
    words = {
        "python": ["def", "quicksort", "pivot", "recursive"],
        "java": ["class", "private", "static", "getInstance"],
        "go": ["func", "sync.Mutex", "goroutine"],
    }[language]
    assert [word for word, present in zip(words, in_syntax(code, language, words), strict=True) if present] == expected


def test_a_keyword_is_found_in_any_case_anywhere_in_a_response():
    assert in_text("A QuickSort. # PIVOT", ["quicksort", "pivot", "recursive"]) == [True, True, False]


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("x = 1", "x = 1"),
        ("So:\n```python\nx = 1\n```\nand\n~~~\ny = 2\n~~~\nDone.", "x = 1\n\ny = 2\n"),
        ("So:\n```python\nx = 1\ny = ", "x = 1\ny = "),  # cut off
        ("````md\n```\nx\n```\n````", "```\nx\n```\n"),
    ],
)
def test_the_code_of_a_response_is_its_code_blocks_or_all_of_it_without_blocks(written, code):
    assert code_of(written) == code


def test_suite_writes_each_case_and_names_the_file_as_its_data(model_folder, tmp_path):
    result = keywords(model_folder, SETTINGS, 42, tmp_path)
    items = list(read_jsonl(tmp_path / "items.jsonl.zst"))
    assert [item["id"] for item in items] == ["quicksort", "singleton", "counter"]
    assert result["data"] == {"keywords": sha256_file(CASES)}
    assert result["scores"]["keywords"].keys() == {"all", "go", "java", "python"}
    for item in items:
        expected = figures(item["written"], case(item["id"]))
        assert {key: item[key] for key in expected} == expected
        assert result["scores"]["keywords"][item["language"]]["structure"] == expected["structure"]


CASE = {"language": "go", "prompt": "Write.", "keywords": ["func"]}


@pytest.mark.parametrize(
    ("cases", "line"),
    [
        ({}, "no cases in it"),
        ([CASE], "must hold a mapping"),
        ({"a": ["func"]}, "a: a case must have `language`, `prompt` and `keywords`"),
        ({"a": CASE | {"promt": "x"}}, "a: a case must have `language`"),
        ({"a": CASE | {"language": "cobol"}}, "a.language: no 'cobol' here; known: c"),
        ({"a": CASE | {"prompt": 3}}, "a.prompt: must be text, not 3"),
        ({"a": CASE | {"keywords": []}}, "a.keywords: must be a list of words, not"),
        ({"a": CASE | {"keywords": [True]}}, "a.keywords: must be a list of words, not"),
    ],
)
def test_wrong_cases_are_one_line_errors(cases, line, tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump(cases))
    with pytest.raises(UserError) as refused:
        read_cases(path)
    assert str(refused.value).startswith(f"{path}: {line}")
