"""Find the sandbox mode that isolates generated code on this machine, by trying to break out of it.

    python -m scripts.judge.sandbox.probe

A program in the sandbox tries to reach a listener on this machine's loopback (the only address that is ever tried) and
one on an abstract Unix socket, to write outside /tmp, to see and to end another process, to read an environment
variable, to make a namespace, and to start more processes than allowed. Without bubblewrap, or if an attempt succeeds,
no generated code is run.
"""

import logging
import os
import secrets
import shutil
import socket
from contextlib import closing
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.options import parser
from scripts.judge.sandbox.bubblewrap import MODES, Sandbox
from scripts.judge.sandbox.program import Limits

LIMITS = Limits(seconds=20, memory=512 << 20, processes=32)

# Prints the names of the attempts that succeeded. Runs on any Python 3.
ATTEMPTS = r"""
import ctypes, os, socket, sys, time
port, abstract, process, variable, folder = sys.argv[1:]
def reach(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.settimeout(2)
        tried.connect(address)
def write(path):
    with open(path, "w") as file:
        file.write("x")
def see(process):
    # a namespace numbers its few processes from 1: a higher number is a process outside it
    others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) > 100 or name == process]
    assert others
def fork():
    for _ in range(100):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
def namespace():
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
attempts = {
    "reach this machine's network": lambda: reach(socket.AF_INET, ("127.0.0.1", int(port))),
    "reach this machine's Unix sockets": lambda: reach(socket.AF_UNIX, "\0" + abstract),
    "write to /usr": lambda: write("/usr/attempt"),
    "write to /": lambda: write("/attempt"),
    "write to /dev": lambda: write("/dev/shm/attempt"),
    "see the working folder": lambda: os.listdir(folder),
    "see other processes": lambda: see(process),
    "end another process": lambda: os.kill(int(process), 0),
    "read the environment": lambda: os.environ[variable],
    "make a namespace": namespace,
    "start more processes than allowed": fork,
}
for name, attempt in attempts.items():
    try:
        attempt()
    except Exception:
        continue
    print(name, flush=True)
print("done", flush=True)
os._exit(0)
"""


def succeeded(sandbox: Sandbox) -> list[str]:
    """The attempts that succeeded; none if the sandbox isolates. Raises UserError: the program could not start."""
    name, variable = secrets.token_hex(8), f"STAGECRAFT_{secrets.token_hex(4)}"
    with closing(socket.create_server(("127.0.0.1", 0))) as tcp, closing(socket.socket(socket.AF_UNIX)) as unix:
        unix.bind("\0" + name)
        unix.listen()
        os.environ[variable] = "seen"
        try:
            arguments = [str(tcp.getsockname()[1]), name, str(os.getpid()), variable, str(Path.cwd())]
            program = sandbox.run([*sandbox.python, "-c", ATTEMPTS, *arguments], LIMITS)
        finally:
            del os.environ[variable]
    *successes, last = bytes(program.stdout).decode().splitlines() or [""]
    if last != "done":
        errors = " ".join(bytes(program.stderr).decode(errors="replace").split())[-200:]
        raise UserError(errors or f"killed: {program.killed_for}")
    return successes


def sandbox() -> Sandbox:
    """A sandbox in the first mode that isolates. Raises UserError: no mode does."""
    if not shutil.which("bwrap"):
        raise UserError("evaluation.code: generated code is run only in a sandbox; install bubblewrap (bwrap)")
    reason = ""
    for mode in MODES:
        candidate = Sandbox(mode)
        try:
            successes = succeeded(candidate)
        except UserError as error:
            reason = reason or str(error)
            continue
        if successes:
            raise UserError(f"evaluation.code: the sandbox does not isolate: code in it could {'; '.join(successes)}")
        return candidate
    raise UserError(
        f"evaluation.code: no sandbox can be made here ({reason}); allow user namespaces"
        " (kernel.unprivileged_userns_clone=1, user.max_user_namespaces, an AppArmor profile for bwrap)"
    )


def main() -> None:
    parser(__doc__).parse_args()
    logging.info(f"sandbox: {sandbox().mode}")


if __name__ == "__main__":
    run(main)
