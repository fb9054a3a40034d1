"""scripts/judge/sandbox/memory_groups.py: memory that belongs to no process, as of sockets, is limited too."""

import os

import pytest

from scripts.judge.sandbox.memory_groups import MemoryGroups
from scripts.judge.sandbox.program import Limits

# Twenty processes whose sockets hold as much as they take, and that need little memory themselves.
SOCKETS = """
import os, socket, sys, time
def fill():
    held = []
    try:
        while True:
            held += socket.socketpair()
            for one in held[-2:]:
                one.setblocking(False)
                try:
                    while True: one.send(b"x" * 65536)
                except BlockingIOError: pass
    except OSError: pass
    print(len(held), flush=True)
    time.sleep(6)
for _ in range(20):
    if not os.fork():
        fill()
        os._exit(0)
time.sleep(7)
"""


def test_the_buffers_of_sockets_count_towards_memory(sandbox):
    if sandbox.groups is None:
        pytest.skip("no cgroup can be made here")
    program = sandbox.run([*sandbox.python, "-c", SOCKETS], Limits(20, 64 << 20, scratch=1 << 20))
    assert program.killed_for == "memory"
    assert not list(sandbox.groups.parent.glob(f"{program.group.folder.name}*"))  # nothing is left behind


def test_what_a_killed_process_of_the_same_number_left_behind_is_passed_over(tmp_path):
    groups = MemoryGroups(tmp_path, second=False)
    number = int(groups.create(1 << 20).folder.name.rpartition("-")[2])
    left_behind = tmp_path / f"stagecraft-{os.getpid()}-{number + 1}"
    left_behind.mkdir()
    made = groups.create(1 << 20).folder
    assert made.name == f"stagecraft-{os.getpid()}-{number + 2}" and not list(left_behind.iterdir())
