"""Leases on this host's GPUs: no two jobs, of any user or workflow, use one card. Runs a command on leased cards:

    python -m scripts.hosts.gpus --machine config/machines/a800.yaml --count 2 python my_own_program.py

The machine file says which cards: `gpus` (how many), `gpu_kind`, `gpu_ids`, `gpu_memory_gib` (the least of one card).
With --torch it is first checked that the installed torch can use this host's GPU driver.

A lease is an flock on one file per card, in a folder that all users share. The job's process holds it and keeps it
through exec, so it ends with the job, however that ends. A card without a lease whose memory is in use belongs to
another program and is skipped, as is one that NVML cannot read. The environment variable STAGECRAFT_GPU_LEASES names
another folder.

The folder is locked while a job looks for cards, so that two never hold half of what both need.
"""

import argparse
import fcntl
import logging
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pynvml

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.options import parser
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.machine import Machine
from scripts.hosts.hardware import check_gpu_driver, sleep_while_waiting

VARIABLE = "STAGECRAFT_GPU_LEASES"  # names another folder


def opened(path: Path) -> int:
    """A descriptor of a lock file that all users share. Another user's must be opened without O_CREAT
    (fs.protected_regular)."""
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL)
    except FileExistsError:  # made by another job in this moment
        return opened(path)
    os.fchmod(descriptor, 0o666)
    return descriptor


def holder_of(descriptor: int) -> str | None:
    """Who holds a lock; None where it is now this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return os.pread(descriptor, 4096, 0).decode(errors="replace") or "a process that is just starting"


def sign(descriptor: int) -> None:
    """Write who holds a lock into its file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} in {Path.cwd()}".encode(), 0)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one job of this host look for cards at a time, so that two never hold half of what both need."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # another user's folder
        folder.chmod(0o1777)  # all users', past the umask
    gate = opened(folder / "gate.lock")
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
    finally:
        os.close(gate)


GIB = 2**30
FOLDER = "/tmp/stagecraft-gpu-leases"
# set by Slurm or by hand: the cards are chosen already
CHOSEN = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
IDLE = 2.0  # GiB in use: a desktop takes less, a job more
POLL, REPORT = 0.5, 60.0  # seconds between two looks for cards, and between two lines about them


@dataclass(frozen=True)
class Card:
    """A GPU of this host; `index` is NVML's and, with CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA's."""

    index: int
    uuid: str
    name: str
    memory_gib: float


def cards() -> list[Card]:
    """The GPUs of this host that NVML (initialized) can read; one that it cannot is skipped with a line."""
    readable = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle).total / GIB
            readable.append(Card(index, pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle), memory))
        except pynvml.NVMLError as error:
            logging.warning(f"gpus: GPU {index} skipped, NVML cannot read it: {error}")
    return readable


