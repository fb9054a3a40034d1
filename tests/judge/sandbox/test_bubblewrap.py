"""scripts/judge/sandbox/bubblewrap.py attacked from within: all fails, the host is unharmed, the next program
runs."""

import os
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from scripts.judge.sandbox.bubblewrap import MODES, REFUSED, Sandbox, bpf
from scripts.judge.sandbox.program import Limits

pytestmark = pytest.mark.usefixtures("unharmed")

LIMITS = Limits(seconds=3, memory=256 << 20)
SHORT = Limits(seconds=0.5, memory=256 << 20)


def run(sandbox, code, limits=LIMITS):
    return sandbox.run([*sandbox.python, "-c", code], limits)


@pytest.fixture(autouse=True)
def next_runs_normally(sandbox):
    yield
    program = run(sandbox, "print(6 * 7)")
    assert (program.code, bytes(program.stdout), program.killed_for) == (0, b"42\n", None)


# Each ends its program for the reason named; without one it may also fail by itself.
EXHAUSTING = {
    "endless loop": ("while True: pass", "timeout"),
    "sleep": ("import time; time.sleep(99)", "timeout"),
    "ignored signals": (
        "import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except Exception: pass\n"
        "while True: pass",
        "timeout",
    ),
    "a daemon that outlives its parent": (
        "import os, time\nif os.fork():\n  os._exit(0)\nos.setsid()\nif os.fork():\n  os._exit(0)\ntime.sleep(99)",
        None,
    ),
    "one large allocation": ("x = bytearray(1 << 32)", None),
    "memory in many processes": (
        "import os, time\nfor _ in range(20):\n  if os.fork() == 0:\n    x = b'x' * (100 << 20); break\ntime.sleep(99)",
        "memory",
    ),
    "memory in a file system": (
        "import itertools\nfor n in itertools.count():\n  open(f'/tmp/{n}', 'wb').write(b'x' * (20 << 20))",
        None,
    ),
    "fork bomb": ("import os\nwhile True: os.fork()", None),
    "fork bomb that bears errors": (
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        None,  # time or memory, whichever ends first
    ),
    "thread bomb": (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()",
        None,
    ),
    "huge output": ("import sys\nwhile True: sys.stdout.write('x' * (1 << 20))", "output"),
    "huge errors": ("import sys\nwhile True: sys.stderr.write('x' * (1 << 20))", "output"),
    "many files": ("import itertools\nfor n in itertools.count(): open(f'/tmp/{n}', 'w').write('x')", "files"),
    "many empty files and links": (
        "import itertools, os\nopen('/tmp/x', 'w')\nfor n in itertools.count(): os.link('/tmp/x', f'/tmp/{n}')",
        "files",
    ),
    "many empty files of many processes": (
        "import itertools, os\nfor _ in range(5): os.fork()\nos.mkdir(folder := f'/tmp/{os.getpid()}')\n"
        "for n in itertools.count(): os.mkdir(f'{folder}/{n}')",
        "files",
    ),
    "many descriptors": ("import os\nwhile True: os.open('/dev/null', os.O_RDONLY)", None),
    "a huge sparse file": ("open('/tmp/x', 'w').truncate(1 << 40)", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXHAUSTING)
def test_programs_that_exhaust_a_resource_are_stopped(sandbox, name):
    code, why = EXHAUSTING[name]
    started = time.monotonic()
    program = run(sandbox, code, SHORT if why == "timeout" else LIMITS)
    assert program.killed_for in ((why,) if why else (None, "timeout", "memory"))
    assert program.code != 0 or name == "a daemon that outlives its parent"
    assert time.monotonic() - started < 30
    assert len(program.stdout) <= 1 << 16


# Each prints `harm` where it succeeds.
INTRUDING = {
    "write to the kernel": "open('/proc/sys/kernel/core_pattern', 'w')",
    "write outside": """
import glob
done = []
for folder in ['/', *glob.glob('/*/'), *glob.glob('/*/*/')]:
    if not folder.startswith(('/tmp', '/proc')):
        try: open(folder + '/x', 'w'); done.append(folder)
        except OSError: pass
assert done""",
    "read accounts": "open('/etc/passwd')",
    "see a home": "import os; assert [path for path in ['/root', '/home', '/mnt', '/var'] if os.path.exists(path)]",
    "see the environment": "import os; os.environ['STAGECRAFT_PLANTED']",
    "see the first process's environment": "assert 'STAGECRAFT_PLANTED' in open('/proc/1/environ').read()",
    "see the host's processes": "import os; assert len([p for p in os.listdir('/proc') if p.isdigit()]) > 4",
    "kill the parent": "import os; os.kill(os.getppid(), 9)",
    "kill the first process": "import os; os.kill(1, 9); import time; time.sleep(.1)",
    "kill everything": "import os; os.kill(-1, 9)",
    "reach loopback": "import socket; socket.create_connection(('127.0.0.1', PORT), 2)",
    "reach an abstract socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0stagecraft-PORT')",
    "open a socket": "import socket; socket.socket()",
    "take memory that no limit counts": "import os; os.memfd_create('x')",
    "take shared memory": "import ctypes; assert ctypes.CDLL(None).shmget(1, 1 << 20, 0o1600) >= 0",
    "nest namespaces": "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "nest namespaces by clone": "import ctypes; assert ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0) >= 0",
    "nest a sandbox": "import subprocess; subprocess.run(['bwrap', '--ro-bind', '/', '/', 'true'], check=True)",
    "mount": "import ctypes; assert ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    "become root": "import os; os.setuid(0)",
    "be root": "import os; assert os.getuid() == 0 or os.access('/etc', os.W_OK)",
    "gain rights by a setuid program": "import subprocess; subprocess.run(['su', '-c', 'true'], check=True)",
    "trace": "import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
    "keep a file for the next": "assert __import__('os').path.exists('/tmp/kept'); open('/tmp/kept', 'w')",
    "raise its limits": "import resource as r; r.setrlimit(r.RLIMIT_NPROC, (9999, 9999))",
    "load a kernel module": "import ctypes; assert ctypes.CDLL(None).syscall(313, 0, b'', 0) == 0",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", INTRUDING)
def test_attempts_to_break_out_fail_in_each_mode(sandbox, name, mode, monkeypatch):
    monkeypatch.setenv("STAGECRAFT_PLANTED", "x")
    with closing(socket.create_server(("127.0.0.1", 0))) as tcp, closing(socket.socket(socket.AF_UNIX)) as unix:
        port = tcp.getsockname()[1]
        unix.bind(f"\0stagecraft-{port}")
        unix.listen()
        program = run(Sandbox(mode), f"{INTRUDING[name].replace('PORT', str(port))}\nprint('harm')")
    assert b"harm" not in program.stdout
    assert program.code != 0
    assert b"Error" in program.stderr or "kill" in name


def test_a_program_sees_the_files_given_to_it_and_cannot_read_its_own_executable(sandbox):
    program = Path("/bin/cat").read_bytes()
    program = sandbox.run(
        ["/run/program", "/tmp/given", "/run/program"], LIMITS, files={"/run/program": program, "/tmp/given": b"text"}
    )
    assert bytes(program.stdout) == b"text"
    assert b"/run/program: Permission denied" in program.stderr


def test_the_numbers_of_system_calls_in_the_filter_are_the_kernels():
    headers = {
        "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        "aarch64": Path("/usr/include/asm-generic/unistd.h"),
    }
    for column, (machine, path) in enumerate(headers.items()):
        if not path.is_file():
            pytest.skip(f"needs {path}: apt-get install linux-libc-dev")
        defined = {}
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) == 3 and words[1].startswith("__NR"):
                defined[words[1].split("_", 3)[-1]] = words[2]
        wrong = {name: entry for name, entry in REFUSED.items() if defined.get(name) != str(entry[column])}
        assert not wrong, machine
        assert len(bpf(machine)) % 8 == 0


def test_all_descendants_die_with_this_process(sandbox, tmp_path):
    """Also when the evaluation itself is killed."""
    code = (
        "from scripts.judge.sandbox.bubblewrap import Limits, Sandbox\n"
        f"sandbox = Sandbox({sandbox.mode!r})\n"
        "program = sandbox.start(['/bin/sh', '-c', 'sleep 1234.5 & sleep 1234.5'], Limits(99, 2**28))\n"
        "print(program.process.pid, flush=True)\nimport time; time.sleep(99)"
    )
    parent = subprocess.Popen([os.sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    parent.stdout.readline()
    for _ in range(100):
        if len(sleepers := sleeping()) == 2:
            break
        time.sleep(0.05)
    assert len(sleepers) == 2
    parent.kill()
    parent.wait()
    for _ in range(100):
        if not sleeping():
            break
        time.sleep(0.05)
    assert not sleeping()


def sleeping() -> list[str]:
    ids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ids += [path.parent.name] if path.read_bytes() == b"sleep\x001234.5\x00" else []
        except OSError:
            continue
    return ids
