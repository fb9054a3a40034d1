"""Whatever a program replies, the outcome is its own: no reply makes the tests or the sandbox be at fault.

Replies are noise, damaged copies of what a real program replies, and more than the channel takes. The seeded run over
all languages is long: make soak.
"""

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scripts.judge import judge as python_judge
from scripts.judge.judge import Judge
from scripts.judge.problem import FAULTS, Problem
from scripts.judge.sandbox import cpp_judge, program
from scripts.judge.sandbox.program import Limits, Pipes
from scripts.judge.sandbox.remote_objects import LONGEST_TEXT, Caller, ChannelClosed, Raised, Refused, RemoteReference
from tests.judge.sandbox.programs import CPP_HEAD, CPP_PROBLEM, END, WRONG, needs_cpp

pytestmark = pytest.mark.usefixtures("unharmed")
READ_BY_PYTHON, BY_PROCESSES = 100_000, 1_000  # replies of the long run, of each language
LONG = 17 << 20  # bytes; more than any channel takes
WORDS = [b"[", b"]", b"(", b")", b"'", b'"', b"\\", b",", b"{", b"}", b"-", b"0", b"1e999", b"None", b"null", b"\0"]
WORDS += [b"\n", b"\xff", b"kept(", b"test_function(", b"named(", b"number(", b"'error'", b"'value'", b"'callback'"]
WORDS += [b"SystemExit", b"ImportError", b"MemoryError", b"compile error", b"test error", b"\xed\xa0\x80", b"E" * 70000]
WORDS += [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80\0\0\0", b"127]", b"119]", b"9" * 400]
PYTHON = Problem(
    "F/1",
    "python",
    "def f(x):\n",
    "def f(x):\n    pass\n",
    "for _ in range(1000):\n    try:\n        found = f([1])\n    except Exception as error:\n"
    "        raise AssertionError from error\n    assert found == 'right'\n",
    "f",
    (),
)


def replies(valid: bytes, seed: str) -> Iterator[bytes]:
    """Random replies without end."""
    chance = random.Random(seed)
    while True:
        kind = chance.randrange(6)
        if kind == 0:
            yield chance.randbytes(chance.randrange(60)) + b"\n"
        elif kind == 1:
            yield b"".join(chance.choices(WORDS, k=chance.randrange(1, 12))) + b"\n"
        elif kind == 2:
            yield valid[: chance.randrange(len(valid))]
        else:
            damaged = bytearray(valid)
            for _ in range(chance.randrange(1, 4)):
                place = chance.randrange(len(damaged) + 1)
                if kind == 3:
                    damaged[place:place] = chance.choice(WORDS)
                elif kind == 4:
                    del damaged[place : place + chance.randrange(1, 6)]
                else:
                    damaged[place : place + 1] = chance.randbytes(1)
            yield bytes(damaged)


