"""Programs that pass without solving the problem, where tests and program share a process: the loop that each defeats.

The loop builds program and tests as one and believes the exit code ("exit"), or a secret that main() has read from
standard input and prints after the tests ("secret"). A program of "beside" stands beside a wrong function, one of
"called" is its body. `{secret}` in a program is a pattern of the secret.
"""

from dataclasses import dataclass

from tests.judge.sandbox.programs import CPP_HEAD, END, WRONG

SECRET = r"SECRET-[0-9a-f]{32}"


@dataclass(frozen=True)
class Attack:
    language: str
    name: str
    loop: str
    code: str

    @property
    def program(self) -> str:
        """The candidate's program."""
        if self.language == "python":
            return f"{PYTHON_HEAD}    return None\n\n{self.code}\n"
        if self.code.startswith("#include"):
            includes, body = self.code.split("\n\n")
            return f"{includes}\n{CPP_HEAD}{body}\n{END}"
        if self.code.startswith("\n"):  # beside
            return f"{CPP_HEAD}{WRONG}\n{END}{self.code}\n"
        return f"{CPP_HEAD}{self.code}\n{END}"


PYTHON_HEAD = 'def triple(x):\n    """Three times x."""\n'
PYTHON_TESTS = "assert triple(2) == 6\nassert triple([1]) == [1, 1, 1]\nassert not triple(0)\n"

PYTHON = {
    "early exit": "import sys; sys.exit(0)",
    "os._exit": "import os; os._exit(0)",
    "exit when called": "def triple(x):\n    import os\n    os._exit(0)",
    "SystemExit when called": "def triple(x): raise SystemExit(0)",
    "a hook for exceptions": "import os, sys\nsys.excepthook = lambda *a: os._exit(0)",
    "a handler at exit": "import atexit, os\natexit.register(os._exit, 0)",
    "another program": "import os\nos.execv('/bin/true', ['true'])",
    "a parent that exits": "import os\nif os.fork(): os._exit(0)",
    "a thread that exits": """
import os, threading, time
threading.Timer(0.1, os._exit, [0]).start()
def triple(x): time.sleep(99)""",
    "a signal handler": """
import os, signal
signal.signal(signal.SIGALRM, lambda *a: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.05)
def triple(x): signal.pause()""",
    "an object equal to all": """
class Equal:
    def __eq__(self, other): return True
    def __bool__(self): return False
def triple(x): return Equal()""",
    "an int equal to all": """
class Equal(int):
    def __eq__(self, other): return True
    def __bool__(self): return False
    __hash__ = int.__hash__
def triple(x): return Equal(1)""",
    "a list equal to all": """
class Equal(list):
    def __eq__(self, other): return True
def triple(x): return Equal()""",
    "a class equal to all": """
class Meta(type):
    def __eq__(self, other): return True
    def __bool__(self): return False
    __hash__ = type.__hash__
class Equal(metaclass=Meta): pass
def triple(x): return Equal""",
    "the tests' own source": """
import sys
def triple(x):
    for line in open('/tmp/all.py'):
        if line.startswith(f'assert triple({x!r}) == '): return eval(line.split(' == ')[1])""",
    "the tests' constants": """
import sys
def triple(x):
    constants = sys._getframe(1).f_code.co_consts
    return [1, 1, 1] if x == [1] and (1, 1, 1) in constants else x * 3 if 6 in constants else None""",
    "a tracer that leaves the tests": """
import os, sys
def tracer(frame, event, argument):
    if event == 'return': os._exit(0)
    return tracer
def triple(x):
    sys.settrace(tracer)
    sys._getframe(1).f_trace = tracer""",
}

