"""A cgroup for each running program, where this machine lets us make one: its limit counts all memory, also sockets'.

    groups = MemoryGroups.of_this_machine()  # None where none can be made
    group = groups.create(512 << 20)
    group.command(["bwrap", ...])         # starts in the group
    group.remove()                        # whether its limit killed a process

The sum over processes in program.py sees their resident memory only. What the kernel holds for them, as the buffers of
sockets, a cgroup counts too. Both versions of cgroups serve.
"""

import contextlib
import itertools
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

NUMBERS = itertools.count()
REMOVALS = 100  # tries to remove a group, 5 ms apart


@dataclass(frozen=True)
class MemoryGroup:
    """One group."""

    folder: Path

    def command(self, command: list[str]) -> list[str]:
        """The command, so that it starts in the group."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def remove(self) -> bool:
        """Whether the limit killed a process; the group is removed once its processes are gone."""
        killed = False
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                lines = (self.folder / name).read_text().splitlines()
                killed |= any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in lines)
        for _ in range(REMOVALS):
            try:
                self.folder.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:  # its last processes are still ending
                time.sleep(0.005)
        return killed


@dataclass(frozen=True)
class MemoryGroups:
    """Makes groups.

    Attributes:
        parent: the folder below which they lie.
        second: whether it is of cgroups' second version.
    """

    parent: Path
    second: bool

    @classmethod
    def of_this_machine(cls) -> "MemoryGroups | None":
        """What makes groups on this machine; None if the kernel, or its administrator, lets us make none."""
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
                if (controllers == "" and root.endswith("cgroup")) or (
                    controllers == "memory" and root[-6:] == "memory"
                ):
                    for parent in (Path(root + path), Path(root)):
                        groups = cls(parent, controllers == "")
                        with contextlib.suppress(OSError):
                            trial = groups.create(64 << 20)
                            entered = subprocess.run(trial.command(["/bin/true"]), capture_output=True).returncode == 0
                            trial.remove()
                            if entered:
                                return groups
        return None

    def create(self, limit: int) -> MemoryGroup:
        """A group with a limit in bytes. Raises OSError: it cannot be made."""
        for number in NUMBERS:
            folder = self.parent / f"stagecraft-{os.getpid()}-{number}"
            # a process of the same number, which was killed, may have left one behind
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                break
        try:
            (folder / ("memory.max" if self.second else "memory.limit_in_bytes")).write_text(str(limit))
            for swap in ("memory.swap.max",) if self.second else ():
                with contextlib.suppress(OSError):
                    (folder / swap).write_text("0")
        except OSError:
            folder.rmdir()
            raise
        return MemoryGroup(folder)
