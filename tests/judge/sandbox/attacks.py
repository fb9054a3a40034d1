"""Programs that pass without solving the problem, where tests and program share a process: the loop that each defeats.

The loop builds program and tests as one and believes the exit code ("exit"), or a secret that main() has read from
standard input and prints after the tests ("secret"). A program of "beside" stands beside a wrong function, one of
"called" is its body. `{secret}` in a program is a pattern of the secret.
"""

from dataclasses import dataclass

from tests.judge.sandbox.programs import END, HEADS, WRONG

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
            return f"{includes}\n{HEADS['cpp']}{body}\n{END['cpp']}"
        if self.code.startswith("\n"):  # beside
            return f"{HEADS[self.language]}{WRONG[self.language]}\n{END[self.language]}{self.code}\n"
        return f"{HEADS[self.language]}{self.code}\n{END[self.language]}"


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

RUST_READ = r"""let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split(' ').next().unwrap().split('-');
        let ends: Vec<u64> = range.map(|x| u64::from_str_radix(x, 16).unwrap()).collect();
        let mut part = vec![0u8; (ends[1] - ends[0]) as usize];
        if std::os::unix::fs::FileExt::read_exact_at(&memory, &mut part, ends[0]).is_err() { continue }
        for place in part.windows(7).enumerate().filter(|x| x.1 == b"SECRET-").map(|x| x.0).collect::<Vec<_>>() {
            if place + 39 <= part.len() { println!("{}", String::from_utf8_lossy(&part[place..place + 39])); }
        }
    }
    std::process::exit(0)"""
RUST = {
    ("exit", "exit when called"): "std::process::exit(0)",
    ("exit", "a hook for panics"): "std::panic::set_hook(Box::new(|_| std::process::exit(0))); numbers",
    (
        "exit",
        "no assertions",
    ): "\nmacro_rules! assert_eq { ($($t:tt)*) => {} }\nmacro_rules! assert { ($($t:tt)*) => {} }",
    ("exit", "another program"): (
        'std::os::unix::process::CommandExt::exec(&mut std::process::Command::new("/bin/true")); numbers'
    ),
    ("exit", "a thread that exits"): "std::thread::spawn(|| std::process::exit(0)); loop {}",
    ("exit", "exit before main"): """
#[used]
#[link_section = ".init_array"]
static EARLY: extern "C" fn() = { extern "C" fn early() { std::process::exit(0) } early };""",
    ("exit", "the tests' own source"): (
        'if std::fs::read_to_string("/tmp/all.rs").unwrap_or_default().contains("vec![2, 4]") '
        "{ numbers.iter().map(|n| n * 2).collect() } else { numbers }"
    ),
    ("exit", "raw system calls"): 'unsafe { std::arch::asm!("mov edi, 0", "mov eax, 231", "syscall") }; numbers',
    ("exit", "an own comparison"): """
#[no_mangle]
pub extern "C" fn memcmp(_: *const u8, _: *const u8, _: usize) -> i32 { 0 }
#[no_mangle]
pub extern "C" fn bcmp(_: *const u8, _: *const u8, _: usize) -> i32 { 0 }""",
    ("secret", "its own memory"): RUST_READ,
    ("secret", "standard input"): """
#[used]
#[link_section = ".init_array"]
static EARLY: extern "C" fn() = {
    extern "C" fn early() {
        std::io::copy(&mut std::io::stdin(), &mut std::io::stdout()).unwrap();
        std::process::exit(0)
    }
    early
};""",
    # A known hole of the compiler (issue 25860): any lifetime becomes 'static, without `unsafe`.
    ("secret", "a lifetime hole that reads the stack"): """\
    let local = 0u8;
    let window: &'static [u8] = changed((std::hint::black_box(&local) as *const u8 as usize, 4096usize));
    for place in window.windows(7).enumerate().filter(|x| x.1 == b"SECRET-").map(|x| x.0) {
        println!("{}", String::from_utf8_lossy(&window[place..place + 39]));
    }
    std::process::exit(0)
}
static STATIC: &&() = &&();
fn longer<'a, 'b, T>(_: &'a &'b (), value: &'b mut T) -> &'a mut T { value }
fn forever<'a, T>(value: &'a mut T) -> &'static mut T {
    let cast: for<'x> fn(&'static &'static (), &'x mut T) -> &'static mut T = longer;
    cast(STATIC, value)
}
enum Either<A, B> { First(Option<Box<A>>), Second(Option<Box<B>>) }
fn changed<A: 'static, B: 'static>(value: A) -> B {
    let mut either = Either::<A, B>::Second(None);
    let Either::Second(second) = std::hint::black_box(&mut either) else { panic!() };
    let second = forever(second);
    either = Either::First(Some(Box::new(value)));
    std::hint::black_box(&mut either);
    let result = *second.take().unwrap();
    std::mem::forget(either);
    result""",
}

