"""Map a machine file to DDP, FSDP2 or DeepSpeed ZeRO, on GPUs or CPU ranks, also for a single process.

Called in this order by scripts/training/train.py:

    start_process_group(machine)                before TrainingArguments
    TrainingArguments(**sharding_arguments(machine), ...)
    enable_fsdp2_on_cpu(machine, arguments)     before the model and the Trainer
    reduce_in_float32(trainer)                  before training
    ShardingCheck(trainer, machine)             a callback: asserts that the model is sharded as configured
    with gathered_weights_on_save(trainer):     where the model is saved to be published
    barrier_and_destroy()                       at the end
"""

import logging
import os
import re
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
from accelerate.utils import DistributedType
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor
from transformers import PreTrainedConfig, Trainer, TrainerCallback, TrainingArguments
from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

from scripts.common.errors import MachineFault, UserError
from scripts.experiment.model_folder import EXPERTS
from scripts.experiment.settings.machine import Machine
from scripts.training.planning.checks import check_deepspeed


def may_lack_gradients(config: PreTrainedConfig) -> bool:
    """Whether a step may leave parameters without a gradient: experts, and the parts for images and sound. DDP then
    looks for them in each step, which takes time."""
    text = config.get_text_config()
    return text is not config or any(getattr(text, name, None) for name in EXPERTS)


def world_size() -> int:
    """How many processes really run, also where torchrun was started by hand with another number."""
    return int(os.environ.get("WORLD_SIZE", 1))


def start_process_group(machine: Machine) -> None:
    """Set up communication, with `collective_timeout`, where several processes train or `sharding` needs a group.

    With DDP and FSDP2 on GPUs that is left to accelerate, which takes the timeout from TrainingArguments (on CPU ranks
    it does not). ZeRO-3 shards while the model is loaded, so DeepSpeed's communication must exist before.
    """
    # libraries that log one line per collective and per file written
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    logging.getLogger("accelerate").setLevel(logging.WARNING)
    timeout = timedelta(seconds=machine.collective_timeout)
    if machine.sharding == "none" and "WORLD_SIZE" not in os.environ:
        return
    if "WORLD_SIZE" not in os.environ:  # started without torchrun
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        single = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_PORT": port}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in single.items()}}
    if machine.gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        os.environ["DS_ACCELERATOR"] = "cpu"
    if machine.sharding.startswith("zero"):
        import deepspeed

        # shared-memory collectives between ranks on a CPU are for inference alone, and take minutes to compile
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.logger.setLevel(logging.ERROR)
        deepspeed.init_distributed(
            "nccl" if machine.gpus else "gloo", auto_mpi_discovery=False, verbose=False, timeout=timeout
        )
    elif machine.gpus == 0:
        torch.distributed.init_process_group("gloo", timeout=timeout)


def barrier_and_destroy() -> None:
    """Barrier, then destroy the process group: a rank that ended earlier could make the others end with an error."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def deepspeed_settings(machine: Machine) -> dict:
    """config/deepspeed/{sharding}.json, with the machine file's `offload`."""
    settings = check_deepspeed(machine.sharding)
    if machine.offload:
        settings["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": machine.gpus > 0}
        # torch's fused AdamW in the place of DeepSpeed's, which is as fast on a CPU, and takes minutes to compile
        settings["zero_force_ds_cpu_optimizer"] = False
    return settings


def sharding_arguments(machine: Machine) -> dict:
    """The TrainingArguments that follow from the machine alone."""
    fsdp2, cpu = machine.sharding == "fsdp2", machine.gpus == 0
    distributed = "WORLD_SIZE" in os.environ
    recomputed = bool(machine.gradient_checkpointing)  # of how many layers RecomputedLayers says
    return {
        "use_cpu": cpu,
        "ddp_backend": "gloo" if cpu and distributed else None,
        "ddp_timeout": machine.collective_timeout,
        "deepspeed": deepspeed_settings(machine) if machine.sharding.startswith("zero") else None,
        "fsdp": True if fsdp2 else None,
        # sharded checkpoints (torch.distributed.checkpoint) need no rank to hold the whole model, and can be resharded
        "fsdp_config": {"version": 2, "state_dict_type": "SHARDED_STATE_DICT", "activation_checkpointing": recomputed}
        if fsdp2
        else None,
        # FSDP has its own: outside of it every recomputation would gather the weights once more
        "activation_checkpointing": recomputed and not fsdp2,
        "activation_checkpointing_kwargs": {"use_reentrant": False} if recomputed else None,
    }


def enable_fsdp2_on_cpu(machine: Machine, arguments: TrainingArguments) -> None:
    """Make accelerate use FSDP2 on CPU ranks.

    accelerate 1.15 turns FSDP on only where its state says that the ranks are GPUs; on CPU ranks it ignores the plugin
    and runs DDP without a warning. The Trainer replaces the value set here by FSDP; all else follows the device.
    """
    if machine.sharding == "fsdp2" and machine.gpus == 0:
        arguments.distributed_state.distributed_type = DistributedType.MULTI_GPU


