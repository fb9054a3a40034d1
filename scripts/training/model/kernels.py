"""Which attention kernel a stage runs, and whether its layers are compiled: decided without torch.

    varlen              on a GPU of compute capability 8 or more: PyTorch's flash kernel for rows of several documents
    flex_attention      on such a GPU where varlen is wrong for the model: it knows caps and sinks
    sdpa                else, and always in float32, which the flash kernel would compute in bf16
    eager               where no other one is right

What is wrong for a model is tried on a tiny twin of it, in a child process (scripts/training/model/kernel_trials.py),
and cached. Any architecture that transformers knows is tried like this; nothing here or there names one.
The workflow prints `kernels_line` before its first job; a stage decides by the same functions and logs the outcome.
"""

import hashlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from os import environ
from pathlib import Path
from typing import NamedTuple

import pynvml

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.experiment.layout import architecture_file
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import Record, parse_json
from scripts.experiment.settings.training import Stage

MODEL = Path(__file__).parent
# The names without `.py`: a file that code names counts in fingerprints as a whole, and of these only what is reached.
CODE = tuple(MODEL / f"{name}.py" for name in ("kernel_trials", "attention", "chunked_loss"))
PACKAGES = ("torch", "transformers")
ALL_LINEAR = "all-linear"
RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")  # of a rank that asks: the trials are one process
UNUSED = ("_name_or_path", "dtype", "torch_dtype", "transformers_version", "use_cache")  # training changes the last


class Architecture(Record):
    """The outcome of the trials.

    Attributes:
        wrong: kernel → why it is not right on packed rows; empty where it is right.
        wrong_unpacked: the same with one document in a row.
        linear: names of the linear layers that can get an adapter.
        own_loss: why the model must compute its loss itself, and not in chunks; empty if it need not.
        no_dropout: why adapters on all of these cannot have dropout; empty if they can.
    """

    model_type: str
    wrong: dict[str, str]
    wrong_unpacked: dict[str, str]
    linear: list[str]
    own_loss: str
    no_dropout: str

    def wrong_kernels(self, settings: Stage) -> dict[str, str]:
        """`wrong`, for the rows that a stage trains on."""
        if settings.packing:
            return self.wrong
        return self.wrong_unpacked


def unknown_target(targets: list[str] | str, known: list[str]) -> str | None:
    """The first of a stage's `lora.targets` that is none of a model's linear layers, `known`; None if each is one."""
    if targets == ALL_LINEAR:
        return None if known else targets
    return next((target for target in targets if target not in known), None)


def architecture(folder: Path) -> Architecture:
    """The architecture of the model whose config.json is in `folder`. Raises UserError: transformers cannot make a
    model of it."""
    config = {name: value for name, value in read_json(folder / "config.json").items() if name not in UNUSED}
    versions = [importlib.metadata.version(name) for name in PACKAGES]
    text = json.dumps([config, versions, [path.read_text() for path in CODE]], sort_keys=True)
    cached = architecture_file(hashlib.sha256(text.encode()).hexdigest()[:16])
    if not cached.exists():
        command = [sys.executable, "-m", "scripts.training.model.kernel_trials"]
        alone = {name: value for name, value in environ.items() if name not in RANK}
        quiet = {**alone, "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
        given = json.dumps(str(folder))
        done = subprocess.run(command, input=given, capture_output=True, text=True, env=quiet, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1].split(". ")[0]
            kind = config.get("model_type", "this architecture")
            raise UserError(
                f"training.base.model: {folder}: no small copy of {kind} could be made to try it on: {last};"
                " use another base model"
            )
        write_json(cached, json.loads(done.stdout.splitlines()[-1]))
    return parse_json(Architecture, cached.read_text())


VARLEN, FLEX, SDPA, EAGER = "varlen", "flex_attention", "sdpa", "eager"
FLASH_CAPABILITY = (8, 0)  # the least that runs varlen; assumed of GPUs that are on another host
# A loss in chunks reads the head's weight outside of the head's own forward pass, where it must not be sharded.
UNSHARDED_WEIGHTS = ("none", "zero2")
# Tokens whose logits exist at a time, where the loss is computed in chunks. A compiled loss holds logits and gradient
# in bf16, any other one a copy in float32 too: twice as many tokens take the same memory.
CHUNK, COMPILED_CHUNK = 1024, 2048


class Choice(NamedTuple):
    """A kernel, or "on" or "off", and why it is not a faster one (empty if it is the fastest)."""

    name: str
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name} ({self.reason})"
        return self.name


def possible_attention(capability: tuple[int, int] | None, precision: str) -> list[Choice]:
    """The attention kernels that GPU and precision allow, the fastest first; arguments as below."""
    if capability is None:
        reason = "no GPU"
    elif precision == "fp32":
        reason = "precision fp32; the flash kernel computes in bf16"
    elif capability < FLASH_CAPABILITY:
        reason = f"the GPU's compute capability is {capability[0]}.{capability[1]}; the flash kernel needs 8.0"
    else:
        return [Choice(VARLEN), Choice(FLEX), Choice(SDPA), Choice(EAGER)]
    return [Choice(SDPA, reason), Choice(EAGER, reason)]


