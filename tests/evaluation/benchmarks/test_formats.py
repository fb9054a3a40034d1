"""scripts/evaluation/benchmarks/formats.py: each published format is read, each bad file is one line."""

import gzip
import json
import tracemalloc

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.formats import read

HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'def f(x):\n    """One more."""\n',
    "entry_point": "f",
    "canonical_solution": "    return x + 1\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n",
}
MBPP = {
    "task_id": 11,
    "text": "Write a function to remove the first and last occurrence.",
    "code": "def remove(s, c):\n    return s",
    "test_list": ["assert remove('a', 'b') == 'a'", "assert remove('', 'b') == ''"],
    "test_setup_code": "import math",
    "challenge_test_list": [],
}
MULTIPL_E = {
    "name": "HumanEval_0_f",
    "language": "cpp",
    "prompt": "#include<assert.h>\n#include<bits/stdc++.h>\n// One more.\nlong f(long x) {\n",
    "tests": "}\nint main() {\n    auto candidate = f;\n    assert(candidate((1)) == (2));\n}\n",
    "stop_tokens": ["\n}"],
    "doctests": "transform",
}


def written(path, records, opened=open):
    with opened(path, "wt") as file:
        file.write("\n".join(json.dumps(record) for record in records) + "\n")
    return path


def test_mbpp_is_read_as_lines_and_as_the_sanitized_list(tmp_path):
    (problem,) = read(written(tmp_path / "mbpp.jsonl", [MBPP]))
    assert problem.prompt == f'"""\n{MBPP["text"]}\n{MBPP["test_list"][0]}\n"""\n'
    assert problem.tests == "import math\n" + "\n".join(MBPP["test_list"])
    sanitized = {key: MBPP[key] for key in ("task_id", "code", "test_list")} | {"prompt": "Do.", "test_imports": []}
    (tmp_path / "sanitized.json").write_text(json.dumps([sanitized]))
    assert read(tmp_path / "sanitized.json")[0].id == "MBPP/11"


UNION = "union Union_long_string{\n    long f0; std::string f1;\n    ~Union_long_string() {}\n};\n"


@pytest.mark.parametrize(
    ("prompt", "unjudged"),
    [
        (f"{UNION}long f(Union_long_string x) {{\n", True),
        (f"{UNION}Union_long_string f(std::vector<long> x) {{\n", True),
        (f"{UNION}long f(std::vector<long> x) {{\n", False),
        ("struct Pair{ long a; };\nlong f(long x) {\n", False),
    ],
)
def test_a_function_with_a_union_is_unjudged(tmp_path, prompt, unjudged):
    record = {"name": "HumanEval_22_f", "language": "cpp", "prompt": f"#include<bits/stdc++.h>\n{prompt}"}
    record |= {"tests": "}\nint main() { assert(f(1) == (1)); }\n", "stop_tokens": ["\n}"]}
    path = written(tmp_path / "x.jsonl", [record])
    (problem,) = read(path)
    assert ("union" in problem.unjudged) == unjudged


@pytest.mark.parametrize("language", ["Java", "Go", "Rust"])
def test_a_language_that_is_not_judged_is_named(benchmarks, language):
    with pytest.raises(
        UserError, match=rf"humaneval_{language.lower()}.*language '{language}' is not judged here, only python, cpp"
    ):
        read(benchmarks / f"humaneval_{language.lower()}.jsonl.gz")


BAD = {
    "": ": holds no problem",
    "\n\n": ": holds no problem",
    "[]": ": holds no problem",
    json.dumps(HUMANEVAL)[:50]: ": line 1: not JSON: ",
    "[{": ": not JSON: ",
    "[" * 100000: ": not JSON: ",
    "7": ": line 1: no benchmark format has these fields; known: HumanEval (task_id, prompt, entry_point, test); ",
    '{"a": 1}': ": line 1: no benchmark format has these fields; known: HumanEval (",
    f"{json.dumps(HUMANEVAL)}\n{json.dumps(HUMANEVAL)}": ": line 2: id HumanEval/0 occurs twice",
    f"{json.dumps(HUMANEVAL)}\n{json.dumps(MBPP)}": ": line 2: not in the format of the first record, HumanEval",
    json.dumps(
        {**MULTIPL_E, "language": "lua"}
    ): ": line 1: not a problem in MultiPL-E's format: language 'lua' is not",
    json.dumps({**MULTIPL_E, "language": None}): ": line 1: not a problem in MultiPL-E's format: ",
    json.dumps(
        {**MULTIPL_E, "prompt": "int x;"}
    ): ": line 1: not a problem in MultiPL-E's format: its prompt does not contain",
    json.dumps({**MULTIPL_E, "tests": 7}): ": line 1: not a problem in MultiPL-E's format: ",
    json.dumps({**HUMANEVAL, "prompt": 7}): ": line 1: not a problem in HumanEval's format: ",
    json.dumps({**HUMANEVAL, "task_id": ["x"]}): ": line 1: not a problem in HumanEval's format: ",
    json.dumps({**MBPP, "test_list": []}): ": line 1: not a problem in MBPP's format: ",
}


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_a_bad_file_is_a_one_line_error_that_names_it(tmp_path, content):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}{BAD[content]}")
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_unpacked_are_one_line_errors(tmp_path, monkeypatch):
    path = tmp_path / "x.jsonl.gz"
    with pytest.raises(UserError, match="no such file"):
        read(path)
    path.write_bytes(gzip.compress(json.dumps(HUMANEVAL).encode())[:-9])
    with pytest.raises(UserError, match=r"truncated or damaged: .*; download it again"):
        read(path)
    path.write_bytes(b"no gzip")
    with pytest.raises(UserError, match=r"truncated or damaged: .*; download it again"):
        read(path)
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        read(tmp_path / "x.jsonl")


def test_a_file_that_unpacks_without_end_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LARGEST_FILE", 1 << 20)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 24)))
    tracemalloc.start()
    with pytest.raises(UserError, match="more than 1 MB unpacked"):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
