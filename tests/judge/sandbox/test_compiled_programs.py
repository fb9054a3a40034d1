"""Programs in C++, Rust, Go and Java: outcomes are distinguished, and cheats do not pass."""

import re

import pytest

from scripts.evaluation.benchmarks.formats import Problem
from scripts.judge.judge import Judge
from scripts.judge.sandbox.compiled_programs import divided, go_file, parameters
from scripts.judge.sandbox.program import Limits
from scripts.judge.sandbox.toolchains import CPP_CANDIDATE, CPP_TESTS, TOOLCHAINS, absent
from tests.judge.sandbox.programs import BESIDE, CALLED, END, GO_IMPORTS, OUTCOMES, PROBLEMS, RIGHT, WRONG

pytestmark = pytest.mark.usefixtures("unharmed")


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(5, 512 << 20))


@pytest.fixture(scope="module")
def hurried(sandbox):
    """For programs that never end."""
    return Judge(sandbox, Limits(2, 512 << 20))


@pytest.fixture(scope="module")
def patient(sandbox):
    """For programs that end by themselves, however slow the machine is."""
    return Judge(sandbox, Limits(60, 512 << 20))


def judged(judge, language, body, beside=""):
    if missing := absent(language):
        pytest.skip(f"needs {missing}: apt-get install {TOOLCHAINS[language].packages}")
    problem = PROBLEMS[language]
    return judge.judge(problem, f"{problem.head}{body}\n{END[language]}{beside}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "body"), OUTCOMES, ids=[f"{key[0]} {outcome}" for key, outcome in OUTCOMES.items()]
)
def test_outcomes_are_distinguished(hurried, patient, language, body):
    verdict = judged(hurried if OUTCOMES[language, body] == "timeout" else patient, language, body)
    assert verdict.outcome == OUTCOMES[language, body], verdict


@pytest.mark.soak
@pytest.mark.parametrize(("language", "name"), BESIDE)
def test_code_beside_a_wrong_function_does_not_make_it_pass(quick, language, name):
    verdict = judged(quick, language, WRONG[language], BESIDE[language, name])
    known = ("wrong", "exception", "compile error", "environment error")  # the last for a file that is not there
    assert verdict.outcome in known, verdict


@pytest.mark.soak
@pytest.mark.parametrize(("language", "name"), CALLED)
def test_side_effects_of_a_call_do_not_make_a_wrong_function_pass(quick, language, name):
    verdict = judged(quick, language, CALLED[language, name])
    assert verdict.outcome in ("wrong", "exception"), verdict


HARMLESS = [
    ("cpp", "no assertions"),
    ("rust", "no assertions"),
    ("go", "other truths"),
    ("java", "classes of other names"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "name"), HARMLESS)
def test_a_right_function_passes_beside_names_that_hide_those_of_the_tests(quick, language, name):
    verdict = judged(quick, language, RIGHT[language], BESIDE[language, name])
    assert verdict.outcome == "passed", verdict


def test_heads_are_divided_at_the_problems_function():
    helper = "#include<vector>\nint helper(int a){\n    if (a) { return a; }\n    return 0;\n}\n"
    problem = Problem("C/1", "cpp", "", helper + "vector<int> f(int b){ \n  for(;;){\n", "", "f", ())
    assert divided(problem) == (helper, "vector<int> f(int b)")
    go = Problem("G/1", "go", "", "func F(a []interface{}) interface{} {\n", "", "F", ())
    assert divided(go)[1] == "func F(a []interface{}) interface{}"


@pytest.mark.parametrize(
    ("language", "signature", "names"),
    [
        (
            "java",
            "public Map<String, Integer> f(Map<String, List<Integer>> a, int[] b, final String c)",
            ["a", "b", "c"],
        ),
        ("java", "public int f(List<Integer> l1, List<Integer> l2)", ["l1", "l2"]),
        ("java", "public int f()", []),
        ("cpp", 'bool f(vector<int>l, map<string,vector<int>> &m, const char* s = "", int t)', ["l", "m", "s", "t"]),
        ("rust", "pub fn f<'a>(a: &'a dyn std::any::Any, mut b: Vec<(i32, u8)>) -> HashMap<i32, i32>", ["a", "b"]),
        ("rust", "fn f() -> i32", []),
    ],
)
def test_parameters_are_found_in_signatures(language, signature, names):
    assert parameters(signature, language) == names


def test_go_imports_follow_from_use():
    imports = 'package x\n\nimport (\n\t"sort"\n\t"os"\n)\n\n'
    code = imports + '// math.Max\nfunc F() { sort.Ints(nil); s := "strings.x"; fmt.Print(s) }\n'
    made = go_file(code, "candidate", GO_IMPORTS)
    assert re.findall('import "(.*)"', made) == ["sort", "fmt"]
    assert made.startswith("package candidate\n")
    assert "os" not in made


@pytest.mark.slow
@pytest.mark.parametrize(("include", "name"), [("bits/stdc++.h", "all"), ("vector", "common")])
def test_headers_of_cpp_are_compiled_before_and_show_a_program_no_more_than_it_includes(sandbox, include, name):
    if missing := absent("cpp"):
        pytest.skip(f"needs {missing}")
    judge = Judge(sandbox, Limits(20, 1 << 30))
    head = f"#include<{include}>\nusing namespace std;\nvector<long> f(vector<long> x) {{\n"
    tests = "#include<assert.h>\nint main() { assert(f({1, 2}) == vector<long>({1, 2})); }\n"
    problem = Problem("H/1", "cpp", head, head, tests, "f", ())
    assert judge.judge(problem, f"{head}    return x;\n}}\n").outcome == "passed"
    uses_more = judge.judge(problem, f'{head}    return regex_match("a", regex("a")) ? x : vector<long>();\n}}\n')
    assert uses_more.outcome == ("passed" if name == "all" else "compile error")
    for role, flags in {"tests": CPP_TESTS, "candidate": CPP_CANDIDATE}.items():
        command = f"g++ {flags} -H -c -o out -include /opt/headers/$HEADERS/{role}.hpp {role}.cpp 2> log"
        used = f"grep -q '^! /opt/headers/{name}/{role}.hpp.gch' log"
        source = {f"{role}.cpp": f"#include<{include}>\n"}
        assert isinstance(judge.compiled.built(problem, f"{command}; {used}", source, {}), bytes)