def choose_attention(
    capability: tuple[int, int] | None, precision: str, wrong: Mapping[str, str] | None = None
) -> Choice:
    """The fastest attention kernel that GPU and precision allow, and that is right for the model.

    Args:
        capability: the GPU's compute capability; None without a GPU.
        precision: of the stage, `fp32` or `bf16`.
        wrong: kernel → why it is wrong for the model, empty if it is right; every kernel is right by default.

    Raises:
        UserError: none is right.
    """
    faster = []
    for choice in possible_attention(capability, precision):
        reason = (wrong or {}).get(choice.name, "")
        if not reason:
            if faster:
                return choice._replace(reason="; ".join(faster))
            return choice
        faster.append(f"not {choice.name}: {reason}")
    raise UserError("; ".join(faster))


def stage_attention(
    architecture: Architecture, name: str, settings: Stage, capability: tuple[int, int] | None
) -> Choice:
    """The attention kernel of a stage that starts from a model of this architecture; arguments as above. Raises
    UserError: the stage would not train on its documents, or train nothing; the line says what works."""
    key, kind = f"training.train.{name}", architecture.model_type
    if settings.method == "lora" and (unknown := unknown_target(settings.lora.targets, architecture.linear)):
        raise UserError(
            f"{key}.lora.targets: no linear layer {unknown!r} in {kind}; use `all-linear`, or some of"
            f" {', '.join(architecture.linear)}"
        )
    everywhere = settings.method == "lora" and settings.lora.targets == ALL_LINEAR
    if everywhere and settings.lora.dropout and architecture.no_dropout:
        raise UserError(
            f"{key}.lora.dropout: adapters on all linear layers of {kind} have no dropout ({architecture.no_dropout});"
            " set 0, or name the layers in `targets`"
        )
    try:
        return choose_attention(capability, settings.precision, architecture.wrong_kernels(settings))
    except UserError as error:
        possible = possible_attention(capability, settings.precision)
        unpacked = any(not architecture.wrong_unpacked[choice.name] for choice in possible)
        works = "use another base model"
        if settings.packing and unpacked:
            works = "set `packing: false`"
        raise UserError(f"{key}: no attention kernel is right for {kind} ({error}); {works}") from error


def base_architecture(folder: Path, stages: Mapping[str, Stage], machine: Machine) -> Architecture | None:
    """What the base in `folder` can be trained with; None without a model there, of which rule `base` says more. Raises
    UserError: a stage cannot be trained with any attention kernel, or adapts layers that the base has not."""
    config = folder / "config.json"
    if not config.is_file() or "model_type" not in read_json(config):
        return None
    known = architecture(folder)
    capability = None
    if machine.gpus:
        capability = least_capability() or FLASH_CAPABILITY
    for name, stage in stages.items():
        stage_attention(known, name, stage, capability)
    return known


def has_c_compiler() -> bool:
    """Whether there is a C compiler, which torch.compile needs on GPUs and CPUs alike."""
    return any(shutil.which(name) for name in (environ.get("CC"), "cc", "gcc", "clang") if name)


def choose_compile(machine: Machine, quantize: str = "none") -> Choice:
    """Whether a stage's layers are compiled: "on" or "off". `quantize`: the stage's setting."""
    if machine.compile is False:
        return Choice("off", "`compile: false` in the machine file")
    if not has_c_compiler():
        return Choice("off", "needs a C compiler, as `gcc`")
    if quantize == "8bit":  # bitsandbytes' backward pass for 4 bits makes them again
        return Choice("off", "would keep the weights of 8 bits in bf16 for the backward pass")
    if machine.compile is True:
        return Choice("on")
    if machine.gpus == 0:
        return Choice("off", "needs GPUs")
    if machine.sharding not in UNSHARDED_WEIGHTS:
        return Choice("off", f"not tried with {machine.sharding}")
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


def kernels_line(machine: Machine, stages: Iterable[Stage], architecture: Architecture | None = None) -> str:
    """One line about the kernels that the stages will run on GPUs; it names what each precision uses where they differ.

    Args:
        architecture: of the base, where it is known.
    """
    stages, here = list(stages), least_capability()
    choices = {}
    for stage in sorted(stages, key=lambda stage: stage.precision):
        wrong = {}
        if architecture:
            wrong = architecture.wrong_kernels(stage)
        choices[stage.precision] = choose_attention(here or FLASH_CAPABILITY, stage.precision, wrong)
    parts = []
    for precision, choice in choices.items():
        parts.append(f"attention {choice}")
        if len(choices) > 1:
            parts[-1] += f" for {precision} stages"
    quantize = "none"
    if all(stage.quantize == "8bit" for stage in stages):
        quantize = "8bit"
    line = f"kernels: {', '.join(parts)}, compiled layers {choose_compile(machine, quantize)}"
    if here is None:
        line += "; on GPUs of compute capability 8.0 or more"
    return line
