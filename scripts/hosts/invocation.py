"""How Snakemake was called: its targets, and whether it runs jobs; as its own parser reads it, profiles included."""

import contextlib
import datetime
import difflib
import fcntl
import io
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.common.disk import disk_errors
from scripts.common.errors import UserError
from scripts.common.process import this_process

INNER = "STAGECRAFT_INNER_RUN"  # set in the environment of a Snakemake that this one starts and waits for
TOUCHES = "STAGECRAFT_TOUCHES"  # set by `stagecraft publish`, which hashed what it lets Snakemake touch
# options with which Snakemake prints or tidies something and runs no job
NO_JOBS = (
    *("dryrun", "unlock", "lint", "report", "summary", "detailed_summary", "archive", "containerize"),
    *("list_rules", "list_target_rules", "list_input_changes", "list_params_changes", "list_untracked"),
    *("dag", "rulegraph", "filegraph", "d3dag", "print_compilation", "cleanup_metadata", "cleanup_shadow"),
    *("delete_all_output", "delete_temp_output", "list_conda_envs", "conda_cleanup_envs", "generate_unit_tests"),
)


@dataclass(frozen=True)
class Invocation:
    """A command line of Snakemake; `options` are its words without the targets."""

    targets: list[str]
    options: list[str]
    runs_jobs: bool
    dry_run: bool
    touch_or_all: bool  # nothing is made, or everything
    locks: bool  # not with --nolock
    inner: bool  # started by another one, which holds the folder

    @property
    def remakes(self) -> bool:
        """Whether missing files may be made again before, or in a dry run be named."""
        return (self.runs_jobs or self.dry_run) and not self.touch_or_all


def read_invocation(words: list[str] | None = None) -> Invocation:
    """The command line of this process, or of `words`. Raises UserError: it has `--touch`, which would say of old
    results that today's settings made them."""
    from snakemake.cli import parse_args

    if words is None:
        words = sys.argv[1:]
    with contextlib.redirect_stderr(io.StringIO()):  # it says again which profiles it uses
        _, args = parse_args(words)
    if args.touch and TOUCHES not in os.environ:
        raise UserError(
            "--touch: it would say of results that today's settings and code made them; run without it, which makes"
            " only what changed, or see `stagecraft accept`"
        )
    targets = [str(target) for target in args.targets]
    return Invocation(
        targets=targets,
        options=[word for word in words if word not in targets],
        runs_jobs=not any(getattr(args, name, None) for name in NO_JOBS),
        dry_run=bool(args.dryrun),
        touch_or_all=bool(args.touch or args.forceall),
        locks=not args.nolock,
        inner=INNER in os.environ,
    )


def check_targets(workflow, targets: list[str]) -> None:
    """Check that a rule of this name, or one that makes this file, exists for each target. Raises UserError: none does;
    the line names the closest rule or target."""
    names = [rule.name for rule in workflow.rules]
    for target in targets:
        if target in names or Path(target).exists() or any(rule.is_producer(target) for rule in workflow.rules):
            continue
        files = []
        for rule in workflow.rules:
            for file in rule.output:
                if "{" not in str(file):
                    files.append(str(file))
        close = difflib.get_close_matches(target, [*names, *files], 1)
        end = f"did you mean {close[0]}?" if close else f"rules: {', '.join(names)}"
        raise UserError(f"{target}: no rule has this name or makes this file with this experiment; {end}")


OWNER = Path(".snakemake/owner.json")
LOCKS = Path(".snakemake/locks")
RUN = "STAGECRAFT_RUN"  # set in the environment of all jobs of a run: its owner's process id and start
SECONDS = 2  # between two looks at the jobs of a run that is dead
ROOM = 1 << 20  # bytes that must be free for Snakemake's log and records: of a job some kB
UNLOCK = "snakemake --unlock"


def this_owner() -> dict[str, str | int]:
    """What the owner's file says of this process."""
    return {**this_process(), "since": datetime.datetime.now().isoformat(sep=" ", timespec="seconds")}


def described(owner: dict) -> str:
    return f"process {owner['pid']} on {owner['host']}, started {owner['since']}"


