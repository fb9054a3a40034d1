"""Run programs as forks of a process that has imported torch, transformers, Snakemake, DVC and the stages already.

    done = forked.run([sys.executable, "-m", "scripts.training.train", ...])
    done = subprocess.run([forked.python(), "-m", "snakemake", ...])  # its jobs are forks too

Each is a process of its own with its arguments, environment, descriptors, output and exit code; only the seconds of
imports are spent once. What such a program executes in its place (os.execvp, as scripts/training/launch.py does) runs
in the same process. In another folder than this checkout a program imports the modules of scripts/ that lie there,
where one of them differs from this checkout's.
A signal to the program that stands for a fork (tests/forked_python.py) reaches the fork, SIGKILL too. Real programs
are started where a test is about process groups or parents (torchrun killed under its ranks, Snakemake killed on a
cluster), and in the soak tests.
"""

import atexit
import gc
import json
import os
import pkgutil
import random
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENT = dict(os.environ)  # before any test changes it
SHARED = "STAGECRAFT_FORKED"  # the variable with the folder that pytest has made for its workers
# What the programs import, some of it only while they run. No pygit2: it reads HOME, which tests set.
IMPORTED = [
    "scripts.training.train",
    "scripts.training.launch",
    "scripts.training.model.kernel_trials",
    "torch.distributed.run",
    "deepspeed",
    "peft",
]
IMPORTED += ["scripts.evaluation.suites.perplexity", "scripts.evaluation.suites.qa", "scripts.evaluation.suites.code"]
IMPORTED += ["scripts.evaluation.baselines", "scripts.evaluation.gate", "scripts.report.page", "scripts.report.cards"]
IMPORTED += ["scripts.corpus.compose", "scripts.corpus.filter", "scripts.corpus.deduplicate", "scripts.corpus.split"]
IMPORTED += ["scripts.tokens.pack", "scripts.tokens.tokenizer", "scripts.training.base", "scripts.training.plan"]
IMPORTED += ["scripts.hosts.start", "scripts.hosts.job_graph", "scripts.hosts.provenance_records"]  # of rules/
IMPORTED += ["scripts.sources.tables.sources_table", "scripts.experiment.reruns.causes", "scripts.languages.python"]
IMPORTED += ["snakemake.cli", "snakemake.api", "snakemake.workflow", "snakemake.scheduling", "snakemake.profiles"]
IMPORTED += ["snakemake.storage", "snakemake.report.html_reporter", "yte", "smart_open", "requests"]
IMPORTED += ["platformdirs"]
IMPORTED += ["dvc.cli.parser", "dvc.repo.init", "dvc.repo.index", "dvc.repo.open_repo", "dvc.repo.plots"]
IMPORTED += ["dvc.output", "dvc.scm", "dvc.cachemgr", "dvc.data_cloud", "dvc.rwlock", "dvc.daemon", "dvc.lock"]
IMPORTED += ["dvc.dirs", "dvc.repo.worktree", "dvc_data.hashfile.db.local", "dvc_data.hashfile.db.index"]
IMPORTED += ["dvc_data.hashfile.status", "dvc_data.index.checkout", "dvc_data.index.fetch", "dvc_data.index.push"]
IMPORTED += ["ruamel.yaml", "rich.live", "rich.status", "dulwich.client", "configobj"]
IMPORTED += [
    "transformers.conversion_mapping",
    "numba",
    "unearth",
    "license_expression",
    "tree_sitter",
    "cyclopts",
    "bm25s",
    "rapidfuzz",
]
# Beside what they run, these are told which Python this is, for the sandbox: the real one.
REAL_PYTHON = ("scripts.evaluation.",)


