"""scripts/judge/sandbox/channels/: what passes between tests and candidates of compiled languages."""

import re

import pytest

from scripts.judge.problem import IN_CLASSES, Problem
from scripts.judge.sandbox.toolchains import TOOLCHAINS, absent

pytestmark = [pytest.mark.usefixtures("unharmed"), pytest.mark.slow]


def outcome(judge, language, head, body, tests, entry="f", imports=""):
    """The verdict on a program whose head ends with the function's opening brace."""
    if missing := absent(language):
        pytest.skip(f"needs {missing}: apt-get install {TOOLCHAINS[language].packages}")
    problem = Problem(f"{language}/1", language, head, head, tests, entry, (), None, imports)
    return judge.judge(problem, f"{head}{body}\n}}\n{'}' if language in IN_CLASSES else ''}")


# Each changes an argument in place, and returns all that it was given: (head, body, tests).
VALUES = {
    "cpp": (
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
    ),
    "rust": (
        """use std::any::Any;
use std::collections::{BTreeMap, HashSet};

fn f<'a>(changed: &mut Vec<i32>, part: &mut [u8], a: BTreeMap<String, Vec<f64>>, b: HashSet<char>, c: Option<&'a str>,
         d: Result<(i64, bool), String>, e: [u128; 2], g: Box<dyn Any>)
    -> (BTreeMap<String, Vec<f64>>, HashSet<char>, Option<&'a str>, Result<(i64, bool), String>, [u128; 2], bool) {
""",
        'changed.push(7); part[0] = 9; let text = g.downcast_ref::<&str>() == Some(&"held"); (a, b, c, d, e, text)',
        """
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_f() {
        let (mut changed, mut part) = (vec![1, 2], [1, 2, 3]);
        let a = BTreeMap::from([("é\\0".to_string(), vec![-0.0, 0.1])]);
        let r = f(&mut changed, &mut part[1..], a.clone(), HashSet::from(['é']), Some("x"), Ok((-1, true)),
                  [u128::MAX, 0], Box::new("held"));
        assert_eq!((changed, part), (vec![1, 2, 7], [1, 9, 3]));
        assert_eq!(r, (a, HashSet::from(['é']), Some("x"), Ok((-1, true)), [u128::MAX, 0], true));
        assert!(r.0["é\\0"][0].is_sign_negative());
    }
}
""",
    ),
    "go": (
        "func f(changed []int, counts map[string]int, a []interface{}, b [2]string, c *int, d error) "
        "([]interface{}, [2]string, *int, error, []int, map[rune]bool) {\n",
        'changed[0], counts["new"], *c = 9, 1, 5; delete(counts, "old"); return a, b, c, d, nil, nil',
        """func TestF(t *testing.T) {
    assert := assert.New(t)
    changed, counts, n := []int{1, 2}, map[string]int{"old": 1}, 3
    given := []interface{}{1, int64(1), 'x', 2.5, "\\x00\\xff", nil, []interface{}{}, []int(nil), map[string]int{},
    }
    a, b, c, d, e, g := f(changed, counts, given, [2]string{"x", ""}, &n, errors.New("text"))
    assert.Equal([]int{9, 2}, changed)
    assert.Equal(map[string]int{"new": 1}, counts)
    assert.Equal(given, a)
    assert.Equal([2]string{"x", ""}, b)
    assert.Equal(5, n)
    assert.Equal(5, *c)
    assert.Equal("text", d.Error())
    assert.Equal([]int(nil), e)
    assert.Equal(map[rune]bool(nil), g)
}
""",
    ),
    "java": (
        """import java.util.*;

class Solution {
    public Object[] f(List<Integer> changed, int[][] grid, Map<String, List<Object>> a, Object b, Optional<String> c,
                      List<Integer> fixed) {
""",
        """changed.add(7); grid[1][0] = 9; fixed.set(0, 5);
        try { fixed.add(1); } catch (UnsupportedOperationException e) { changed.add(8); }
        if (changed.size() == 1) throw new IllegalStateException("short");
        return new Object[] {a, b, c, null, new TreeSet<>(List.of(2, 1)), 'c', -0.0};""",
        """public class Main {
    public static void main(String[] args) {
        Solution s = new Solution();
        List<Integer> changed = new ArrayList<>(List.of(1, 2)), fixed = Arrays.asList(1, 2);
        int[] row = {3, 4};
        int[][] grid = {{1}, row};
        Map<String, List<Object>> a = new HashMap<>(Map.of("é\\0", Arrays.asList(1, 2L, null, "x", 2.5f)));
        Object[] r = s.f(changed, grid, a, "text", Optional.empty(), fixed);
        Object[] expected = {a, "text", Optional.empty(), null, Set.of(1, 2), 'c', -0.0};
        if (!Arrays.equals(r, expected) || r[1] != "text" || row[0] != 9) throw new AssertionError(Arrays.toString(r));
        if (!changed.equals(List.of(1, 2, 7, 8)) || fixed.get(0) != 5) throw new AssertionError(changed);
    }
}
""",
    ),
}
GO_IMPORTS = 'import (\n"testing"\n"errors"\n"github.com/stretchr/testify/assert"\n)\n'