def long_replies(valid: bytes) -> list[bytes]:
    size = (LONG - 4).to_bytes(4, "little"), (LONG - 4).to_bytes(4, "big")
    fillings = [b"(", b"[", b"E", b'{"l":']
    nested = [valid[: len(valid) // 2] + filling * (LONG // len(filling)) + b"\n" for filling in fillings]
    return [*nested, *(length + b"[" * LONG for length in size)]


@pytest.fixture
def recorded(monkeypatch):
    """What the programs reply that are judged meanwhile; their replies pass through this process."""
    heard = bytearray()

    @contextmanager
    def relayed() -> Iterator[Pipes]:
        reading, writing = os.pipe()
        with program.two_pipes() as pipes:
            forward = os.dup(pipes.reply_writer)
            yield pipes._replace(reply_writer=writing)
        os.close(writing)

        def relay() -> None:
            while chunk := os.read(reading, 1 << 16):
                heard.extend(chunk)
                try:
                    os.write(forward, chunk)
                except BrokenPipeError:
                    break
            os.close(reading)
            os.close(forward)

        threading.Thread(target=relay).start()

    for judges in (cpp_judge, python_judge):
        monkeypatch.setattr(judges, "two_pipes", relayed)
    return heard


def problem_of(language: str) -> tuple[Problem, str]:
    """A problem, and a wrong program for it."""
    if language == "python":
        return PYTHON, "def f(x): return [x, (2.5, None), {'a'}]\n"
    needs_cpp()
    return CPP_PROBLEM, f"{CPP_HEAD}{WRONG}\n{END}"


def check(judge: Judge, problem: Problem, all_replies: list[bytes]) -> None:
    kind = judge.judge_of(problem)
    for reply in all_replies:
        verdict = kind.judge_replies(problem, reply)
        if verdict.outcome in FAULTS:  # then `judge` blames the program, as without any reply there is no fault
            assert kind.judge_replies(problem, b"").outcome not in FAULTS, (reply[:200], verdict)
        assert verdict.outcome != "passed", reply[:200]


LANGUAGES = ["python", "cpp"]


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_reply_makes_tests_or_sandbox_be_at_fault(sandbox, recorded, language):
    problem, wrong = problem_of(language)
    judge = Judge(sandbox, Limits(10, 512 << 20))
    assert judge.judge(problem, wrong).outcome == "wrong"
    source = replies(bytes(recorded), f"few {language}")
    check(judge, problem, [next(source) for _ in range(5)] + long_replies(bytes(recorded))[:1])


@pytest.mark.soak
@pytest.mark.parametrize("language", LANGUAGES)
def test_none_of_many_replies_makes_tests_or_sandbox_be_at_fault(sandbox, recorded, language):
    problem, wrong = problem_of(language)
    judge = Judge(sandbox, Limits(10, 512 << 20))
    assert judge.judge(problem, wrong).outcome == "wrong"
    source = replies(bytes(recorded), f"many {language}")
    check(judge, problem, [next(source) for _ in range(BY_PROCESSES)] + long_replies(bytes(recorded)))


class Replying:
    """A channel to a program that gives these replies."""

    def __init__(self):
        self.reply = b""

    def send(self, text: str) -> None:
        pass

    def receive(self) -> str:
        if not self.reply:
            raise ChannelClosed
        reply, self.reply = self.reply, b""
        return reply.split(b"\n")[0].decode("ascii")


def read_by_python(number: int) -> None:
    channel = Replying()
    valid = b"['value', [1, ('a', 2.5), named('P', ['x'], [3])], None, ([[4]], dict([]))]"
    failed = b"['error', 'ValueError', 'why']"
    for source in (replies(valid, "value"), replies(failed, "error")):
        for _ in range(number // 2):
            channel.reply, caller = next(source), Caller(channel)
            try:
                caller.request("call", RemoteReference(caller.request, "f"), ([[1]],), {})
            except (ChannelClosed, Refused):
                pass
            except Raised as error:
                assert len(type(error).__name__) <= LONGEST_TEXT and len(str(error)) <= LONGEST_TEXT + 2
                repr((type(error).__name__, str(error))).encode(errors="backslashreplace")


def test_a_reply_in_python_is_a_value_or_an_exception_of_the_program():
    read_by_python(2000)


@pytest.mark.soak
def test_each_of_many_replies_in_python_is_a_value_or_an_exception_of_the_program():
    read_by_python(READ_BY_PYTHON)


@pytest.mark.parametrize(
    "line",
    [
        "raise type('E' * 70000, (Exception,), {})('x')",
        "raise type('E\\ud800', (Exception,), {})('x' * 1_000_000)",
        "def f(x): raise type('E' * 70000, (Exception,), {})('x' * 70000)",
        "def f(x): raise type('E' * 70000, (ImportError,), {})('x')",
    ],
)
def test_one_line_does_not_void_a_benchmark(judge, line):
    verdict = judge.judge(PYTHON, line)
    assert verdict.outcome in ("exception", "wrong"), verdict


def test_a_forged_compile_error_of_1_mb_is_a_compile_error(judge):
    verdict = judge.judge(
        PYTHON,
        "import gc\nchannel = [one for one in gc.get_objects() if type(one).__name__ == 'Channel'][0]\n"
        "real = channel.send\nchannel.send = lambda text: real(repr(['error', 'compile error', 'x' * 1_000_000]))\n",
    )
    assert verdict.outcome == "compile error" and len(verdict.detail) <= 1000
