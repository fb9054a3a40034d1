"""Leases on this host's GPUs: jobs of all users and workflows never meet on a card. Runs any command on leased cards:

    python -m scripts.hosts.gpus --machine config/machines/a800.yaml --count 2 python my_own_program.py

The machine file says which cards: `gpus` (how many), `gpu_kind`, `gpu_ids`, `gpu_memory_gib` (the least of one card).

A lease is an flock on one file per card, in a folder that all users share. The job's process holds it and keeps it
through exec, so it ends with the job, however that ends. A card that nobody has leased, but whose memory is in use, is
somebody else's and is passed over. The environment variable STAGECRAFT_GPU_LEASES names another folder.
"""

import argparse
import fcntl
import logging
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pynvml

from scripts.common.cli import UserError, parser, run
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.record import to_dict
from scripts.hosts.openmp import sleep_while_waiting

GIB = 2**30
FOLDER = "/tmp/stagecraft-gpu-leases"
# set by Slurm or by hand: the cards have been chosen
CHOSEN = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
IDLE = 2.0  # GiB in use: a desktop takes less, a job more
POLL, TELL = 0.5, 60.0  # seconds between two looks, and between two lines about them


@dataclass(frozen=True)
class Card:
    """A GPU of this host; `index` is NVML's and, with CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA's."""

    index: int
    uuid: str
    name: str
    memory_gib: float


def cards() -> list[Card]:
    """All GPUs of this host, as NVML (initialized) lists them."""
    handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
    return [
        Card(
            index,
            pynvml.nvmlDeviceGetUUID(handle),
            pynvml.nvmlDeviceGetName(handle),
            pynvml.nvmlDeviceGetMemoryInfo(handle).total / GIB,
        )
        for index, handle in enumerate(handles)
    ]


def busy(card: Card) -> str | None:
    """What a card is busy with, whoever's it is; None where it is idle."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(card.index)
    processes = sorted(process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    if processes:
        return f"busy with process {', '.join(map(str, processes))}"
    # a container does not see the processes of another; version 2 leaves out what the driver keeps for itself
    used = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used / GIB
    return f"{used:.1f} GiB in use" if used > IDLE else None


def named(found: list[Card]) -> str:
    """`4 NVIDIA A800 80GB PCIe (0, 1, 2, 3), 4 NVIDIA A40 (4, 5, 6, 7)`."""
    names = dict.fromkeys(card.name for card in found)
    ids = {name: [str(card.index) for card in found if card.name == name] for name in names}
    return ", ".join(f"{len(ids[name])} {name} ({', '.join(ids[name])})" for name in names) or "no GPU"


def eligible(found: list[Card], machine: dict, count: int) -> list[list[Card]]:
    """The groups of cards of which one must give `count`: cards of one name, those with most memory first.

    Cards that are listed by `gpu_ids` are one group, whatever their names.

    Raises:
        UserError: this host has no such cards, or too few.
    """
    kind, ids, least = machine["gpu_kind"], machine.get("gpu_ids"), machine.get("gpu_memory_gib", 0)
    if missing := set(ids or []) - {card.index for card in found}:
        raise UserError(
            f"machine: gpu_ids: no GPU {', '.join(map(str, sorted(missing)))}; this host has {named(found)}"
        )
    fitting = [
        card
        for card in found
        if (ids is None or card.index in ids)
        and (kind == "auto" or re.search(rf"\b{re.escape(kind)}\b", card.name, re.IGNORECASE))
        and card.memory_gib >= least
    ]
    names = dict.fromkeys(card.name for card in sorted(fitting, key=lambda card: -card.memory_gib))
    groups = [fitting] if ids else [[card for card in fitting if card.name == name] for name in names]
    groups = [group for group in groups if len(group) >= count]
    if not groups:
        wanted = f"{f' of kind {kind}' if kind != 'auto' else ''}{f' with {least} GiB or more' if least else ''}"
        among = f" among {', '.join(map(str, ids))}" if ids else ""
        raise UserError(f"machine: gpus: {count} asked for{wanted}{among}; this host has {named(found)}")
    return groups


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Only one job on this host looks for cards at a time, so that two never hold half of what both need."""
    try:
        folder.mkdir(parents=True)
        folder.chmod(0o1777)  # all users', past the umask
    except FileExistsError:
        pass
    gate = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
    finally:
        os.close(gate)