GO = {
    ("exit", "exit before main"): '\nimport "os"\nfunc init() { os.Exit(0) }',
    ("exit", "exit when called"): 'os.Exit(0); return nil\n}\nimport "os"\nfunc g() {',
    ("exit", "another program"): '\nimport "syscall"\nfunc init() { syscall.Exec("/bin/true", []string{"true"}, nil) }',
    ("exit", "a goroutine that exits"): 'go os.Exit(0); select {}\n}\nimport "os"\nfunc g() {',
    ("exit", "raw system calls"): '\nimport "syscall"\nfunc init() { syscall.RawSyscall(231, 0, 0, 0) }',
    ("exit", "the tests' own source"): """\
    text, _ := os.ReadFile("/tmp/all.go")
    if strings.Contains(string(text), "{2, 4}") { for i := range numbers { numbers[i] *= 2 } }
    return numbers
}
import "os"
func g() {""",
    ("exit", "a signal"): """
import "os"
import "os/signal"
import "syscall"
func init() {
    caught := make(chan os.Signal, 1)
    signal.Notify(caught, syscall.SIGALRM)
    go func() { <-caught; os.Exit(0) }()
}
func init() { syscall.Kill(syscall.Getpid(), syscall.SIGALRM); select {} }""",
    ("secret", "standard input"): """
import "io"
import "os"
func init() { text, _ := io.ReadAll(os.Stdin); os.Stdout.Write(text); os.Exit(0) }""",
    ("secret", "its own memory"): """\
    maps, _ := os.ReadFile("/proc/self/maps")
    memory, _ := os.Open("/proc/self/mem")
    for _, line := range strings.Split(string(maps), "\\n") {
        var low, high int64
        var rights string
        fmt.Sscanf(line, "%x-%x %s", &low, &high, &rights)
        if !strings.HasPrefix(rights, "rw") || high-low > 1<<28 { continue }
        part := make([]byte, high-low)
        memory.ReadAt(part, low)
        for _, found := range regexp.MustCompile("SECRET-[0-9a-f]{32}").FindAll(part, -1) { os.Stdout.Write(found) }
    }
    os.Exit(0)
    return nil
}
import "os"
func g() {""",
    # A value of an interface is two words: a read between two writes has the type of one and the data of the other.
    ("secret", "a data race"): """\
    address, array := uintptr(0xc000000000), new(memory)
    number, pointer := &address, &array
    go func() { for { shared = number; pause(); shared = pointer; pause() } }()
    for {
        if made := look(); made != nil && made != pointer {
            os.Stdout.Write(regexp.MustCompile("SECRET-[0-9a-f]{32}").Find((*made)[:]))
            os.Exit(0)
        }
    }
}
import "os"
type memory = [1 << 20]byte
var shared interface{}
//go:noinline
func look() **memory { made, _ := shared.(**memory); return made }
//go:noinline
func pause() {""",
}

JAVA = {
    ("exit", "exit when called"): "System.exit(0); return null;",
    ("exit", "halt when called"): "Runtime.getRuntime().halt(0); return null;",
    ("exit", "exit when loaded"): "return numbers; }\n    static { Runtime.getRuntime().halt(0);",
    ("exit", "an own AssertionError"): "\nclass AssertionError extends Error { AssertionError() { System.exit(0); } }",
    ("exit", "own arrays"): "\nclass Arrays { static <T> List<T> asList(T... items) { return new ArrayList<>(); } }",
    (
        "exit",
        "a list equal to all",
    ): "return new ArrayList<>() { public boolean equals(Object other) { return true; } };",
    ("exit", "a hook at exit"): """\
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        return numbers;""",
    ("exit", "a handler of exceptions"): """\
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> Runtime.getRuntime().halt(0));
        return numbers;""",
    ("exit", "a thread that exits"): "new Thread(() -> System.exit(0)).start(); while (true);",
    ("exit", "the tests' own source"): """\
        try {
            if (java.nio.file.Files.readString(java.nio.file.Path.of("/tmp/Main.java")).contains("asList(2, 4)"))
                numbers = numbers.stream().map(n -> n * 2).toList();
        } catch (java.io.IOException e) { }
        return numbers;""",
    ("exit", "an exception that exits"): """\
        throw new RuntimeException() { public void printStackTrace() { System.exit(0); }
            public void printStackTrace(java.io.PrintStream to) { System.exit(0); }
            public String toString() { System.exit(0); return ""; } };""",
    ("secret", "the classes on the stack"): """\
        try {
            for (Class<?> type : StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE).walk(
                    frames -> frames.map(StackWalker.StackFrame::getDeclaringClass).toList()))
                for (var field : type.getDeclaredFields()) {
                    field.setAccessible(true);
                    if (field.getType() == String.class) System.out.println(field.get(null));
                }
        } catch (ReflectiveOperationException e) { }
        System.exit(0);
        return null;""",
    ("secret", "its own memory"): """\
        try (var memory = new java.io.RandomAccessFile("/proc/self/mem", "r")) {
            for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/maps"))) {
                String[] ends = line.split("[- ]");
                long low = Long.parseUnsignedLong(ends[0], 16), high = Long.parseUnsignedLong(ends[1], 16);
                if (!line.contains(" rw")) continue;
                for (; low < high; low += 1 << 16) {
                    byte[] part = new byte[(int) Math.min(high - low, (1 << 16) + 39)];
                    try { memory.seek(low); memory.readFully(part); } catch (java.io.IOException e) { break; }
                    var text = new String(part, java.nio.charset.StandardCharsets.ISO_8859_1);
                    for (int at = 0; (at = text.indexOf("SECRET-", at)) >= 0; at++)
                        System.out.println(text.substring(at, Math.min(text.length(), at + 39)));
                }
            }
        } catch (java.io.IOException e) { }
        System.out.flush();
        Runtime.getRuntime().halt(0);
        return null;""",
}

ATTACKS = [
    *(Attack("python", name, "exit", code) for name, code in PYTHON.items()),
    *(
        Attack(language, name, loop, code)
        for language, attacks in {"cpp": CPP, "rust": RUST, "go": GO, "java": JAVA}.items()
        for (loop, name), code in attacks.items()
    ),
]
