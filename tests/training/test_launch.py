"""scripts/training/launch.py: one process, torchrun on one host, or one torchrun per Slurm node."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.training.launch import TORCHRUN, launch_command
from tests import forked

PATH = Path("config/machines/a40.yaml")
START = ["-m", "scripts.training.train", "--machine", str(PATH), "--threads"]
WHAT = [*START, "8", "--stage", "sft"]
WHAT_OF_TWO = [*START, "4", "--stage", "sft"]


def line(nodes: int, gpus: int, cpu_ranks: int = 1) -> list[str]:
    machine = Machine(nodes=nodes, gpus=gpus, cpu_ranks=cpu_ranks, micro_batch_size=1, collective_timeout=60)
    return launch_command(machine, PATH, 8, "scripts.training.train", ["--stage", "sft"])


@pytest.fixture(autouse=True)
def outside_slurm(monkeypatch):
    for name in ("SLURM_NODEID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


def test_without_gpus_or_with_one_it_is_one_plain_process():
    assert line(1, 0) == line(1, 1) == [sys.executable, *WHAT]


def test_two_gpus_or_cpu_ranks_on_a_host_are_two_ranks_of_torchrun():
    assert line(1, 2) == line(1, 0, cpu_ranks=2)
    assert line(1, 2) == [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--shutdown-timeout",
        "3600",
        "--standalone",
        *WHAT_OF_TWO,
    ]


def test_several_nodes_start_one_launcher_each_by_srun_with_all_cores_of_the_job():
    words = line(4, 2)
    assert words[:10] == [
        *(
            "srun",
            "--kill-on-bad-exit",
            "--nodes",
            "4",
            "--ntasks",
            "4",
            "--ntasks-per-node",
            "1",
            "--cpus-per-task",
            "8",
        )
    ]


@pytest.fixture
def node(monkeypatch, tmp_path):
    """Be the third of the nodes n1 to n4 of job 41234; Slurm reaches n1 at 127.0.0.1."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        '"show hostnames n[1-4]") printf "n1\\nn2\\nn3\\nn4\\n" ;;\n'
        '"--oneliner show node n1") echo "NodeName=n1 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=n1" ;;\n'
        "*) exit 1 ;;\nesac\n"
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, value in {"NODEID": "2", "STEP_ID": "0", "STEP_NODELIST": "n[1-4]", "JOB_ID": "41234"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)


def test_on_a_node_torchrun_connects_to_the_first_host_and_a_port_of_the_job(node):
    words = line(4, 2)
    assert words[:5] == [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    pairs = dict(pairwise(words))
    assert (pairs["--nnodes"], pairs["--node-rank"]) == ("4", "2")
    assert (pairs["--master-addr"], pairs["--master-port"]) == ("127.0.0.1", "25234")
    assert pairs["--rdzv-conf"] == "timeout=60"
    assert words[-len(WHAT) :] == WHAT_OF_TWO


@pytest.mark.slow
def test_ranks_have_an_hour_to_save_a_checkpoint_after_sigterm(monkeypatch):
    """As torchrun's own parser and its agent's configuration understand the command line."""
    from torch.distributed.run import config_from_args, parse_args

    monkeypatch.delenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", raising=False)
    words = line(1, 2)
    assert words[:3] == TORCHRUN
    config, _, _ = config_from_args(parse_args(words[3:]))
    assert config.shutdown_timeout == 3600


@pytest.mark.slow
@pytest.mark.parametrize("number", ["0", "1"])
def test_hosts_that_do_not_connect_in_time_are_one_line_errors(node, monkeypatch, tmp_path, number):
    """The first waits for the others, the others for the first."""
    monkeypatch.setenv("SLURM_NODEID", number)
    machine = tmp_path / "machine.yaml"
    machine.write_text("nodes: 4\ngpus: 0\ncpu_ranks: 2\nmicro_batch_size: 1\ncollective_timeout: 2\n")
    words = ["--machine", str(machine), "--threads", "1", "scripts.training.plan"]
    done = subprocess.run(
        [forked.python(), "-m", "scripts.training.launch", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    says = "fault: 127.0.0.1:25234: the hosts did not connect within `collective_timeout` of the machine file"
    assert done.stderr.splitlines()[-1].startswith(says), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_rank_that_dies_is_named_and_not_buried_in_a_traceback(tmp_path):
    machine = tmp_path / "machine.yaml"
    machine.write_text("nodes: 1\ngpus: 0\ncpu_ranks: 2\nmicro_batch_size: 1\n")
    words = ["--machine", str(machine), "--threads", "2", "scripts.training.plan", "--no-such-option"]
    done = subprocess.run(
        [forked.python(), "-m", "scripts.training.launch", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(r"rank [01] on \S+ ended with exit code 2; its error is above", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr


def test_several_nodes_outside_slurm_are_refused_in_one_line(monkeypatch):
    monkeypatch.setenv("SLURM_NODEID", "0")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    with pytest.raises(UserError, match="run inside a Slurm job"):
        line(4, 2)


def test_the_exit_code_is_that_of_the_process_it_starts():
    words = ["--machine", "config/machines/local.yaml", "--threads", "1", "scripts.training.plan", "--no-such-option"]
    done = subprocess.run([sys.executable, "-m", "scripts.training.launch", *words], capture_output=True, check=False)
    assert done.returncode == 2
