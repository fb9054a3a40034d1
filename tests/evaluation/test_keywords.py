"""The suite keywords: what a response mentions, what its code shows, and files of cases that are wrong."""

from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, sha256_file
from scripts.evaluation.generation.examples import Case, read_cases
from scripts.evaluation.suites.keywords import Settings as Keywords
from scripts.evaluation.suites.keywords import keywords, share_mentioned

CASES = Path("config/cases/keywords.yaml")
SETTINGS = Keywords(cases=str(CASES), max_new_tokens=8)


def case(name: str) -> Case:
    return next(case for case in read_cases(CASES) if case.id == name)


def test_suite_writes_each_case_and_names_the_file_as_its_data(model_folder, tmp_path):
    result = keywords(model_folder, SETTINGS, 42, tmp_path)
    items = list(read_jsonl(tmp_path / "items.jsonl.zst"))
    assert [item["id"] for item in items] == ["quicksort", "singleton", "counter"]
    assert result["data"] == {"keywords": sha256_file(CASES)}
    assert result["scores"]["keywords"].keys() == {"all", "go", "java", "python"}
    for item in items:
        expected = share_mentioned(item["written"], case(item["id"]))
        assert item["keywords"] == result["scores"]["keywords"][item["language"]]["keywords"] == expected


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
