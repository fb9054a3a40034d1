"""The same small problem in C++, Rust, Go and Java, in HumanEval-X's form: answers of each outcome, and cheats."""

from scripts.evaluation.benchmarks.formats import Problem

HEADS = {
    "cpp": "#include<vector>\nusing namespace std;\nvector<int> twice(vector<int> numbers){\n",
    "rust": "use std::collections::HashMap;\nuse rand::Rng;\n\nfn twice(numbers: Vec<i32>) -> Vec<i32>{\n",
    "go": "// strings. and math. in a comment import nothing\nfunc Twice(numbers []int) []int {\n",
    "java": "import java.util.*;\n\nclass Solution {\n    public List<Integer> twice(List<Integer> numbers) {\n",
}
TESTS = {
    "cpp": """#undef NDEBUG
#include<assert.h>
int main(){
    vector<int> a={1, 2};
    assert (twice(a)==vector<int>({2, 4}));
    assert (twice({-3})==vector<int>({-6}));
    assert (true == twice({}).empty());
}
""",
    "rust": """
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_twice() {
        assert_eq!(twice(vec![1, 2]), vec![2, 4]);
        assert!(twice(vec![-3]) == vec![-6]);
    }
}
""",
    "go": """func TestTwice(t *testing.T) {
    assert := assert.New(t)
    assert.Equal([]int{2, 4}, Twice([]int{1, 2}))
    assert.Equal(true, len(Twice([]int{-3})) == 1 && Twice([]int{-3})[0] == -6)
}
""",
    "java": """public class Main {
    public static void main(String[] args) {
        Solution s = new Solution();
        List<Boolean> correct = Arrays.asList(
            s.twice(Arrays.asList(1, 2)).equals(Arrays.asList(2, 4)),
            s.twice(new ArrayList<>(Arrays.asList(-3))).equals(Arrays.asList(-6))
        );
        if (correct.contains(false)) {
            throw new AssertionError();
        }
    }
}
""",
}
GO_IMPORTS = 'package main\n\nimport (\n    "testing"\n    "github.com/stretchr/testify/assert"\n)\n'
PROBLEMS = {
    language: Problem(
        f"{language}/0",
        language,
        head,
        head,
        TESTS[language],
        "Twice" if language == "go" else "twice",
        (),
        None,
        GO_IMPORTS,
    )
    for language, head in HEADS.items()
}

END = {"cpp": "}\n", "rust": "}\n", "go": "}\n", "java": "    }\n}\n"}
RIGHT = {
    "cpp": "for (auto& n : numbers) n *= 2; return numbers;",
    "rust": "numbers.iter().map(|n| n * 2).collect()",
    "go": "out := []int{}; for _, n := range numbers { out = append(out, n*2) }; return out",
    "java": "List<Integer> out = new ArrayList<>(); for (int n : numbers) out.add(n * 2); return out;",
}
WRONG = {"cpp": "return numbers;", "rust": "numbers", "go": "return numbers", "java": "return numbers;"}

# (language, body of the function): what becomes of it
OUTCOMES = {
    **{(language, body): "passed" for language, body in RIGHT.items()},
    **{(language, body): "wrong" for language, body in WRONG.items()},
    ("cpp", "throw 1;"): "exception",
    ("cpp", "return *(vector<int>*)nullptr;"): "exception",
    ("cpp", "return missing;"): "compile error",
    ("cpp", "while (1) { volatile int x = 1; }"): "timeout",
    ("cpp", "return vector<int>(1L << 36);"): "memory",
    ("cpp", "return numbers;\n#include <boost/nothing.hpp>\n"): "environment error",
    ("rust", "vec![numbers[9]]"): "exception",
    ("rust", "missing"): "compile error",
    ("rust", "loop {}"): "timeout",
    ("rust", "vec![1; 1 << 36]"): "memory",
    ("rust", "vec![rand::random()]"): "environment error",
    ("go", "return numbers[9:]"): "exception",
    ("go", "return missing"): "compile error",
    ("go", "for {}"): "timeout",
    ("go", "for { b := make([]int, 1<<22); for i := range b { b[i] = i }; numbers = append(numbers, b...) }"): "memory",
    ("go", 'return nothing.Such()\n}\nimport "example.org/nothing"\nfunc g() {'): "environment error",
    ("java", "return List.of(numbers.get(9));"): "exception",
    ("java", "return missing;"): "compile error",
    ("java", "while (true);"): "timeout",
    ("java", "return new ArrayList<>(1 << 30);"): "memory",
    ("java", "org.nothing.Such such; return null;"): "environment error",
}

