"""Python programs that want to pass their tests without solving the problem; each follows a wrong `triple`."""

# Right answers to the tests of test_judge.py, for a program that got to see them.
KNOWING = "def triple(x): return {2: 6, 0: 0, 1: 3, .5: 1.5}.get(x if not isinstance(x, list) else 9, [1, 1, 1])"
CHANNELS = "import gc\nchannels = [one for one in gc.get_objects() if type(one).__name__ == 'Channel']\n"

CHEATS = {
    "early exit": "import sys; sys.exit(0)",
    "os._exit": "import os; os._exit(0)",
    "exit when called": "def triple(x): import os; os._exit(0)".replace("(x): ", "(x):\n    "),
    "SystemExit when called": "def triple(x): raise SystemExit(0)",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "an object equal to all": """
class Equal:
    def __eq__(self, other): return True
    def __bool__(self): return False
    def __getattr__(self, name): return self
    def __mul__(self, other): return 9
    def __float__(self): return 1.5
    __rmul__ = __mul__
def triple(x): return Equal()""",
    "an int equal to all": """
class Equal(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def triple(x): return Equal(1)""",
    "a list equal to all": """
class Equal(list):
    def __eq__(self, other): return True
def triple(x): return Equal()""",
    "an object that lies about its class": """
class Equal:
    __class__ = int
    def __eq__(self, other): return True
def triple(x): return Equal()""",
    "a class equal to all": """
class Meta(type):
    def __eq__(self, other): return True
    __hash__ = type.__hash__
class Equal(metaclass=Meta): pass
def triple(x): return Equal""",
    "patched builtins": """
import builtins
builtins.isinstance = builtins.all = lambda *a: True
builtins.AssertionError = type('E', (Exception,), {'__init__': lambda *a: exit(0)})""",
    "patched math": "import math\nmath.isclose = lambda *a, **k: True",
    "patched modules": "import sys\nfor name in list(sys.modules): sys.modules[name] = sys.modules['builtins']",
    "patched judge": """
import sys
main = sys.modules['__main__']
main.judge = lambda *a: ('passed', '')
main.literal = lambda *a: 'True'
main.parsed = lambda *a: ['load']""",
    "stack frames": """
import sys
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_locals.items()):
        if name in ('tests', 'verdict', 'outcome', 'names'): frame.f_locals[name] = ('passed', '')
        if name == 'channel': value.send("('passed', '')")
    frame = frame.f_back""",
    "tests in memory": f"""
import gc
if any('secret-of-the-tests'.upper() in repr(one)[:99999] for one in gc.get_objects()):
    {KNOWING}""",
    "tests in files": f"""
import glob
seen = ''
for path in glob.glob('/proc/*/cmdline') + glob.glob('/proc/*/environ') + glob.glob('/tmp/*') + glob.glob('/opt/*'):
    try: seen += open(path, errors='replace').read(1 << 16)
    except OSError: pass
if 'secret-of-the-tests'.upper() in seen:
    {KNOWING}""",
    "tests in the memory of processes": f"""
import glob, os, re
for folder in set(glob.glob('/proc/[0-9]*')) - {{f'/proc/{{os.getpid()}}'}}:
    try:
        for low, high in re.findall(r'^(\\w+)-(\\w+) rw', open(folder + '/maps').read(), re.M):
            with open(folder + '/mem', 'rb') as memory:
                memory.seek(int(low, 16))
                if 'secret-of-the-tests: in the judge'.upper().encode() in memory.read(int(high, 16) - int(low, 16)):
                    exec({KNOWING!r})
    except (OSError, OverflowError): pass""",
    "the verdict on every descriptor": """
import os
for descriptor in range(256):
    try: os.write(descriptor, b"('passed', '')\\n" * 9)
    except OSError: pass""",
    "the verdict printed": "print(\"('passed', '')\", flush=True)",
    "the verdict at exit": "import atexit, os\natexit.register(lambda: os.write(1, b\"('passed', '')\"))",
    "answers before the questions": CHANNELS + "for _ in range(99): channels[0].send(\"['value', True]\")",
    "a thread that answers": f"""
import threading
{CHANNELS}
def answer():
    while True: channels[0].send("['value', 6]")
threading.Thread(target=answer, daemon=True).start()""",
    "not a number": "def triple(x): return float('nan')",
    "nesting that breaks the reader": CHANNELS + "channels[0].send('[' * 100000)",
    "calls in a literal": CHANNELS + "channels[0].send(\"['value', __import__('os')._exit(0)]\")",
    "builtins in a literal": CHANNELS + "for _ in range(9): channels[0].send(\"['value', exit(0)]\")",
    "objects that are not there": CHANNELS + "for _ in range(9): channels[0].send(\"['value', kept(0)]\")",
    "an endless line": CHANNELS + "while True: channels[0].writer.write(b'x' * (1 << 20))",
    "a channel that closes": "import os\nos.closerange(3, 256)",
}
