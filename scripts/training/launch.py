"""Start a training module as one process, by torchrun on one host, or by torchrun on every node of a Slurm job.

    python -m scripts.training.launch --machine config/machines/local.yaml --threads 2 scripts.training.train ARGUMENTS

The machine file decides which. Under Slurm it runs once per node inside `srun`, where SLURM_NODEID and the node list
are set; docs/cluster.md shows how to start torchrun by hand. On a host without a queue it leases its GPUs
(scripts/hosts/gpus.py).
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import MachineFault, UserError
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.machine import Machine
from scripts.hosts.gpus import lease
from scripts.hosts.hardware import check_gpu_driver, sleep_while_waiting
from scripts.training.engine.stage_process import LAUNCHER, stage_parser
from scripts.training.planning.plan_stage import PLAN, plan_as_json, without_auto
from scripts.training.planning.resolved_stage import local_ranks

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
SHUTDOWN_SECONDS = 3600  # after SIGTERM a step and a checkpoint may take minutes; torchrun would give them 30 seconds


def rendezvous_endpoint() -> tuple[str, int]:
    """(address, port) where the hosts of this Slurm step connect: its first node, and a port by the job id."""
    if "SLURM_STEP_NODELIST" not in os.environ:
        raise UserError(
            "`nodes` of the machine file is above 1: run inside a Slurm job, or start torchrun by hand on each node "
            "(docs/cluster.md)"
        )
    hostnames = ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]]
    first = subprocess.run(hostnames, check=True, capture_output=True, text=True).stdout.split()[0]
    node = ["scontrol", "--oneliner", "show", "node", first]
    facts = subprocess.run(node, check=True, capture_output=True, text=True).stdout
    # NodeAddr is how Slurm's own daemons reach the node; its name need not resolve. The port is below Linux's
    # ephemeral ones.
    return re.search(r"NodeAddr=(\S+)", facts).group(1), 20000 + int(os.environ["SLURM_JOB_ID"]) % 12000


def threads_per_rank(machine: Machine, threads: int) -> int:
    """The threads of a job on one host, divided among its processes."""
    return max(1, threads // local_ranks(machine))


def launch_command(machine: Machine, machine_path: Path, threads: int, module: str, arguments: list[str]) -> list[str]:
    """The command line that starts `module` on this machine."""
    own_arguments = ["--machine", str(machine_path), "--threads", str(threads), module, *arguments]
    per_rank = str(threads_per_rank(machine, threads))
    target = ["-m", module, "--machine", str(machine_path), "--threads", per_rank, *arguments]
    ranks = ["--nproc-per-node", str(local_ranks(machine)), "--shutdown-timeout", str(SHUTDOWN_SECONDS)]
    torchrun = [*TORCHRUN, *ranks]
    if machine.nodes > 1:
        nodes = str(machine.nodes)
        if "SLURM_NODEID" not in os.environ or "SLURM_STEP_ID" not in os.environ:
            # a step does not inherit its job's CPUs per task, and does not end by itself when one host fails
            tasks = ["--nodes", nodes, "--ntasks", nodes, "--ntasks-per-node", "1", "--cpus-per-task", str(threads)]
            return [
                "srun",
                "--kill-on-bad-exit",
                *tasks,
                sys.executable,
                "-m",
                "scripts.training.launch",
                *own_arguments,
            ]
        address, port = rendezvous_endpoint()
        node = ["--nnodes", nodes, "--node-rank", os.environ["SLURM_NODEID"]]
        endpoint = ["--master-addr", address, "--master-port", str(port)]
        return [*torchrun, *node, *endpoint, "--rdzv-conf", f"timeout={machine.collective_timeout}", *target]
    if local_ranks(machine) > 1:
        return [*torchrun, "--standalone", *target]
    return [sys.executable, *target]


def run_torchrun(command: list[str]) -> None:
    """Run torchrun in this process; a failure is one line."""
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    args = parse_args(command)
    try:
        run(args)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        failed_rank = f"rank {rank} on {socket.gethostname()}"
        if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:  # SIGTERM comes after another host's fault
            name = signal.Signals(-failure.exitcode).name
            line = f"{failed_rank} was killed by {name}, as the kernel does when memory runs out"
            raise MachineFault(line) from error
        sys.exit(f"{failed_rank} ended with exit code {failure.exitcode}; its error is above")
    except SignalException:
        sys.exit(1)  # the ranks have logged it
    except DistError as error:
        raise MachineFault(
            f"{args.master_addr}:{args.master_port}: the hosts did not connect within `collective_timeout` of the "
            f"machine file, or lost the connection: {str(error).splitlines()[0]}"
        ) from error


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--threads", type=int, required=True)
    arguments.add_argument("module")
    arguments.add_argument("rest", nargs=argparse.REMAINDER)
    args = arguments.parse_args()
    path = args.machine
    if args.module == "scripts.training.train":
        stage = stage_parser().parse_args(args.rest)
        path = without_auto(path, stage)
        os.environ[PLAN] = plan_as_json(path, stage)
    machine = load_machine(path)
    command = launch_command(machine, path, args.threads, args.module, args.rest)
    os.environ["OMP_NUM_THREADS"] = str(threads_per_rank(machine, args.threads))
    if machine.gpus == 0:
        os.environ["DS_ACCELERATOR"] = "cpu"  # or DeepSpeed warns that it found no GPU
    os.environ.update({name: str(value) for name, value in machine.environment.items()})
    sleep_while_waiting(machine.gpus)
    if command[0] != "srun":  # there each node's own launcher does
        if machine.gpus:
            check_gpu_driver(str(args.machine))
        lease(machine, machine.gpus)
    if command[: len(TORCHRUN)] == TORCHRUN:
        os.environ[LAUNCHER] = str(os.getpid())
        run_torchrun(command[len(TORCHRUN) :])
    else:
        sys.stdout.flush()
        os.execvp(command[0], command)


if __name__ == "__main__":
    run(main)
