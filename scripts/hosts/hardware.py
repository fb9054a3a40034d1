"""What this host has: its CPU, its GPU driver, and whether the installed torch can use that driver.

Neither torch nor CUDA is loaded: torch's CUDA version is read from its version.py, the driver's from NVML. So the check
takes no time when a workflow starts, nor in a job.
"""

import importlib.util
import os
import re
from pathlib import Path
from typing import NamedTuple

import pynvml

from scripts.common.errors import UserError

# The least driver for each major version of CUDA, any minor one (NVIDIA, "CUDA minor version compatibility").
LEAST_DRIVER = {12: "525", 13: "580"}


class Driver(NamedTuple):
    """A GPU driver: its version, and the newest CUDA version that it supports."""

    version: str
    cuda: tuple[int, int]


class TorchBuild(NamedTuple):
    """The installed torch: its version, and the CUDA version that it was built for (None: for the CPU alone)."""

    version: str
    cuda: tuple[int, int] | None


def cpu_model() -> str | None:
    """The name of this host's CPU as Linux gives it; None where it gives none."""
    name = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return name and name.group(1)


def cpu_precision() -> str:
    """The precision in which this host's CPU trains faster: bf16 where it multiplies such numbers, else fp32."""
    if re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", Path("/proc/cpuinfo").read_text()):
        return "bf16"
    return "fp32"


def gpu_driver() -> Driver | None:
    """This host's GPU driver; None where there is none."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()  # 13010 is 13.1
    version = pynvml.nvmlSystemGetDriverVersion()
    pynvml.nvmlShutdown()
    return Driver(version, (cuda // 1000, cuda % 1000 // 10))


def torch_build() -> TorchBuild:
    """The installed torch, without importing it."""
    text = Path(importlib.util.find_spec("torch").origin).with_name("version.py").read_text()
    version = re.search(r"^__version__ = '(.+)'", text, re.MULTILINE).group(1)
    cuda = re.search(r"^cuda: .* = '(\d+)\.(\d+)", text, re.MULTILINE)
    return TorchBuild(version, cuda and (int(cuda.group(1)), int(cuda.group(2))))


def check_gpu_driver(machine: str, elsewhere: bool = False) -> str | None:
    """Check that the installed torch can use the GPU driver of this host.

    Args:
        machine: the machine file, for errors.
        elsewhere: the jobs run on other hosts, so this one may be without a driver.

    Returns:
        a line for the log if the check is left to the jobs.

    Raises:
        UserError: torch is built without CUDA, or for a newer CUDA than the driver supports, or there is no driver.
    """
    torch, driver = torch_build(), gpu_driver()
    if torch.cuda is None:
        raise UserError(
            f"torch {torch.version} is built without CUDA, and {machine} has `gpus`: install a CUDA build "
            "(docs/quickstart.md), or use a machine file with `gpus: 0`"
        )
    major, minor = torch.cuda
    least = f"GPU driver {LEAST_DRIVER.get(major, f'for CUDA {major}')} or newer"
    if driver is None:
        if not elsewhere:
            raise UserError(f"no GPU driver on this host, and {machine} has `gpus`; torch needs {least}")
        return f"no GPU driver on this host; each job checks that its host has {least}"
    if driver.cuda[0] < major:
        raise UserError(
            f"torch {torch.version} is built for CUDA {major}.{minor} and needs {least}, this host has "
            f"{driver.version} (CUDA {driver.cuda[0]}.{driver.cuda[1]}): update it, or install torch for CUDA "
            f"{driver.cuda[0]} (docs/quickstart.md)"
        )
    return None


def sleep_while_waiting(gpus: int) -> None:
    """Set `GOMP_SPINCOUNT=0` for what this process starts, on a machine without GPUs; a user's own setting stays.

    libgomp reads it when torch loads it, so a process that has imported torch already is not changed.
    """
    if gpus == 0 and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "0")
