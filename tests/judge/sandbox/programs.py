"""A small problem in C++, in HumanEval-X's form: answers of each outcome, and cheats."""

import shutil

import pytest

from scripts.judge.problem import Problem
from scripts.judge.sandbox.cpp_judge import PACKAGES

CPP_HEAD = "#include<vector>\nusing namespace std;\nvector<int> twice(vector<int> numbers){\n"
CPP_TESTS = """#undef NDEBUG
#include<assert.h>
int main(){
    vector<int> a={1, 2};
    assert (twice(a)==vector<int>({2, 4}));
    assert (twice({-3})==vector<int>({-6}));
    assert (true == twice({}).empty());
}
"""
CPP_PROBLEM = Problem("cpp/0", "cpp", CPP_HEAD, CPP_HEAD, CPP_TESTS, "twice", ())

END = "}\n"
RIGHT = "for (auto& n : numbers) n *= 2; return numbers;"
WRONG = "return numbers;"

# body of the function: what becomes of it
OUTCOMES = {
    RIGHT: "passed",
    WRONG: "wrong",
    "throw 1;": "exception",
    "return *(vector<int>*)nullptr;": "exception",
    "return missing;": "compile error",
    "while (1) { volatile int x = 1; }": "timeout",
    "return vector<int>(1L << 36);": "memory",
    "return numbers;\n#include <boost/nothing.hpp>\n": "environment error",
}

# name: what stands beside a wrong function
BESIDE = {
    "exit before main": "#include <stdlib.h>\nstatic int early = (exit(0), 0);",
    "half of the secret": """
#include <unistd.h>
static int early = [] { char half[16]; return (int)write(1, half, read(0, half, 16)); }();""",
    "no assertions": """
#undef assert
#define NDEBUG
#define assert(x)
#define true false
#define main tests""",
    "an own main": '#include <stdio.h>\nint main() { puts("passed"); return 0; }',
    "an assertion that returns": """
extern "C" void __assert_fail(const char*, const char*, unsigned, const char*) {}""",
    "an equality that holds": """
bool operator==(const vector<int>&, const vector<int>&) { return true; }
namespace std { template<> bool operator==(const vector<int>&, const vector<int>&) { return true; } }""",
    "its own program and the tests": """
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
    "the tests at compile time": '#include "/tmp/tests.cpp"',
}


def needs_cpp() -> None:
    """Skip a test where no compiler is installed."""
    if not shutil.which("g++"):
        pytest.skip(f"needs g++: apt-get install {PACKAGES}")
