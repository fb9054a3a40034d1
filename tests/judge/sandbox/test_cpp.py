"""C++ programs: outcomes are distinguished, cheats do not pass, and values pass between tests and candidate."""

import pytest

from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox.cpp_judge import CANDIDATE_FLAGS, TESTS_FLAGS
from scripts.judge.sandbox.program import Limits
from tests.judge.sandbox.programs import BESIDE, CPP_HEAD, CPP_PROBLEM, END, OUTCOMES, RIGHT, WRONG, needs_cpp

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


def judged(judge, body, beside=""):
    needs_cpp()
    return judge.judge(CPP_PROBLEM, f"{CPP_HEAD}{body}\n{END}{beside}\n")


def outcome(judge, head, body, tests):
    """The verdict on a program whose head ends with the brace that opens the function `f`."""
    needs_cpp()
    return judge.judge(Problem("cpp/1", "cpp", head, head, tests, "f", ()), f"{head}{body}\n}}\n")


@pytest.mark.slow
@pytest.mark.parametrize("body", OUTCOMES, ids=OUTCOMES.values())
def test_outcomes_are_distinguished(hurried, patient, body):
    verdict = judged(hurried if OUTCOMES[body] == "timeout" else patient, body)
    assert verdict.outcome == OUTCOMES[body], verdict


@pytest.mark.soak
@pytest.mark.parametrize("name", BESIDE)
def test_code_beside_a_wrong_function_does_not_make_it_pass(quick, name):
    verdict = judged(quick, WRONG, BESIDE[name])
    known = ("wrong", "exception", "compile error", "environment error")  # the last for a file that is not there
    assert verdict.outcome in known, verdict


@pytest.mark.slow
def test_a_right_function_passes_beside_names_that_hide_those_of_the_tests(quick):
    verdict = judged(quick, RIGHT, BESIDE["no assertions"])
    assert verdict.outcome == "passed", verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("include", "name"), [pytest.param("bits/stdc++.h", "all", marks=pytest.mark.soak), ("vector", "common")]
)
def test_headers_are_compiled_before_and_show_a_program_no_more_than_it_includes(sandbox, include, name):
    needs_cpp()
    judge = Judge(sandbox, Limits(20, 1 << 30))
    head = f"#include<{include}>\nusing namespace std;\nvector<long> f(vector<long> x) {{\n"
    tests = "#include<assert.h>\nint main() { assert(f({1, 2}) == vector<long>({1, 2})); }\n"
    assert outcome(judge, head, "    return x;", tests).outcome == "passed"
    uses_more = outcome(judge, head, '    return regex_match("a", regex("a")) ? x : vector<long>();', tests)
    assert uses_more.outcome == ("passed" if name == "all" else "compile error")
    for role, flags in {"tests": TESTS_FLAGS, "candidate": CANDIDATE_FLAGS}.items():
        command = f"g++ {flags} -H -c -o out -include /opt/headers/$HEADERS/{role}.hpp {role}.cpp 2> log"
        used = f"grep -q '^! /opt/headers/{name}/{role}.hpp.gch' log"
        source = {f"{role}.cpp": f"#include<{include}>\n"}
        assert isinstance(judge.cpp.built(f"{command}; {used}", source, {}), bytes)


# Changes an argument in place, and returns all that it was given: (head, body, tests).
VALUES = (
    """#include<any>
#include<map>
#include<optional>
#include<set>
#include<tuple>
#include<variant>
#include<vector>
#include<string>
using namespace std;
typedef tuple<map<string, vector<double>>, set<char>, optional<long>, variant<int, string>, vector<bool>, any> all;
all f(vector<int>& changed, map<string, vector<double>> a, const set<char>& b, optional<long> c, variant<int, string> d,
      vector<bool> e, any g){
""",
    "for (int& n : changed) n *= 2; changed.push_back(7); return {a, b, c, d, e, g};",
    """#include<cassert>
#include<cmath>
int main() {
    vector<int> changed{1, 2};
    map<string, vector<double>> a{{"", {NAN, -0.0, 0.1}}, {string("\\0x", 2), {}}};
    auto [m, s, o, v, bits, held] = f(changed, a, {'a', 'b'}, nullopt, string("text"), {true, false}, 2.5);
    assert((changed == vector<int>{2, 4, 7}));
    assert(m.size() == 2 && isnan(m[""][0]) && signbit(m[""][1]) && m[""][2] == 0.1 && m.count(string("\\0x", 2)));
    assert((s == set<char>{'a', 'b'}) && !o && get<string>(v) == "text" && bits == (vector<bool>{true, false}));
    assert(any_cast<double>(held) == 2.5);
}
""",
)


@pytest.mark.slow
def test_values_arrive_as_they_are_and_changes_of_arguments_come_back(judge):
    verdict = outcome(judge, *VALUES)
    assert verdict.outcome == "passed", verdict


@pytest.mark.slow
def test_a_value_that_cannot_be_passed_makes_a_program_unjudged_and_is_named(judge):
    head, tests = "struct S { int a; };\nint f(S s){\n", "int main() { f(S{1}); }\n"
    verdict = outcome(judge, head, "return 0;", tests)
    assert verdict.outcome == "unjudged" and "this type cannot be passed" in verdict.detail, verdict


@pytest.mark.slow
def test_tests_that_do_not_compile_are_reported_as_faulty_tests(judge):
    verdict = outcome(judge, "int f(int a){\n", "return a;", "int main() { missing(f(1)); }\n")
    assert verdict.outcome == "test error", verdict


@pytest.mark.slow
def test_arguments_that_share_an_object_are_judged_unless_the_program_changes_it(judge):
    """Both programs are right; in two processes the change of one argument is not seen in the other."""
    head = "#include<vector>\nusing namespace std;\nint f(vector<int>& a, const vector<int>& b){\n"
    tests = "#include<cassert>\nint main() { vector<int> x{1}; assert(f(x, x) == (x[0] == 5 ? 10 : 2)); }\n"
    assert outcome(judge, head, "return a[0] + b[0];", tests).outcome == "passed"
    verdict = outcome(judge, head, "a[0] = 5; return a[0] + b[0];", tests)
    assert verdict.outcome == "unjudged", verdict
    assert "arguments share" in verdict.detail or "arguments are one object" in verdict.detail, verdict