def busy(card: Card) -> str | None:
    """Why a card cannot be taken although it has no lease; None where it is idle."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(card.index)
        processes = sorted(process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
        # version 2 leaves out what the driver keeps for itself
        used = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used / GIB
    except pynvml.NVMLError as error:
        return f"cannot be read: {error}"
    if processes:
        return f"busy with process {', '.join(map(str, processes))}"
    # the processes of another container are not listed, their memory is
    if used > IDLE:
        return f"{used:.1f} GiB in use"
    return None


def described(cards: list[Card]) -> str:
    """`4 NVIDIA A800 80GB PCIe (0, 1, 2, 3), 4 NVIDIA A40 (4, 5, 6, 7)`."""
    ids: dict[str, list[str]] = {}
    for card in cards:
        ids.setdefault(card.name, []).append(str(card.index))
    return ", ".join(f"{len(numbers)} {name} ({', '.join(numbers)})" for name, numbers in ids.items()) or "no GPU"


def eligible(cards: list[Card], machine: Machine, count: int) -> list[list[Card]]:
    """The groups of cards from one of which `count` are taken: cards of one name, those with most memory first.

    The cards of `gpu_ids` are one group, whatever their names."""
    kind, ids, least = machine.gpu_kind, machine.gpu_ids, machine.gpu_memory_gib or 0
    missing = sorted(set(ids or []) - {card.index for card in cards})
    if missing:
        raise UserError(f"machine: gpu_ids: no GPU {', '.join(map(str, missing))}; this host has {described(cards)}")
    groups: dict[str, list[Card]] = {}
    for card in cards:
        of_kind = kind == "auto" or re.search(rf"\b{re.escape(kind)}\b", card.name, re.IGNORECASE)
        if of_kind and card.memory_gib >= least and (ids is None or card.index in ids):
            groups.setdefault("" if ids else card.name, []).append(card)
    groups = sorted(groups.values(), key=lambda group: -max(card.memory_gib for card in group))
    groups = [group for group in groups if len(group) >= count]
    if not groups:
        of_kind = "" if kind == "auto" else f" of kind {kind}"
        with_memory = ""
        if least:
            with_memory = f" with {least} GiB or more"
        among = ""
        if ids:
            among = f" among {', '.join(map(str, ids))}"
        raise UserError(f"machine: gpus: {count} needed{of_kind}{with_memory}{among}; this host has {described(cards)}")
    return groups


def take(folder: Path, groups: list[list[Card]], count: int) -> tuple[list[Card], dict[int, str]]:
    """Lease `count` cards of one group, or none.

    Returns:
        the cards, locked until this process ends; and {index: why it was skipped}.
    """
    skipped = {}
    with one_at_a_time(folder):
        for group in groups:
            locks: dict[Card, int] = {}
            for card in group:
                descriptor = opened(folder / f"{card.uuid}.lock")
                holder = holder_of(descriptor)
                reason = f"leased by {holder}" if holder else busy(card)
                if reason:
                    skipped[card.index] = reason
                    os.close(descriptor)
                    continue
                locks[card] = descriptor
                if len(locks) == count:
                    for lock in locks.values():
                        os.set_inheritable(lock, True)  # through exec, to torchrun
                        sign(lock)
                    return list(locks), skipped
            for lock in locks.values():
                os.close(lock)
    return [], skipped


def wait(folder: Path, groups: list[list[Card]], count: int) -> list[Card]:
    """Lease `count` cards of one group as soon as they are free, with a line a minute about who holds them."""
    reported = -REPORT
    while True:
        chosen, skipped = take(folder, groups, count)
        if chosen:
            return chosen
        if time.monotonic() - reported >= REPORT:
            reported = time.monotonic()
            reasons = "; ".join(f"GPU {index} {reason}" for index, reason in sorted(skipped.items()))
            logging.info(f"gpus: waiting for {count}: {reasons}")
        time.sleep(POLL)


def lease(machine: Machine, count: int) -> None:
    """Wait for `count` cards and set CUDA_VISIBLE_DEVICES, for this process and whatever it becomes by exec.

    Does nothing where the cards are chosen already, by Slurm or by hand; a count of 0 hides them all.

    Raises:
        UserError: there are no such cards, or the lease folder cannot be used.
    """
    if any(name in os.environ for name in CHOSEN):
        return
    chosen, folder = [], Path(os.environ.get(VARIABLE, FOLDER))
    if count:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise UserError(f"machine: gpus: {count} needed, but no GPU is visible: {error}") from error
        groups = eligible(cards(), machine, count)
        # rule train's shell ignores SIGTERM, and so do its children; but a job that waits has nothing to save
        handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            chosen = wait(folder, groups, count)
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}; {VARIABLE} names another folder") from error
        signal.signal(signal.SIGTERM, handler)
        pynvml.nvmlShutdown()
        logging.info(f"gpus: {described(chosen)}")
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(card.index) for card in chosen)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--count", type=int, required=True, help="cards; on a machine without GPUs none")
    arguments.add_argument("--torch", action="store_true", help="check that torch can use the machine's GPUs")
    arguments.add_argument("program")
    arguments.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments")
    args = arguments.parse_args()
    machine = load_machine(args.machine)
    if args.torch and machine.gpus:
        check_gpu_driver(str(args.machine))
    lease(machine, min(args.count, machine.gpus))
    sleep_while_waiting(machine.gpus)
    os.execvp(args.program, [args.program, *args.rest])


if __name__ == "__main__":
    run(main)
