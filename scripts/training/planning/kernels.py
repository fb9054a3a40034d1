"""Which attention kernel a stage runs, and whether Liger's: decided from what is installed, without importing torch.

    flash_attention_2   the package flash-attn is installed and the GPU is of compute capability 8 or more
    varlen              else, on such a GPU: PyTorch's own variable-length flash kernel (torch.nn.attention.varlen)
    sdpa                else, and always in float32, which the flash kernels would compute in bf16

The workflow prints `kernels_line` before its first job; a stage decides by the same functions and logs the outcome.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable
from typing import NamedTuple

import pynvml

from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.hosts.hardware import torch_build

FLASH, VARLEN, SDPA = "flash_attention_2", "varlen", "sdpa"
# The fused loss reads the head's weight outside of the head's own forward pass, where it must not be sharded.
UNSHARDED_WEIGHTS = ("none", "zero1", "zero2")
GROUP = "uv pip install --group liger"


class Installed(NamedTuple):
    """Which kernels the packages of this environment bring."""

    flash_attn: bool
    varlen: bool  # a CUDA build of torch 2.10 or newer
    liger: bool


class Choice(NamedTuple):
    """A kernel, or "on" or "off", and why it is not a faster one (empty if it is the fastest)."""

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name


def version_of(package: str) -> tuple[int, ...] | None:
    """The installed version's numbers, e.g. (2, 8, 3); None where it is not installed."""
    try:
        return tuple(map(int, re.findall(r"\d+", importlib.metadata.version(package))[:3]))
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_kernels() -> Installed:
    """What this environment has. A flash-attn before 2.3.3 does not count, as transformers does not use it."""
    torch = torch_build()
    recent = tuple(map(int, torch.version.split("+")[0].split(".")[:2])) >= (2, 10)
    flash = version_of("flash-attn")
    return Installed(
        flash_attn=flash is not None and flash >= (2, 3, 3),
        varlen=recent and torch.cuda is not None,
        liger=importlib.util.find_spec("liger_kernel") is not None,
    )


def choose_attention(capability: tuple[int, int] | None, precision: str, installed: Installed) -> Choice:
    """The fastest attention kernel that GPU, precision and packages allow.

    Args:
        capability: the GPU's compute capability; None without a GPU.
        precision: of the stage, `fp32` or `bf16`.
    """
    if capability is None:
        return Choice(SDPA, "no GPU")
    if precision == "fp32":
        return Choice(SDPA, "precision fp32; flash kernels compute in bf16")
    if capability < (8, 0):
        return Choice(SDPA, f"the GPU's compute capability is {capability[0]}.{capability[1]}; flash kernels need 8.0")
    if installed.flash_attn:
        return Choice(FLASH)
    if installed.varlen:
        return Choice(VARLEN, "PyTorch's own kernel; flash-attn is not installed")
    return Choice(SDPA, "flash-attn is not installed, and this torch has no varlen kernel")


def choose_liger(machine: Machine, installed: bool, known: bool = True) -> Choice:
    """Whether Liger's kernels run: "on" or "off".

    Args:
        known: whether Liger has kernels for the model's architecture.
    """
    if machine.liger is False:
        return Choice("off", "`liger: false` in the machine file")
    if machine.gpus == 0:
        return Choice("off", "needs GPUs")
    if not installed:
        return Choice("off", f"needs the package: `{GROUP}`")
    if not known:
        return Choice("off", "has no kernels for this architecture")
    if machine.liger == "auto" and machine.sharding not in UNSHARDED_WEIGHTS:
        return Choice("off", f"its loss needs whole weights, not {machine.sharding}")
    return Choice("on")


def least_capability() -> tuple[int, int] | None:
    """The smallest compute capability among this host's GPUs; None where NVML finds none."""
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        lowest = min((tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles), default=None)
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
    return lowest


def kernels_line(
    machine: Machine, stages: Iterable[Stage], capability: tuple[int, int] | None, installed: Installed
) -> str:
    """One line about the kernels that the stages will run; it names what each precision uses where they differ.

    Args:
        capability: of this host's GPUs; where they are on other hosts, one that has flash kernels is assumed.
    """
    assumed = capability is None
    precisions = sorted({stage.precision for stage in stages})
    choices = {precision: choose_attention(capability or (8, 0), precision, installed) for precision in precisions}
    attention = ", ".join(
        f"attention {choice}{f' for {precision} stages' if len(choices) > 1 else ''}"
        for precision, choice in choices.items()
    )
    assumption = "; on GPUs of compute capability 8.0 or more" if assumed else ""
    return f"kernels: {attention}, Liger {choose_liger(machine, installed.liger)}{assumption}"