# (language, name): what stands beside a wrong function
BESIDE = {
    ("cpp", "exit before main"): "#include <stdlib.h>\nstatic int early = (exit(0), 0);",
    ("cpp", "half of the secret"): """
#include <unistd.h>
static int early = [] { char half[16]; return (int)write(1, half, read(0, half, 16)); }();""",
    ("cpp", "no assertions"): """
#undef assert
#define NDEBUG
#define assert(x)
#define true false
#define main tests""",
    ("cpp", "an own main"): '#include <stdio.h>\nint main() { puts("passed"); return 0; }',
    ("cpp", "an assertion that returns"): """
extern "C" void __assert_fail(const char*, const char*, unsigned, const char*) {}""",
    ("cpp", "an equality that holds"): """
bool operator==(const vector<int>&, const vector<int>&) { return true; }
namespace std { template<> bool operator==(const vector<int>&, const vector<int>&) { return true; } }""",
    ("cpp", "its own program and the tests"): """
#include <fstream>
#include <iostream>
static int early = [] {
    for (auto path : {"/proc/self/exe", "/run/program", "/proc/self/mem", "/tmp/tests.cpp"}) {
        std::ifstream in(path);
        if (in) std::cout << in.rdbuf() << std::flush;
        if (in) exit(0);
    }
    return 0;
}();""",
    ("cpp", "the tests at compile time"): '#include "/tmp/tests.cpp"',
    ("rust", "no assertions"): """
#[macro_export]
macro_rules! assert_eq { ($($t:tt)*) => {} }
#[macro_export]
macro_rules! assert { ($($t:tt)*) => {} }""",
    ("rust", "an own comparison"): """
#[no_mangle]
pub extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 { 0 }
#[no_mangle]
pub extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 { 0 }""",
    ("go", "other truths"): "const true = false\nconst nil = 0\nfunc len(x []int) int { return 1 }",
    ("go", "exit before main"): 'import "os"\nfunc init() { os.Exit(0) }',
    ("go", "unsafe memory"): 'import "unsafe"\nvar p = unsafe.Pointer(nil)',
    ("go", "raw system calls"): 'import "syscall"\nfunc init() { syscall.RawSyscall(1, 1, 0, 0) }',
    ("java", "classes of other names"): """
class Arrays { static List<Object> asList(Object... items) { return new ArrayList<>(); } }
class AssertionError extends Error { AssertionError() { System.exit(0); } }
class Main { static void main(String[] arguments) {} }
class Launcher { static Object call(String type, String name, Object... arguments) { return null; } }""",
}

# (language, name): the body of a function that cheats when it is called
CALLED = {
    ("rust", "exit when called"): "std::process::exit(0)",
    ("rust", "a hook for panics"): "std::panic::set_hook(Box::new(|_| std::process::exit(0))); numbers",
    ("rust", "its own program"): """
    if std::fs::read("/proc/self/exe").is_ok() || std::fs::File::open("/proc/self/mem").is_ok() { loop {} }
    numbers""",
    ("go", "the goroutine ends"): 'runtime.Goexit(); return nil\n}\nimport "runtime"\nfunc g() {',
    ("java", "exit when called"): "Runtime.getRuntime().halt(0); return null;",
    ("java", "a list equal to all"): """
        return new ArrayList<Integer>() { public boolean equals(Object other) { return true; } };""",
    ("java", "the launcher by reflection"): """
        try {
            Class<?> launcher = ClassLoader.getSystemClassLoader().loadClass("Launcher");
            for (var field : launcher.getDeclaredFields()) { field.setAccessible(true); field.set(null, null); }
            String[] arguments = {"/opt/candidate.jar", "Solution"};
            launcher.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (Throwable thrown) { throw new RuntimeException(thrown); }
        return null;
    }
    static void main(String[] arguments) {""",
    ("java", "the tests' classes"): """
        for (var thread : Thread.getAllStackTraces().keySet())
            if (thread.getContextClassLoader().getResource("Main.class") != null) while (true);
        return numbers;""",
}
