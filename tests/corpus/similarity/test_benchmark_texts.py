"""Decontamination: which documents share text with a benchmark, against a plain search; hostile benchmark files."""

import gzip
import json
import random
import re
from collections import Counter

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.similarity.overlaps import read_problems
from scripts.experiment.settings.corpus import Filter
from tests.corpus.archives import GOOD, write_archive

PROMPT = 'def has_close_elements(numbers, limit):\n    """ Check if in given list of numbers, are any two closer. """\n'
BODY = (
    "    for idx, elem in enumerate(numbers):\n        for idx2, elem2 in enumerate(numbers):\n            return i\n"
)
RECORD = {"task_id": "HumanEval/0", "prompt": PROMPT, "canonical_solution": BODY, "test": "assert True"}


def write_jsonl_gz(path, records):
    with gzip.open(path, "wt") as file:
        file.write("".join(json.dumps(record) + "\n" for record in records))
    return path


def filtered(folder, files, benchmarks):
    archive = write_archive(folder, "demo", files)
    chosen = Filter(decontaminate=True)
    with funnel(folder / "out") as result:
        filter_archive(archive, "demo", chosen, result, benchmarks)
    return read_manifest(folder / "out"), *(list(read_jsonl(folder / "out" / name)) for name in (DOCUMENTS, REJECTS))


def test_every_document_that_shares_ten_words_is_dropped_and_names_the_problem(tmp_path):
    """Also the second document with the same run, and one that holds the answer in other layout and case."""
    second_record = {
        "task_id": "HumanEval/1",
        "prompt": "def separate_paren_groups(paren_string):\n",
        "canonical_solution": "",
    }
    path = write_jsonl_gz(tmp_path / "HumanEval.jsonl.gz", [RECORD, second_record])
    answer = BODY.upper().replace("\n", " ; ").encode()
    nine = b"# " + b" ".join(re.findall(rb"\w+", BODY.encode())[:9]) + b"\n"
    files = {"a.py": GOOD + answer, "b.py": answer + b"\n" + GOOD, "clean.py": GOOD, "nine.py": GOOD + nine}
    manifest, documents, rejects = filtered(tmp_path, files, [path])
    assert [document["path"] for document in documents] == ["clean.py", "nine.py"]
    assert [(reject["path"], reject["language"], reject["reason"]) for reject in rejects] == [
        ("a.py", "python", "contaminated"), ("b.py", "python", "contaminated")
    ]  # fmt: skip
    words = re.findall(r"\w+", BODY.lower())
    assert rejects[0]["detail"] == f"HumanEval/0 of HumanEval.jsonl.gz: {len(words)} words: {' '.join(words)}"
    assert manifest["dropped"] == {"contaminated": 2} and manifest["seen"] == 4 == manifest["kept"] + 2
    assert manifest["languages"]["python"]["dropped"] == {"contaminated": 2}


def plain_grams(text, size):
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def test_the_dropped_documents_are_those_that_a_plain_search_without_boilerplate_finds(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.corpus.filter.WORDS", 5)
    rng = random.Random(1)
    vocabulary = [f"w{number}" for number in range(12)]
    text = lambda count: " ".join(rng.choices(vocabulary, k=count))  # noqa: E731
    head = "import os sys re json math"  # of most problems
    problems = [f"{head if number % 3 else ''} {text(12)}" for number in range(40)]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([{"id": number, "question": question} for number, question in enumerate(problems)]))
    holders = Counter(gram for problem in problems for gram in plain_grams(problem, 5))
    rare = {gram for gram, count in holders.items() if count <= 2}
    files = {f"{number:03}.py": f"{head} {text(150)}\n".encode() for number in range(300)}
    _, documents, rejects = filtered(tmp_path, {name: body + b"\n" * 12 for name, body in files.items()}, [path])
    expected = {name for name, body in files.items() if plain_grams(body.decode(), 5) & rare}
    assert {reject["path"] for reject in rejects} == expected and 20 < len(expected) < 280
    assert len(documents) == 300 - len(expected)
    for reject in rejects:  # the problem that is named does hold the words that are shown
        number, run = re.fullmatch(r"(\d+) of mine.json: \d+ words: (.*)", reject["detail"]).groups()
        assert run in " ".join(problems[int(number)].split()) and run in files[reject["path"]].decode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "no such file"),
        ("a.jsonl", b"", "holds no problem"),
        ("a.jsonl", b'{"task_id": 1', "line 1: not JSON"),
        ("a.jsonl", b'{"task_id": 1, "tests": "x"}', "record 1: no text; it must have one of the fields prompt"),
        ("a.jsonl", b'["x"]', "record 1: no text;"),
        ("a.json", b'{"prompt": "x"}', "must hold a list of records"),
        ("a.jsonl.gz", b"\x1f\x8bno", "not a complete gzip file"),
        ("a.txt", b"x", "format not supported; use .jsonl"),
    ],
)
def test_files_that_are_no_benchmark_are_refused_in_one_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        read_problems([tmp_path / name])
    assert str(caught.value).startswith(str(tmp_path / name)) and "\n" not in str(caught.value)


def test_cases_of_keywords_and_published_fields_are_read(tmp_path):
    (tmp_path / "cases.yaml").write_text("quick: {language: go, prompt: Write it, keywords: [func]}\n")
    (tmp_path / "mbpp.jsonl").write_text(json.dumps({"task_id": 3, "text": "Sum", "code": "def f(): 1"}) + "\n")
    problems = read_problems([tmp_path / "cases.yaml", tmp_path / "mbpp.jsonl"])
    assert [(problem.dataset, problem.id, problem.language, problem.text) for problem in problems] == [
        ("cases.yaml", "quick", "go", "Write it"), ("mbpp.jsonl", "3", "", "Sum\ndef f(): 1")
    ]  # fmt: skip