def read_owner(descriptor: int) -> dict:
    """The last owner; an empty one where there was none, or where it was killed while it wrote this."""
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    if isinstance(owner, dict) and {"pid", "host", "boot", "since"} <= owner.keys():
        return owner
    return {}


def write_owner(descriptor: int, owner: dict) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def hold_folder(locks: bool = True) -> None:
    """Hold the working folder until this process ends, and remove what a killed Snakemake left in it.

    Args:
        locks: whether Snakemake locks (not with `--nolock`): else another one that is alive is no obstacle.

    Raises:
        UserError: another Snakemake works here, or may do so; or the folder's `.snakemake` cannot be written.
    """
    descriptor = open_owner()
    earlier_owner = read_owner(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not locks:
            return
        holder = "a process that is just starting"
        if earlier_owner:
            holder = described(earlier_owner)
        raise UserError(f"another Snakemake works in this folder: {holder}; wait for it, or end it there") from None
    except OSError:
        return  # a file system without flock: Snakemake's own lock is all there is
    owner = this_owner()
    if locks and any(LOCKS.glob("*.lock")):
        if not earlier_owner or earlier_owner["boot"] != owner["boot"]:
            holder = "a Snakemake that did not say which"
            if earlier_owner:
                holder = described(earlier_owner)
            raise UserError(f"this folder is locked by {holder}; if that is no longer running: {UNLOCK}")
        for lock in LOCKS.glob("*.lock"):
            lock.unlink(missing_ok=True)
        print(f"unlocked: the lock was left by {described(earlier_owner)}, which was killed", file=sys.stderr)
    if earlier_owner and earlier_owner["boot"] == owner["boot"]:
        wait_for_jobs(run_of(earlier_owner))
    write_owner(descriptor, owner)
    os.environ[RUN] = run_of(owner)


def hold_results(file: Path) -> None:
    """Hold a results root until this process ends: checkouts, and hosts with one file system, may share it.

    Args:
        file: of the root, which says who holds it; the lock on it ends with its process, however that ends.

    Raises:
        UserError: another run works there; or the root cannot be written.
    """
    with disk_errors(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = read_owner(descriptor)
        holder = "a run that is just starting"
        if owner:
            holder = f"{described(owner)} in {owner.get('folder')}"
        raise UserError(
            f"{file.parent.parent}: another run works on these results: {holder}; wait for it, end it there, or give"
            " this experiment another `results`"
        ) from None
    except OSError:
        return  # a file system without flock
    write_owner(descriptor, {**this_owner(), "folder": str(Path.cwd())})


def open_owner() -> int:
    """A descriptor of the owner's file."""
    with disk_errors(OWNER.parent):
        OWNER.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=OWNER.parent, buffering=0) as probe:
            written = probe.write(bytes(ROOM))
            if written < ROOM:
                probe.write(bytes(ROOM - written))  # fails with the reason
        return os.open(OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def run_of(owner: dict) -> str:
    return f"{owner['pid']} {owner['since']}"


def jobs_of(run: str) -> dict[int, str]:
    """Process id → module, of the scripts on this host that a run started and that are still running."""
    import psutil  # only after a kill

    running = {}
    for process in psutil.process_iter(["environ", "cmdline"]):
        environment = process.info["environ"] or {}  # None of another user's process
        modules = [word for word in process.info["cmdline"] or [] if word.startswith("scripts.")]
        # a job in Slurm's queue is waited for there
        if environment.get(RUN) == run and "SLURM_JOB_ID" not in environment and modules:
            running[process.pid] = modules[-1]
    return running


def wait_for_jobs(run: str) -> None:
    """Wait for the scripts that a killed Snakemake left running: another one of each would write the same files."""
    import psutil  # only after a kill

    shown = {}
    processes = []
    while jobs := jobs_of(run):
        if jobs != shown:
            named = ", ".join(f"{pid} ({module})" for pid, module in jobs.items())
            ids = " ".join(map(str, jobs))
            print(f"waiting for jobs of an earlier run: {named}; to end them: kill {ids}", file=sys.stderr)
            shown = jobs
            processes = [process for process in psutil.process_iter() if process.pid in jobs]
        time.sleep(SECONDS)
    # a process that is ending has no environment any longer, and for seconds may still hold its files and its GPU
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(SECONDS / 10)