@pytest.mark.parametrize("language", VALUES)
def test_values_arrive_as_they_are_and_changes_of_arguments_come_back(judge, language):
    head, body, tests = VALUES[language]
    verdict = outcome(judge, language, head, body, tests, imports=GO_IMPORTS)
    assert verdict.outcome == "passed", verdict


# Signatures and results that cannot be passed: (head, body, tests, what the detail says).
REFUSED = {
    "cpp": (
        "struct S { int a; };\nint f(S s){\n",
        "return 0;",
        "int main() { f(S{1}); }\n",
        "this type cannot be passed",
    ),
    "rust": (
        "fn f(g: fn(i32) -> i32) -> i32 {\n",
        "g(1)",
        "#[cfg(test)]\nmod tests {\n use super::*;\n #[test]\n fn t() { f(|x| x); }\n}\n",
        "cannot be passed",
    ),
    "go": ("func f(g func() int) int {\n", "return g()", "func TestF(t *testing.T) { f(nil) }\n", "func() int"),
    "java": (
        "import java.util.*;\n\nclass Solution {\n    public Object f(int a) {\n",
        "return new Random(a);",
        "public class Main {\n    public static void main(String[] a) { new Solution().f(1); }\n}\n",
        "java.util.Random",
    ),
}


@pytest.mark.parametrize("language", REFUSED)
def test_values_that_cannot_be_passed_make_a_program_unjudged_and_are_named(judge, language):
    head, body, tests, named = REFUSED[language]
    verdict = outcome(judge, language, head, body, tests, imports=GO_IMPORTS)
    assert (verdict.outcome, named in verdict.detail) == ("unjudged", True), verdict


def test_tests_that_do_not_compile_are_reported_as_faulty_tests(judge):
    verdict = outcome(judge, "cpp", "int f(int a){\n", "return a;", "int main() { missing(f(1)); }\n")
    assert verdict.outcome == "test error", verdict
    verdict = outcome(judge, "rust", "fn f(a: i32) -> i32 {\n", "a", "mod tests { pub fn t() { rand::random(); } }\n")
    assert verdict.outcome == "test error", verdict


def test_a_java_test_catches_an_exception_of_the_candidate(judge):
    head = "import java.util.*;\n\nclass Solution {\n    public int f(int a) {\n"
    catching = "try { s.f(1); throw new AssertionError(); } catch (IllegalArgumentException e) { if (!e.getMessage()"
    tests = "public class Main {\n    public static void main(String[] a) {\n        Solution s = new Solution();\n"
    caught = f'{tests}{catching}.equals("less")) throw e; }}\n    }}\n}}\n'
    throw = 'throw new {}("less");\n    '
    assert outcome(judge, "java", head, throw.format("IllegalArgumentException"), caught).outcome == "passed"
    assert outcome(judge, "java", head, throw.format("IllegalStateException"), caught).outcome == "exception"
    assert outcome(judge, "java", head, "return 1;\n    ", caught).outcome == "wrong"


# A call with one object as two arguments: (head, a body that only reads, a body that changes the first, tests).
SHARED = {
    "cpp": (
        "#include<vector>\nusing namespace std;\nint f(vector<int>& a, const vector<int>& b){\n",
        "return a[0] + b[0];",
        "a[0] = 5; return a[0] + b[0];",
        "#include<cassert>\nint main() { vector<int> x{1}; assert(f(x, x) == (x[0] == 5 ? 10 : 2)); }\n",
    ),
    "go": (
        "func f(a []int, b []int) int {\n",
        "return a[0] + b[0]",
        "a[1] = 5; return a[0] + b[0]",
        "func TestF(t *testing.T) {\n    x := []int{1, 1, 1}\n"
        '    if f(x[:2], x[1:]) != 1 + x[1] { t.Errorf("wrong") }\n}\n',
    ),
    "java": (
        "import java.util.*;\n\nclass Solution {\n    public int f(List<List<Integer>> a, List<Integer> b) {\n",
        "return a.get(0).get(0) + b.get(0);",
        "b.set(0, 5); return a.get(0).get(0) + b.get(0);",
        "public class Main {\n    public static void main(String[] args) {\n"
        "        List<Integer> x = new ArrayList<>(List.of(1));\n"
        "        List<List<Integer>> grid = new ArrayList<>(List.of(x));\n"
        "        int sum = new Solution().f(grid, x);\n"
        "        if (sum != 2 * x.get(0)) throw new AssertionError(sum);\n    }\n}\n",
    ),
}


@pytest.mark.parametrize("language", SHARED)
def test_arguments_that_share_an_object_are_judged_unless_the_program_changes_it(judge, language):
    """Each program is right; in two processes the change of one argument is not seen in the other."""
    head, reading, changing, tests = SHARED[language]
    imports = GO_IMPORTS.replace('"errors"\n', "")
    assert outcome(judge, language, head, reading, tests, imports=imports).outcome == "passed"
    verdict = outcome(judge, language, head, changing, tests, imports=imports)
    assert verdict.outcome == "unjudged", verdict
    assert re.search("arguments (share|are one object)", verdict.detail), verdict
