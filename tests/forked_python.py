"""What `forked.python()` runs: hand a program to the process of tests/forked.py, and be in its place until its end.

    python -IS tests/forked_python.py FOLDER REAL_PYTHON -m snakemake ...

Snakemake started so puts the folder of its Python first on the PATH of its jobs, so that they come here too. Signals
are handed on, and the exit code, or the signal that ended the program, is this process's own. Anything but a program of
this project, Snakemake, DVC or torchrun is started really, and so are these where a variable differs that Python or a
library reads when it starts.
"""

import json
import os
import signal
import socket
import sys

# what changes a program when it starts, or one of the libraries when it is imported
READ_EARLY = ("PYTHON", "LD_", "HF_", "TRANSFORMERS_", "NUMBA_", "MPL", "FAKE_")  # the last: another torch, too
# lm_eval sets one of these when a test imports it; they are about downloads, and no test makes one
NOT_READ = ("HF_XET_", "PYTHONPATH")  # the last is put into a fork's path, too
HANDED_ON = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]


def early(environment: dict) -> dict:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_EARLY) and not name.startswith(NOT_READ)
    }


def forkable(words: list, folder: str) -> bool:
    """Whether a command line, without Python itself, is that of a program that the forked process has imported."""
    if words[:1] == ["-m"]:
        known = words[1].startswith("scripts.") or words[1] in ("snakemake", "dvc", "torch.distributed.run")
    else:
        known = words[:1] == ["-c"]
    if not known:
        return False
    with open(f"{folder}/environment.json") as file:  # noqa: PTH123 - pathlib takes longer to import than this runs
        return early(json.load(file)) == early(os.environ)


def main() -> int:
    folder, python, *words = sys.argv[1:]
    if words[:1] == ["-u"]:  # of torchrun
        words.pop(0)
    if not forkable(words, folder):
        os.execv(python, [python, *sys.argv[3:]])
    ignored = [number for number in HANDED_ON if signal.getsignal(number) == signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)  # until it is known to whom
    os.umask(umask := os.umask(0))
    request = {"words": words, "env": dict(os.environ), "cwd": os.getcwd(), "umask": umask}  # noqa: PTH109
    request |= {"python": f"{folder}/bin/python", "parent": os.getppid(), "ignored": ignored}
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{folder}/socket")
    text = json.dumps(request).encode()
    socket.send_fds(server, [len(text).to_bytes(8)], [0, 1, 2])
    server.sendall(text)
    answer = server.makefile("r")
    pid = int(answer.readline())
    for number in HANDED_ON:
        if number not in ignored:
            signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
    code = int(answer.readline())
    if code < 0:
        if -code in HANDED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    os._exit(main())
