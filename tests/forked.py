"""Run programs of this repository as forks of a process that has imported torch, transformers and the stage already.

    done = forked.run([sys.executable, "-m", "scripts.training.train", ...])

Each is a process of its own with its arguments, environment, output and exit code, as `subprocess.run` gives them; only
the seconds of imports are spent once. What such a program executes in its place (os.execvp, as
scripts/training/launch.py does) runs in the same process. Tests that kill, signal or time a program, or that want
torchrun itself, start a real one.
"""

import gc
import json
import os
import random
import runpy
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMPORTED = ["scripts.training.train", "scripts.evaluation.perplexity", "scripts.evaluation.qa"]


@cache
def server() -> socket.socket:
    """Start the process that is forked, once per pytest process; it ends when the other end of its socket closes."""
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-m", "tests.forked", str(theirs.fileno())]
    # threads that the libraries would start at once: a process with threads cannot be forked safely
    environment = os.environ | {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
    subprocess.Popen(words, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    return ours


class Program:
    """A running program. Its output is collected in files, so that it never waits for a reader."""

    def __init__(self, words: list[str], env: dict | None = None, cwd: Path | None = None):
        self.words = [str(word) for word in words]
        assert self.words[:2] == [sys.executable, "-m"], f"not a module of Python: {self.words}"
        request = {"words": self.words[2:], "env": dict(env or os.environ), "cwd": str(cwd or Path.cwd())}
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self.socket, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as line:
            line.write(json.dumps(request).encode())
            line.flush()
            descriptors = [theirs.fileno(), line.fileno(), self.out.fileno(), self.err.fileno()]
            socket.send_fds(server(), [b"."], descriptors)

    def wait(self, timeout: float | None = None) -> subprocess.CompletedProcess:
        """Wait for its end, at most `timeout` seconds.

        Raises:
            TimeoutError: it did not end in time.
        """
        with ExitStack() as stack:
            for file in (self.out, self.err, self.socket):
                stack.enter_context(file)
            self.socket.settimeout(timeout)
            code = self.socket.recv(16)
            texts = []
            for file in (self.out, self.err):
                file.seek(0)
                texts.append(file.read().decode())
        assert code, f"the forking process is gone: {texts[1][-2000:]}"
        return subprocess.CompletedProcess(self.words, int(code), *texts)


def run(words: list[str], env: dict | None = None, cwd: Path | None = None, timeout: float = 300):
    """The completed process of a program, with its output as text."""
    return Program(words, env, cwd).wait(timeout)


def run_ranks(words: list[str], count: int, env: dict | None = None, timeout: float = 300):
    """A program on `count` ranks, with the variables that torchrun sets; the exit code is the first that is not 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    ranks = []
    for rank in range(count):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        environment = {**(env or os.environ), **meet, **{name: str(value) for name, value in place.items()}}
        ranks.append(Program(words, environment))
    ended = [rank.wait(timeout) for rank in ranks]
    code = next((one.returncode for one in ended if one.returncode), 0)
    return subprocess.CompletedProcess(
        words, code, *("".join(each) for each in zip(*[(one.stdout, one.stderr) for one in ended], strict=True))
    )


def execute(words: list[str]) -> None:
    """Run `module argument...` as `python -m` would, in this process."""
    module, *sys.argv[1:] = words
    sys.modules.pop(module, None)  # it runs as __main__, and is not imported beside that
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def become(request: dict, out: int, err: int) -> int:
    """Be the program that is requested, in a forked process; return its exit code."""
    os.setsid()
    os.chdir(request["cwd"])
    os.dup2(out, 1), os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]  # as Python has it with `-m`
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    random.seed()
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        sys.modules["torch._dynamo"].config.disable = True  # read at its import
    os.execvp = lambda _, words: execute(words[2:])
    try:
        execute(request["words"])
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush(), sys.stderr.flush()


def serve(requests: socket.socket) -> None:
    """Fork a process per request, and one that waits for it and sends its exit code."""
    while received := socket.recv_fds(requests, 1, 4):
        if not received[0]:
            return
        answer, line, out, err = received[1]
        if os.fork() == 0:
            requests.close()
            request = json.loads(os.pread(line, os.fstat(line).st_size, 0))
            if (program := os.fork()) == 0:
                os.close(answer)
                os._exit(become(request, out, err))
            code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
            socket.socket(fileno=answer).send(str(code).encode())
            os._exit(0)
        for descriptor in received[1]:
            os.close(descriptor)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    gc.disable()
    for name in IMPORTED:
        __import__(name)
    gc.freeze()
    gc.enable()
    assert len(os.listdir("/proc/self/task")) == 1, "a library has started threads"  # noqa: PTH208
    serve(socket.socket(fileno=int(sys.argv[1])))
