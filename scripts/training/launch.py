"""Start a training module as the machine file says: one process, torchrun on one host, or torchrun on every Slurm node.

    python -m scripts.training.launch --machine config/machines/local.yaml --threads 2 scripts.training.train ARGUMENTS

Under Slurm it runs once per node inside `srun`, where SLURM_NODEID and the node list are set.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from scripts.common.cli import UserError, run
from scripts.common.config import read_machine


def rendezvous() -> str:
    """HOST:PORT for this job: the first node, and a port that follows from the job id, so that jobs never meet.

    Raises:
        UserError: not inside a Slurm job.
    """
    if "SLURM_JOB_NODELIST" not in os.environ:
        raise UserError(
            "the machine file says several nodes: run inside a Slurm job, or start torchrun by hand on each"
        )
    listed = ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]]
    first = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()[0]
    return f"{first}:{20000 + int(os.environ['SLURM_JOB_ID']) % 20000}"


def command(machine: dict, machine_path: Path, threads: int, module: str, arguments: list[str]) -> list[str]:
    """The command line that starts `module` on this machine."""
    here = ["--machine", str(machine_path), "--threads", str(threads), module, *arguments]
    what = ["-m", module, "--machine", str(machine_path), "--threads", str(threads), *arguments]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(max(machine["gpus"], 1))]
    if machine["nodes"] > 1:
        if "SLURM_NODEID" not in os.environ or "SLURM_STEP_ID" not in os.environ:
            tasks = ["--nodes", str(machine["nodes"]), "--ntasks", str(machine["nodes"]), "--ntasks-per-node", "1"]
            return ["srun", *tasks, sys.executable, "-m", "scripts.training.launch", *here]
        nodes = ["--nnodes", str(machine["nodes"]), "--node-rank", os.environ["SLURM_NODEID"]]
        return [*torchrun, *nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", rendezvous(), *what]
    if machine["gpus"] > 1:
        return [*torchrun, "--standalone", *what]
    return [sys.executable, *what]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--threads", type=int, required=True)
    arguments.add_argument("module")
    arguments.add_argument("rest", nargs=argparse.REMAINDER)
    given = arguments.parse_args()
    machine = read_machine(given.machine)
    line = command(machine, given.machine, given.threads, given.module, given.rest)
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    os.environ["PET_SHUTDOWN_TIMEOUT"] = "3600"  # torchrun's: after SIGTERM a step and a checkpoint may take minutes
    if machine["gpus"] == 0:
        os.environ["DS_ACCELERATOR"] = "cpu"  # or DeepSpeed warns that it found no GPU
    sys.stdout.flush()
    os.execvp(line[0], line)


if __name__ == "__main__":
    run(main)
