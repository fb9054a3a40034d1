"""Where a stage runs, in the libraries' words: DDP, FSDP2 or ZeRO, on GPUs or CPU ranks, also with a single process.

Called in this order by scripts/training/train.py:

    start(machine)                     process group, before TrainingArguments
    TrainingArguments(**where(machine), ...)
    declare(machine)                   after TrainingArguments, before the model and the Trainer
    ReallySharded(trainer, machine)    a callback: is the prepared model sharded as asked for?
    save_whole(trainer)                before the model is published
    part()                             at the end
"""

import json
import logging
import os
import socket
import warnings
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor
from transformers import Trainer, TrainerCallback

from scripts.common.cli import UserError
from scripts.training.engine import deepspeed_builds

SETTINGS = Path("config/deepspeed")


def start(machine: dict) -> None:
    """Meet the other processes, where `sharding` needs a process group even for a single one.

    DDP leaves that to accelerate. ZeRO-3 shards while the model is loaded: DeepSpeed's communication must be up before.

    Raises:
        UserError: offload is asked for without ZeRO.
    """
    sharding = machine["sharding"]
    # one line per collective and per file written, from libraries that say less elsewhere
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    logging.getLogger("accelerate").setLevel(logging.WARNING)
    if machine["offload"] and not sharding.startswith("zero"):
        raise UserError(f"machine: offload needs `sharding` zero1, zero2 or zero3, not {sharding}")
    if sharding == "none":
        return
    if "WORLD_SIZE" not in os.environ:  # started without torchrun
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        alone = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_PORT": port}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in alone.items()}}
    if machine["gpus"]:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        os.environ["DS_ACCELERATOR"] = "cpu"
    if sharding.startswith("zero"):
        import deepspeed

        deepspeed_builds.use()
        deepspeed.logger.setLevel(logging.ERROR)
        deepspeed.init_distributed("gloo" if machine["gpus"] == 0 else "nccl", auto_mpi_discovery=False, verbose=False)


def part() -> None:
    """Part with the other processes once all are done: one that just ended could make theirs end with an error."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def deepspeed_settings(machine: dict) -> dict:
    """config/deepspeed/{sharding}.json, with the optimizer's states in host memory where the machine file says so."""
    found = json.loads((SETTINGS / f"{machine['sharding']}.json").read_text())
    if machine["offload"]:
        found["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": machine["gpus"] > 0}
    return found


def where(machine: dict) -> dict:
    """The TrainingArguments that follow from the machine alone."""
    fsdp2, cpu = machine["sharding"] == "fsdp2", machine["gpus"] == 0
    distributed = "WORLD_SIZE" in os.environ
    return {
        "use_cpu": cpu,
        "ddp_backend": "gloo" if cpu and distributed else None,
        "deepspeed": deepspeed_settings(machine) if machine["sharding"].startswith("zero") else None,
        "fsdp": True if fsdp2 else None,
        # sharded checkpoints (torch.distributed.checkpoint) need no rank to hold the whole model, and can be resharded
        "fsdp_config": {
            "version": 2,
            "state_dict_type": "SHARDED_STATE_DICT",
            "activation_checkpointing": machine["gradient_checkpointing"],
        }
        if fsdp2
        else None,
        # FSDP brings its own: outside of it every recomputation would gather the weights once more
        "activation_checkpointing": machine["gradient_checkpointing"] and not fsdp2,
        "torch_compile": machine["compile"],
    }


def declare(machine: dict) -> None:
    """Make accelerate take FSDP2 seriously on the CPU.

    accelerate 1.15 turns FSDP on only where PartialState says that the ranks are GPUs; on CPU ranks it ignores the
    plugin and runs DDP without a word. AcceleratorState replaces the value set here by FSDP; all else follows device.
    """
    if machine["sharding"] == "fsdp2" and machine["gpus"] == 0:
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def found(trainer: Trainer) -> str:
    """How the prepared model is really sharded: `none`, `fsdp2`, `zero1`, `zero2` or `zero3`."""
    if trainer.is_deepspeed_enabled:
        return f"zero{trainer.deepspeed.zero_optimization_stage()}"
    sharded = [isinstance(weight, DTensor) for weight in trainer.model.parameters() if weight.requires_grad]
    if any(sharded):
        assert all(sharded), "FSDP2 left some of the trained parameters whole"
        return "fsdp2"
    return "none"


class ReallySharded(TrainerCallback):
    """Says at the start of training how the model is sharded, and stops where that is not what was asked for."""

    def __init__(self, trainer: Trainer, machine: dict):
        self.trainer, self.machine = trainer, machine

    def on_train_begin(self, args, state, control, **kwargs):
        real, asked = found(self.trainer), self.machine["sharding"]
        assert real == asked, f"sharding {asked} was asked for, the model is sharded as {real}"
        if real.startswith("zero"):
            assert self.trainer.deepspeed.zero_cpu_offload() == self.machine["offload"], "offload is not as asked for"
        if state.is_world_process_zero:
            ranks = processes()
            offload = ", optimizer in host memory" if self.machine["offload"] else ""
            name = "DDP" if real == "none" and ranks > 1 else real
            logging.info(f"parallel: {ranks} process{'es' * (ranks > 1)}, sharding {name}{offload}")


def save_whole(trainer: Trainer) -> None:
    """From here on saving writes the gathered model, not shards. On all ranks."""
    if trainer.is_fsdp_enabled:
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")


def parameters(model: torch.nn.Module) -> int:
    """How many parameters a model has, also where ZeRO-3 has left this rank none of them."""
    return sum(getattr(weight, "ds_numel", weight.numel()) for weight in model.parameters())


def maker(machine: dict) -> dict:
    """What decides whether a checkpoint can be read again; kept with its marker."""
    return {"processes": processes(), "sharding": machine["sharding"], "offload": machine["offload"]}


def check_resumable(checkpoint: Path, then: dict, now: dict) -> None:
    """Whether a checkpoint that `then` wrote can be resumed by `now` (both as `maker` gives them).

    DDP's holds everything once; FSDP2's is resharded by torch.distributed.checkpoint. Both fit any number of processes.
    ZeRO's holds one file of optimizer states per process, in the layout of its stage.

    Raises:
        UserError: it cannot; the line says what would.
    """
    if then == now or (then["sharding"] == now["sharding"] and now["sharding"] in ("none", "fsdp2")):
        return

    def words(made: dict) -> str:
        count = f"{made['processes']} process{'es' * (made['processes'] > 1)}"
        return f"sharding {made['sharding']}{' with offload' * made['offload']} on {count}"

    where_to = f"sharding {then['sharding']}" if then["sharding"] in ("none", "fsdp2") else words(then)
    raise UserError(
        f"{checkpoint}: made by {words(then)}, cannot be resumed by {words(now)}; "
        f"go on with {where_to}, or delete {checkpoint.parent} to start anew"
    )


def processes() -> int:
    """As many processes as really run, also where somebody started torchrun by hand with another number."""
    return int(os.environ.get("WORLD_SIZE", 1))