def reduce_in_float32(trainer: Trainer) -> None:
    """Under FSDP2 in bf16, sum gradients and give logits in float32, as DDP and ZeRO do.

    accelerate's own policy takes bf16 for both: a loss of 6.245 is then logged as 6.25.
    """
    plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    if plugin is not None and trainer.args.bf16:
        plugin.mixed_precision_policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
        )


@contextmanager
def whole_model_loading(arguments: TrainingArguments) -> Iterator[None]:
    """Within, `from_pretrained` loads whole models also during a ZeRO-3 run, which else shards each one it loads."""
    unset_hf_deepspeed_config()
    try:
        yield
    finally:
        if arguments.deepspeed:
            set_hf_deepspeed_config(arguments.hf_deepspeed_config)


@contextmanager
def lost_ranks_as_fault(name: str, machine: Machine) -> Iterator[None]:
    """Turn gloo's errors for a rank that has ended or does not answer into one line; NCCL ends the process by itself.
    Raises MachineFault: another rank has ended, or does not answer."""
    try:
        yield
    except RuntimeError as error:
        # gloo: "Connection closed by peer [127.0.0.1]:3981", or "Connection reset by peer", or "Broken pipe"
        if re.search(r"closed by peer|reset by peer|broken pipe", str(error), re.I):
            raise MachineFault(
                f"{name}: the connection to another rank was lost: that rank or its host has ended"
            ) from error
        # gloo: "Timed out waiting 1800000ms for recv operation", or "Application timeout caused pair closure"
        if not re.search(r"time(d )?out", str(error), re.I):
            raise
        raise MachineFault(
            f"{name}: another process did not answer within `collective_timeout` of the machine file "
            f"({machine.collective_timeout} s); check whether a rank or its host hangs"
        ) from error


def actual_sharding(trainer: Trainer) -> str:
    """How the prepared model is sharded: `none`, `fsdp2`, `zero2` or `zero3`."""
    if trainer.is_deepspeed_enabled:
        return f"zero{trainer.deepspeed.zero_optimization_stage()}"
    sharded = [isinstance(weight, DTensor) for weight in trainer.model.parameters() if weight.requires_grad]
    if any(sharded):
        assert all(sharded), "FSDP2 left some of the trained parameters whole"
        return "fsdp2"
    return "none"


class ShardingCheck(TrainerCallback):
    """Logs how the model is sharded when training begins; asserts that this is what the machine file says."""

    def __init__(self, trainer: Trainer, machine: Machine):
        self.trainer, self.machine = trainer, machine

    def on_train_begin(self, args, state, control, **kwargs):
        sharding = actual_sharding(self.trainer)
        assert sharding == self.machine.sharding, (
            f"sharding is {sharding}, the machine file says {self.machine.sharding}"
        )
        if sharding.startswith("zero"):
            assert self.trainer.deepspeed.zero_cpu_offload() == self.machine.offload, "offload is not as configured"
        if state.is_world_process_zero:
            ranks = world_size()
            offload = ""
            if self.machine.offload:
                offload = ", optimizer in host memory"
            name = sharding
            if sharding == "none" and ranks > 1:
                name = "DDP"
            logging.info(f"parallel: {ranks} process{'es' * (ranks > 1)}, sharding {name}{offload}")


@contextmanager
def gathered_weights_on_save(trainer: Trainer) -> Iterator[None]:
    """In this block saving writes the gathered model, not shards. On all ranks."""
    if not trainer.is_fsdp_enabled:
        yield
        return
    plugin = trainer.accelerator.state.fsdp_plugin
    before = plugin.state_dict_type
    plugin.set_state_dict_type("FULL_STATE_DICT")
    yield
    plugin.set_state_dict_type(before)


class Layout(NamedTuple):
    """How a checkpoint is divided into files, which decides who can read it; kept in its marker."""

    processes: int
    sharding: str
    offload: bool

    def __str__(self) -> str:
        ranks = f"{self.processes} process{'es' * (self.processes > 1)}"
        return f"sharding {self.sharding}{' with offload' * self.offload} on {ranks}"


def current_layout(machine: Machine) -> Layout:
    """The layout of the checkpoints that this run writes."""
    return Layout(world_size(), machine.sharding, machine.offload)


def check_resumable(checkpoint: Path, saved: Layout, current: Layout) -> None:
    """Check that a checkpoint of layout `saved` can be resumed by a run of layout `current`.

    DDP's holds everything once; FSDP2's is resharded by torch.distributed.checkpoint. Both fit any number of processes.
    ZeRO's holds one file of optimizer states per process, in the layout of its stage.

    Raises:
        UserError: it cannot; the line says what could.
    """
    any_count = saved.sharding in ("none", "fsdp2")
    if saved == current or (saved.sharding == current.sharding and any_count):
        return
    remedy = f"sharding {saved.sharding}" if any_count else str(saved)
    raise UserError(
        f"{checkpoint}: made by {saved}, cannot be resumed by {current}; "
        f"go on with {remedy}, or delete {checkpoint.parent} to start from the beginning"
    )