CPP_SECRET = """
#include <fstream>
#include <regex>
#include <unistd.h>
static void leak() {
    std::ifstream maps("/proc/self/maps"), memory("/proc/self/mem");
    std::string line;
    while (std::getline(maps, line)) {
        unsigned long low, high; char rights[5];
        sscanf(line.c_str(), "%lx-%lx %4s", &low, &high, rights);
        if (rights[1] != 'w') continue;
        std::string part(high - low, 0);
        memory.clear(); memory.seekg(low); memory.read(&part[0], part.size());
        for (size_t at = 0; (at = part.find("SECRET-", at)) != std::string::npos; at++) write(1, &part[at], 39);
    }
    _exit(0);
}
"""
CPP = {
    ("exit", "exit before main"): "\n#include <stdlib.h>\nstatic int early = (exit(0), 0);",
    ("exit", "exit when called"): "_Exit(0);",
    ("exit", "an own failure of assertions"): """
#include <unistd.h>
extern "C" void __assert_fail(const char*, const char*, unsigned, const char*) noexcept { _exit(0); }""",
    ("exit", "assertions that do nothing"): "\n#include <cassert>\n#define __assert_fail(...) void(0)",
    ("exit", "a handler of SIGABRT"): """
#include <signal.h>
#include <unistd.h>
static auto handler = signal(SIGABRT, [](int) { _exit(0); });""",
    ("exit", "an equality that holds"): """
bool operator==(const vector<int>&, const vector<int>&) { return true; }""",
    ("exit", "an own main"): "\n#define main unused() { return 0; } int main() { return 0; } int rest",
    ("exit", "an own vector"): """
#include <initializer_list>
template <class T> struct liar {
    liar() {}
    liar(std::initializer_list<T>) {}
    bool empty() const { return true; }
    bool operator==(const liar&) const { return true; }
};
liar<int> lie(liar<int>) { return {}; }
#define vector liar
#define twice lie""",
    ("exit", "a parent that exits"): "\n#include <unistd.h>\nstatic int forked = fork() ? (_exit(0), 0) : 0;",
    ("exit", "another program"): '\n#include <unistd.h>\nstatic int run = execl("/bin/true", "true", nullptr);',
    ("exit", "a thread that exits"): """\
#include <pthread.h>
#include <unistd.h>

    pthread_t thread;
    pthread_create(&thread, 0, [](void*) -> void* { _exit(0); }, 0);
    sleep(9);
    return numbers;""",
    ("exit", "another address to return to"): """\
    ((void* volatile*)__builtin_frame_address(0))[1] =
        (void*)+[] { asm volatile("mov $60, %eax; xor %edi, %edi; syscall"); };
    return numbers;""",
    ("exit", "the tests' own source"): """\
#include <fstream>
#include <iterator>

    ifstream in("/tmp/all.cpp");
    string text((istreambuf_iterator<char>(in)), {});
    if (text.find("{2, 4}") != string::npos) for (int& n : numbers) n *= 2;
    return numbers;""",
    ("secret", "standard input"): """
#include <unistd.h>
static int early = [] { char text[39]; write(1, text, read(0, text, 39)); _exit(0); return 0; }();""",
    ("secret", "its own memory"): CPP_SECRET + "static struct Last { Last() { atexit(leak); } } last;\n"
    'extern "C" void __assert_fail(const char*, const char*, unsigned, const char*) noexcept { leak(); }',
    ("secret", "the stack of the caller"): """\
#include <string.h>
#include <unistd.h>

    for (char* at = (char*)__builtin_frame_address(0);; at++)
        if (!memcmp(at, "SECRET-", 7)) { write(1, at, 39); _exit(0); }
    return numbers;""",
    # Unwinds to main() and goes on there after its call, as if the tests had returned 0.
    ("secret", "a jump into main"): """\
#include <unwind.h>

    static int frames = 0;
    _Unwind_Backtrace([](_Unwind_Context* context, void*) {
        if (++frames < 3) return _URC_NO_REASON;
        asm volatile("mov %0, %%rsp; mov %2, %%rbp; xor %%eax, %%eax; jmp *%1" ::
                     "c"(_Unwind_GetCFA(context)), "d"(_Unwind_GetIP(context)), "S"(_Unwind_GetGR(context, 6)));
        return _URC_NO_REASON;
    }, nullptr);
    return numbers;""",
}

ATTACKS = [
    *(Attack("python", name, "exit", code) for name, code in PYTHON.items()),
    *(Attack("cpp", name, loop, code) for (loop, name), code in CPP.items()),
]
