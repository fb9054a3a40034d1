"""scripts/training/launch.py: one process, torchrun on one host, or one torchrun per Slurm node."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.cli import UserError
from scripts.training.launch import command

PATH = Path("config/machines/a40.yaml")
WHAT = ["-m", "scripts.training.train", "--machine", str(PATH), "--threads", "8", "--stage", "sft"]


def line(nodes: int, gpus: int) -> list[str]:
    return command({"nodes": nodes, "gpus": gpus}, PATH, 8, "scripts.training.train", ["--stage", "sft"])


@pytest.fixture(autouse=True)
def outside_slurm(monkeypatch):
    for name in ("SLURM_NODEID", "SLURM_STEP_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


def test_without_gpus_or_with_one_it_is_one_plain_process():
    assert line(1, 0) == line(1, 1) == [sys.executable, *WHAT]


def test_two_gpus_on_a_host_are_two_ranks_of_torchrun():
    assert line(1, 2) == [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", *WHAT]


def test_several_nodes_start_one_launcher_each_by_srun():
    assert line(4, 2)[:7] == ["srun", "--nodes", "4", "--ntasks", "4", "--ntasks-per-node", "1"]


def test_on_a_node_torchrun_meets_at_the_first_host_and_a_port_of_the_job(monkeypatch, tmp_path):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-4]" ] && printf "n1\\nn2\\nn3\\nn4\\n"\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, value in {"NODEID": "2", "STEP_ID": "0", "JOB_NODELIST": "n[1-4]", "JOB_ID": "41234"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    words = line(4, 2)
    assert words[:5] == [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    assert words[words.index("--node-rank") + 1] == "2"
    assert words[words.index("--rdzv-endpoint") + 1] == "n1:21234"
    assert words[-len(WHAT) :] == WHAT


def test_several_nodes_outside_slurm_are_refused_in_one_line(monkeypatch):
    monkeypatch.setenv("SLURM_NODEID", "0")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    with pytest.raises(UserError, match="run inside a Slurm job"):
        line(4, 2)


def test_the_exit_code_is_that_of_what_it_starts():
    words = ["--machine", "config/machines/local.yaml", "--threads", "1", "scripts.training.plan", "--no-such-option"]
    done = subprocess.run([sys.executable, "-m", "scripts.training.launch", *words], capture_output=True, check=False)
    assert done.returncode == 2
