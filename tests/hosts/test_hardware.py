"""scripts/hosts/hardware.py: a torch that cannot use the GPU driver is refused in one line, without importing torch."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.hosts.hardware import cpu_model, torch_build

CUDA_13 = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"
CUDA_12 = "__version__ = '2.13.0+cu128'\ncuda: Optional[str] = '12.8'\n"
CPU = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
OLD, NEW = "550.54.14 12040", "580.65.06 13000"


def on_host(folder: Path, torch: str, driver: str | None) -> dict[str, str]:
    """The environment of a host with this GPU driver, and a torch with this version.py that must not be imported."""
    (folder / "torch").mkdir()
    (folder / "torch/version.py").write_text(torch)
    (folder / "torch/__init__.py").write_text("raise SystemExit('torch was imported')\n")
    fake_gpu = {"FAKE_NVML": "[]", "FAKE_DRIVER": driver} if driver else {}
    return {**os.environ, "PYTHONPATH": f"{Path(__file__).parent / 'nvml'}:{folder}:{Path.cwd()}", **fake_gpu}


def launch(folder: Path, gpus: int, job: str = "train", **host) -> subprocess.CompletedProcess:
    """Start a job's module, a program that prints `started`, on a machine with so many GPUs, as a rule does."""
    (folder / "machine.yaml").write_text(yaml.safe_dump({"nodes": 1, "gpus": gpus, "micro_batch_size": 1}))
    (folder / "stage.py").write_text("print('started')\n")
    words = ["-m", "scripts.training.launch", "--machine", folder / "machine.yaml", "--threads", "1", "stage"]
    if job == "evaluate":
        program = [sys.executable, "-m", "stage"]
        words = ["-m", "scripts.hosts.gpus", "--torch", "--machine", folder / "machine.yaml", "--count", "1", *program]
    environment = {**on_host(folder, **host), "CUDA_VISIBLE_DEVICES": "0"}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("torch", "driver", "line"),
    [
        (
            CUDA_13,
            OLD,
            r"torch 2.13.0\+cu130 is built for CUDA 13.0 and needs GPU driver 580 or newer, this host has 550",
        ),
        (CPU, NEW, r"torch 2.13.0\+cpu is built without CUDA, and .*/machine.yaml has `gpus`: install a CUDA build"),
        (
            CUDA_12,
            None,
            r"no GPU driver on this host, and .*/machine.yaml has `gpus`; torch needs GPU driver 525 or newer",
        ),
    ],
)
@pytest.mark.parametrize("job", ["train", "evaluate"])
def test_a_job_whose_torch_cannot_use_the_gpu_driver_is_refused_in_one_line(tmp_path, job, torch, driver, line):
    done = launch(tmp_path, 1, job, torch=torch, driver=driver)
    assert done.returncode == 1 and not done.stdout
    assert re.fullmatch(f"error: {line}.*\n", done.stderr), done.stderr


@pytest.mark.parametrize(("torch", "driver"), [(CUDA_13, NEW), (CUDA_12, NEW), (CUDA_12, OLD)])
def test_a_newer_driver_runs_an_older_cuda(tmp_path, torch, driver):
    done = launch(tmp_path, 1, torch=torch, driver=driver)
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


@pytest.mark.parametrize("job", ["train", "evaluate"])
def test_a_machine_without_gpus_needs_no_driver(tmp_path, job):
    done = launch(tmp_path, 0, job, torch=CPU, driver=None)
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


def test_a_login_node_without_a_driver_leaves_the_check_to_the_jobs(tmp_path):
    check = "from scripts.hosts.hardware import check_gpu_driver; print(check_gpu_driver('m.yaml', elsewhere=True))"
    host = on_host(tmp_path, CUDA_13, None)
    done = subprocess.run([sys.executable, "-c", check], env=host, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("no GPU driver on this host; each job checks"), done.stderr


@pytest.mark.slow
def test_the_build_that_is_read_is_the_one_that_torch_gives_once_imported():
    show = "import torch; print(torch.__version__, torch.version.cuda)"
    version, cuda = subprocess.run(
        [sys.executable, "-c", show], capture_output=True, text=True, check=True
    ).stdout.split()
    assert torch_build() == (version, None if cuda == "None" else tuple(map(int, cuda.split("."))))


def test_the_cpu_is_named_as_lscpu_names_it():
    shown = subprocess.run(["lscpu"], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    assert f"Model name: {cpu_model()}" in re.sub(r" +", " ", shown.stdout)