@cache
def folder() -> Path:
    """The folder of the process that is forked: its socket and `bin/`. It ends with this process, or with the pytest
    whose worker this is."""
    if SHARED in ENVIRONMENT:
        return Path(ENVIRONMENT[SHARED])
    directory = Path(tempfile.mkdtemp(prefix="forked-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as listener, theirs:
        listener.bind(str(directory / "socket"))
        listener.listen(64)
        descriptors = [listener.fileno(), theirs.fileno()]
        words = [sys.executable, "-m", "tests.forked", *map(str, descriptors)]
        # threads that the libraries would start at once: a process with threads cannot be forked safely
        environment = ENVIRONMENT | {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
        environment["DS_ACCELERATOR"] = "cpu"  # as launch.py has it where there is no GPU
        environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"  # of larger pages a fork copies half the tables
        subprocess.Popen(words, cwd=ROOT, env=environment, pass_fds=descriptors, stdin=subprocess.DEVNULL)
    atexit.register(ours.close)
    (directory / "bin").mkdir()
    shim = [sys.executable, "-IS", str(Path(__file__).with_name("forked_python.py")), str(directory), sys.executable]
    for name, more in (("python", []), ("snakemake", ["-m", "snakemake"])):
        (directory / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.join([*shim, *more])} "$@"\n')
        (directory / "bin" / name).chmod(0o755)
    (directory / "environment.json").write_text(json.dumps(ENVIRONMENT))
    return directory


def python() -> str:
    """A Python whose programs of this project, Snakemake and DVC are forks, and those that they start too."""
    return str(folder() / "bin/python")


class Program:
    """A running program. Its output is collected in files, so that it never waits for a reader."""

    def __init__(self, words: list[str], env: dict | None = None, cwd: Path | None = None):
        self.words = [str(word) for word in words]
        assert self.words[:2] == [sys.executable, "-m"], f"not a module of Python: {self.words}"
        request = {"words": self.words[1:], "env": dict(env or os.environ), "cwd": str(cwd or Path.cwd())}
        request |= {"python": sys.executable, "parent": os.getpid(), "umask": None, "ignored": []}
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(folder() / "socket"))
        with Path(os.devnull).open() as nothing:
            text = json.dumps(request).encode()
            descriptors = [file.fileno() for file in (nothing, self.out, self.err)]
            socket.send_fds(self.socket, [len(text).to_bytes(8)], descriptors)
            self.socket.sendall(text)

    def wait(self, timeout: float | None = None) -> subprocess.CompletedProcess:
        """Wait for its end, at most `timeout` seconds.

        Raises:
            TimeoutError: it did not end in time.
        """
        with ExitStack() as stack:
            for file in (self.out, self.err, self.socket):
                stack.enter_context(file)
            self.socket.settimeout(timeout)
            with self.socket.makefile("r") as answer:
                _, code = answer.readline(), answer.readline()
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
        rank_variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        environment = {**(env or os.environ), **meet, **{name: str(value) for name, value in rank_variables.items()}}
        ranks.append(Program(words, environment))
    ended = [rank.wait(timeout) for rank in ranks]
    code = next((process.returncode for process in ended if process.returncode), 0)
    return subprocess.CompletedProcess(
        words,
        code,
        *("".join(each) for each in zip(*[(process.stdout, process.stderr) for process in ended], strict=True)),
    )


def execute(words: list[str], python: str) -> None:
    """Run `-m module argument...` or `-c code argument...` as Python would, in this process."""
    option, program, *arguments = words
    sys.executable = sys.orig_argv[0] = sys.executable if program.startswith(REAL_PYTHON) else python
    sys.orig_argv[1:] = words
    if "TRACE" in os.environ:  # as a real start does with PYTHONPATH=tests/trace
        runpy.run_path(str(ROOT / "tests/trace/sitecustomize.py"))
    if option == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments], ""
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
        return
    sys.argv[1:] = arguments
    if program.startswith("scripts."):
        sys.modules.pop(program, None)  # it runs as __main__, and is not imported beside that
    runpy.run_module(program, run_name="__main__", alter_sys=True)


def code_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """(path below the folder, path) of each file of the project's code in a folder."""
    for top, folders, files in os.walk(folder / "scripts"):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            path = Path(top, name)
            yield str(path.relative_to(folder)), path


class Code:
    """The project's code as this process has imported it."""

    def __init__(self):
        self.content = {name: path.read_bytes() for name, path in code_in(ROOT)}
        self.known: dict[Path, tuple] = {}  # file with the same content → its facts when it was compared

    def is_in(self, folder: Path) -> bool:
        """Whether the code in a folder is the same, so that the modules need not be imported once more."""
        found = 0
        with suppress(OSError):  # as of a file that goes meanwhile
            for name, path in code_in(folder):
                facts = path.stat()
                key = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
                if self.known.get(path) != key and path.read_bytes() != self.content.get(name):
                    return False
                self.known[path] = key
                found += 1
        return found == len(self.content)


def forget_project(request: dict) -> None:
    """In another folder than this checkout, import its modules as that folder has them, and anew after an execvp."""
    if Path(request["cwd"]) == ROOT:
        return
    if request["same_code"] and "TRACE" not in os.environ:  # what is imported is that folder's code, too
        sys.modules["scripts"].__path__ = [f"{request['cwd']}/scripts"]
        return
    for name in [name for name in sys.modules if name.partition(".")[0] in ("scripts", "tests")]:
        del sys.modules[name]


def set_up(request: dict, descriptors: Iterable[int]) -> None:
    """Give this forked process all that the requested one would have got from the process that starts it."""
    os.setsid()
    os.chdir(request["cwd"])
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["umask"] is not None:
        os.umask(request["umask"])
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]  # as Python has it with `-m`
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    forget_project(request)
    me, parent, real_getppid = os.getpid(), request["parent"], os.getppid
    os.getppid = lambda: parent if os.getpid() == me else real_getppid()  # who started it, or the one in its place
    random.seed()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        sys.modules["torch"].set_num_threads(int(threads))  # read when it is loaded
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        sys.modules["torch._dynamo"].config.disable = True  # read at its import
    real_execvp = os.execvp

    def execvp(file: str, words: list[str]) -> None:
        if words[0] not in (sys.executable, request["python"]) or words[1] != "-m":
            real_execvp(file, words)
        forget_project(request)
        execute(words[1:], request["python"])
        sys.exit()

    os.execvp = execvp


