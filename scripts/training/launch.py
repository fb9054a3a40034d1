"""Start a training module as the machine file says: one process, torchrun on one host, or torchrun on every Slurm node.

    python -m scripts.training.launch --machine config/machines/local.yaml --threads 2 scripts.training.train ARGUMENTS

Under Slurm it runs once per node inside `srun`, where SLURM_NODEID and the node list are set; docs/cluster.md has the
lines to start torchrun by hand. On a host without a queue it leases its GPUs (scripts/hosts/gpus.py).
"""

import argparse
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from scripts.common.cli import UserError, run
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.record import to_dict
from scripts.hosts.gpus import lease
from scripts.hosts.openmp import sleep_while_waiting
from scripts.training.plan import local_ranks

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def meeting_point() -> tuple[str, int]:
    """(address, port) where the hosts of this Slurm step meet: its first node, and a port that follows from the job id.

    Raises:
        UserError: not inside a Slurm job.
    """
    if "SLURM_STEP_NODELIST" not in os.environ:
        raise UserError(
            "the machine file says several nodes: run inside a Slurm job, or start torchrun by hand on each "
            "(docs/cluster.md)"
        )
    listed = ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]]
    first = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()[0]
    shown = ["scontrol", "--oneliner", "show", "node", first]
    facts = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    # NodeAddr is how Slurm's own daemons reach the node; its name need not resolve. The port stays below those that
    # Linux gives out by itself.
    return re.search(r"NodeAddr=(\S+)", facts).group(1), 20000 + int(os.environ["SLURM_JOB_ID"]) % 12000


def threads_each(machine: dict, threads: int) -> int:
    """The threads of a job on one host, shared out over its processes."""
    return max(1, threads // local_ranks(machine))


def command(machine: dict, machine_path: Path, threads: int, module: str, arguments: list[str]) -> list[str]:
    """The command line that starts `module` on this machine."""
    here = ["--machine", str(machine_path), "--threads", str(threads), module, *arguments]
    each = str(threads_each(machine, threads))
    what = ["-m", module, "--machine", str(machine_path), "--threads", each, *arguments]
    torchrun = [*TORCHRUN, "--nproc-per-node", str(local_ranks(machine))]
    if machine["nodes"] > 1:
        nodes = str(machine["nodes"])
        if "SLURM_NODEID" not in os.environ or "SLURM_STEP_ID" not in os.environ:
            # a step inherits neither its job's CPUs per task nor the wish to end when one host fails
            tasks = ["--nodes", nodes, "--ntasks", nodes, "--ntasks-per-node", "1", "--cpus-per-task", str(threads)]
            return ["srun", "--kill-on-bad-exit", *tasks, sys.executable, "-m", "scripts.training.launch", *here]
        address, port = meeting_point()
        place = ["--nnodes", nodes, "--node-rank", os.environ["SLURM_NODEID"]]
        meet = ["--master-addr", address, "--master-port", str(port)]
        return [*torchrun, *place, *meet, "--rdzv-conf", f"timeout={machine['rendezvous_timeout']}", *what]
    if local_ranks(machine) > 1:
        return [*torchrun, "--standalone", *what]
    return [sys.executable, *what]


def elastic(words: list[str]) -> None:
    """Run torchrun in this process, and say in one line how it ended where it did not end well.

    Raises:
        UserError: the hosts did not meet in time.
    """
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    given = parse_args(words)
    try:
        run(given)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        sys.exit(f"rank {rank} on {socket.gethostname()} ended with exit code {failure.exitcode}; its lines are above")
    except SignalException:
        sys.exit(1)  # the ranks have said so
    except DistError as error:
        raise UserError(
            f"{given.master_addr}:{given.master_port}: the hosts did not meet within `rendezvous_timeout` of the "
            f"machine file, or lost each other: {str(error).splitlines()[0]}"
        ) from error


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--threads", type=int, required=True)
    arguments.add_argument("module")
    arguments.add_argument("rest", nargs=argparse.REMAINDER)
    given = arguments.parse_args()
    machine = to_dict(load_machine(given.machine))
    line = command(machine, given.machine, given.threads, given.module, given.rest)
    os.environ["OMP_NUM_THREADS"] = str(threads_each(machine, given.threads))
    os.environ["PET_SHUTDOWN_TIMEOUT"] = "3600"  # torchrun's: after SIGTERM a step and a checkpoint may take minutes
    if machine["gpus"] == 0:
        os.environ["DS_ACCELERATOR"] = "cpu"  # or DeepSpeed warns that it found no GPU
    os.environ.update({name: str(value) for name, value in machine["environment"].items()})
    sleep_while_waiting(machine["gpus"])
    if line[0] != "srun":  # each node's own launcher does
        lease(load_machine(given.machine), machine["gpus"])
    if line[: len(TORCHRUN)] == TORCHRUN:
        elastic(line[len(TORCHRUN) :])
    else:
        sys.stdout.flush()
        os.execvp(line[0], line)


if __name__ == "__main__":
    run(main)
