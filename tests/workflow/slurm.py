"""A real Slurm on this host for as long as a test session lasts: munged, slurmctld and two nodes with two GPUs each.

All of it lives in one folder and on free ports of loopback; the GPUs are character devices that nothing reads. Nodes
claim more than the host has (`config_overrides`), so that the profiles' own requests fit. No cgroups, no accounting
database: memory is watched by sampling, as a cluster without cgroups does.
"""

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from tests.leftovers import environment

CLIENTS = ["sbatch", "srun", "scontrol", "squeue", "scancel", "sinfo", "sacct", "sacctmgr"]
PROGRAMS = ["munged", "slurmctld", "slurmd", *CLIENTS]
INSTALL = "apt-get install slurmctld slurmd slurm-client munge, and run as root"
NODES = ["n1", "n2"]
CONFIG = """\
ClusterName=stagecraft
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
SlurmdTimeout=10
KillWait=60
CompleteWait=0
MinJobAge=3600
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
{nodes}
PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=ALL MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
"""


def missing() -> str | None:
    """The line that says what to install, or None where all is there."""
    if os.geteuid() or not all(shutil.which(name) for name in PROGRAMS):
        return f"needs a Slurm that can be started here: {INSTALL}"
    return None


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


class Slurm:
    """A running cluster. Client programs reach it through wrappers that `start` puts first on the PATH.

    SLURM_CONF alone would not do: Snakemake takes all SLURM_ variables from what a job starts.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.processes: dict[str, subprocess.Popen] = {}

    def configure(self) -> None:
        (self.folder / "state").mkdir()
        ports = free_ports(1 + len(NODES))
        nodes = [
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port}"
            f" CPUs=32 RealMemory=512000 Gres=gpu:a40:2"
            for name, port in zip(NODES, ports[1:], strict=True)
        ]
        (self.folder / "slurm.conf").write_text(
            CONFIG.format(host=socket.gethostname(), ports=ports, folder=self.folder, nodes="\n".join(nodes))
        )
        gpus = []
        for number, name in enumerate(NODES):
            for gpu in range(2):
                device = self.folder / f"{name}.gpu{gpu}"
                os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(195, 2 * number + gpu))
                gpus.append(f"NodeName={name} Name=gpu Type=a40 File={device}\n")
        (self.folder / "gres.conf").write_text("".join(gpus))
        (self.folder / "bin").mkdir()
        for name in CLIENTS:
            program = self.folder / "bin" / name
            program.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {shutil.which(name)} "$@"\n')
            program.chmod(0o755)
        os.environ["PATH"] = f"{self.folder}/bin:{os.environ['PATH']}"
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(1024))

    def start(self) -> None:
        self.configure()
        self.run(
            "munged",
            *("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket"),
            *(f"--key-file={self.folder}/munge.key", f"--log-file={self.folder}/munged.log"),
            *(f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed"),
        )
        self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.start_controller()
        for name in NODES:
            self.start_node(name)
        self.wait(lambda: self.nodes() == dict.fromkeys(NODES, "idle"), "both nodes to be idle")

    def start_controller(self) -> None:
        self.run("slurmctld", "slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))

    def start_node(self, name: str) -> None:
        self.run(name, "slurmd", "-D", "-f", str(self.folder / "slurm.conf"), "-N", name)

    def run(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True)

    def nodes(self) -> dict[str, str]:
        """The state of each node."""
        return dict(line.split() for line in self.ask("sinfo", "-N", "-h", "-p", "cpu", "-o", "%N %T"))

    def ask(self, *words: str) -> list[str]:
        """The lines that a Slurm program prints."""
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout.splitlines()

    def jobs(self, what: str = "") -> list[dict[str, str]]:
        """All jobs that were ever sent, as `scontrol show job` tells them; of rule and wildcards `what`, if given."""
        lines = self.ask("scontrol", "--oneliner", "show", "job")
        rows = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return [job for job in rows if "JobId" in job and job.get("Comment", "").startswith(f"rule_{what}")]

    def wait(self, ready, what: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}; logs in {self.folder}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End all jobs, then the daemons."""
        with suppress(OSError, TimeoutError):
            self.ask("scancel", "--signal=KILL", "--full", "--user", "root")
            self.wait(lambda: not self.ask("squeue", "--noheader"), "the jobs to end", 30)
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
        for process in psutil.process_iter():  # steps that wait for the controller
            with suppress(psutil.Error, OSError):
                if f"SLURM_CONF={self.folder / 'slurm.conf'}" in environment(process):
                    process.kill()
        os.environ["PATH"] = os.environ["PATH"].replace(f"{self.folder}/bin:", "", 1)