def become(request: dict, descriptors: Iterable[int]) -> int:
    """Be the program that is requested, in a forked process; return its exit code."""
    code = 0
    try:
        set_up(request, descriptors)
        execute(request["words"], request["python"])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(BaseException):
        threading._shutdown()
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    return code & 0xFF


class Server:
    """Forks a process per request, and sends its process id, then its exit code, a line each.

    Where who asked is gone before its program is at its end, the program is killed with all of its session.
    """

    def __init__(self, listener: socket.socket, owner: socket.socket):
        self.own, self.selector, self.code = (listener, owner), selectors.DefaultSelector(), Code()
        self.selector.register(listener, selectors.EVENT_READ, self.accept)
        self.selector.register(owner, selectors.EVENT_READ, sys.exit)

    def run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if self.waits_for(key.fileobj):
                    key.data()

    def waits_for(self, source: socket.socket | int) -> bool:
        """Whether an event is still waited for; another one that came at the same moment may have closed its source."""
        closed = isinstance(source, socket.socket) and source.fileno() < 0
        return not closed and source in self.selector.get_map()

    def accept(self) -> None:
        asking, _ = self.own[0].accept()
        asking.settimeout(60)
        try:
            size, descriptors, _, _ = socket.recv_fds(asking, 8, 3)
            with asking.makefile("rb") as file:
                request = json.loads(file.read(int.from_bytes(size)))
            request["same_code"] = Path(request["cwd"]) == ROOT or self.code.is_in(Path(request["cwd"]))
        except (OSError, ValueError):
            return asking.close()
        if (pid := os.fork()) == 0:
            for key in list(self.selector.get_map().values()):
                key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fd)
            self.selector.close()
            asking.close()
            os._exit(become(request, descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        end = os.pidfd_open(pid)
        self.selector.register(asking, selectors.EVENT_READ, lambda: self.kill(pid, asking))
        self.selector.register(end, selectors.EVENT_READ, lambda: self.answer(pid, end, asking))
        with suppress(OSError):
            asking.sendall(f"{pid}\n".encode())
        return None

    def kill(self, pid: int, asking: socket.socket) -> None:
        self.selector.unregister(asking)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            os.killpg(pid, signal.SIGKILL)

    def answer(self, pid: int, end: int, asking: socket.socket) -> None:
        self.selector.unregister(end)
        os.close(end)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(KeyError):
            self.selector.unregister(asking)
        with suppress(OSError):
            asking.sendall(f"{code}\n".encode())
        asking.close()


if __name__ == "__main__":
    gc.disable()
    for name in IMPORTED:
        __import__(name)
    # Snakemake looks for its plugins in all folders of installed modules, four times a start: half of a small dry run
    iter_modules, installed = pkgutil.iter_modules, list(pkgutil.iter_modules())
    pkgutil.iter_modules = lambda path=None, prefix="": iter_modules(path, prefix) if path else iter(installed)
    # what these set up at the first call takes a second
    sys.modules["numba"].njit(lambda x: x)(1)
    sys.modules["transformers.conversion_mapping"].get_checkpoint_conversion_mapping("qwen2")
    gc.freeze()
    gc.enable()
    assert len(os.listdir("/proc/self/task")) == 1, "a library has started threads"  # noqa: PTH208
    Server(*(socket.socket(fileno=int(number)) for number in sys.argv[1:])).run()