def opened(path: Path) -> int:
    """A descriptor of a card's lock file. One of another user must be opened without O_CREAT (fs.protected_regular)."""
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.fchmod(descriptor, 0o666)
        return descriptor


def held(descriptor: int) -> str | None:
    """Who holds a card's lock; None where it is now this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return f"leased by {os.pread(descriptor, 4096, 0).decode(errors='replace')}"


def take(folder: Path, groups: list[list[Card]], count: int) -> tuple[list[Card], dict[int, str]]:
    """Lease `count` cards of one group, or none.

    Returns:
        the cards, locked until this process ends; and {index: why it was passed over}.
    """
    why = {}
    with one_at_a_time(folder):
        for group in groups:
            locks: dict[Card, int] = {}
            for card in group:
                descriptor = opened(folder / f"{card.uuid}.lock")
                if reason := held(descriptor) or busy(card):
                    why[card.index] = reason
                    os.close(descriptor)
                    continue
                locks[card] = descriptor
                if len(locks) == count:
                    holder = f"process {os.getpid()} in {Path.cwd()}".encode()
                    for lock in locks.values():
                        os.set_inheritable(lock, True)  # through exec, to torchrun
                        os.ftruncate(lock, 0)
                        os.pwrite(lock, holder, 0)
                    return list(locks), why
            for lock in locks.values():
                os.close(lock)
    return [], why


def wait(folder: Path, groups: list[list[Card]], count: int) -> list[Card]:
    """Lease `count` cards of one group as soon as they are free, with a line a minute about what keeps them."""
    told = -TELL
    while True:
        chosen, why = take(folder, groups, count)
        if chosen:
            return chosen
        if time.monotonic() - told >= TELL:
            told = time.monotonic()
            reasons = "; ".join(f"GPU {index} {reason}" for index, reason in sorted(why.items()))
            logging.info(f"gpus: waiting for {count}: {reasons}")
        time.sleep(POLL)


def lease(machine: dict, count: int) -> None:
    """Wait for `count` cards and set CUDA_VISIBLE_DEVICES, for this process and whatever it becomes by exec.

    Does nothing where Slurm or somebody by hand has chosen the cards; a count of 0 hides them all.

    Raises:
        UserError: there are no such cards, or the folder of the leases cannot be written.
    """
    if any(name in os.environ for name in CHOSEN):
        return
    chosen, folder = [], Path(os.environ.get("STAGECRAFT_GPU_LEASES", FOLDER))
    if count:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise UserError(f"machine: gpus: {count} asked for, this host has none to be seen: {error}") from error
        groups = eligible(cards(), machine, count)
        # rule train's shell ignores it, which is inherited; but a job that waits has nothing to save
        before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            chosen = wait(folder, groups, count)
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}; STAGECRAFT_GPU_LEASES names another folder") from error
        signal.signal(signal.SIGTERM, before)
        pynvml.nvmlShutdown()
        logging.info(f"gpus: {named(chosen)}")
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(card.index) for card in chosen)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--count", type=int, required=True, help="cards; on a machine without GPUs none")
    arguments.add_argument("program")
    arguments.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments")
    given = arguments.parse_args()
    machine = to_dict(load_machine(given.machine))
    lease(machine, min(given.count, machine["gpus"]))
    sleep_while_waiting(machine["gpus"])
    os.execvp(given.program, [given.program, *given.rest])


if __name__ == "__main__":
    run(main)
