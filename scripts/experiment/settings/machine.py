"""Settings of a machine file, `config/machines/{name}.yaml`: where a stage runs, never what it computes."""

from typing import Annotated, Literal

from pydantic import Field

from scripts.experiment.settings.record import Number, Record, Unique


class Machine(Record):
    nodes: int = Field(ge=1, description="Hosts that train together.")
    gpus: int = Field(ge=0, description="GPUs per host used by one stage; 0 trains on the CPU.")
    cpus_per_gpu: int = Field(
        4, ge=1, description="CPU cores that a stage's job has for each of its GPUs, for loading data and on the host."
    )
    cpu_ranks: int = Field(1, ge=1, description="Processes per host that train together where `gpus` is 0 (gloo).")
    gpu_kind: str = Field(
        "auto",
        min_length=1,
        description="Which GPUs jobs may take on a host without a queue: a word or more of the driver's name, as `A800`"
        " or `RTX 4090`. `auto`: any, but all of a job's are of one name, those with most memory first.",
    )
    gpu_ids: Annotated[list[Annotated[int, Field(ge=0)]], Unique] | None = Field(
        None,
        min_length=1,
        description="Numbers of the GPUs (as `nvidia-smi` shows them) that jobs may take on a host without a queue,"
        " also of several names. All by default.",
    )
    gpu_memory_gib: Number | None = Field(
        None, gt=0, description="Memory of one GPU (GiB); one with less is never taken."
    )
    host_memory_gib: Number | None = Field(None, gt=0, description="Memory of one host (GiB).")
    micro_batch: int = Field(
        ge=1,
        description="Packed rows per GPU and pass; gradient accumulation follows from it and the stage's global batch.",
    )
    sharding: Literal["none", "fsdp2", "zero1", "zero2", "zero3"] = Field(
        "none",
        description="How model states are divided among the GPUs: `none` is DDP, `fsdp2` is PyTorch's fully sharded"
        " data parallelism, the others are DeepSpeed's.",
    )
    offload: bool = Field(False, description="Keep the optimizer's states in host memory (ZeRO only).")
    gradient_checkpointing: bool = Field(False, description="Recompute activations in the backward pass.")
    liger: Literal["auto"] | bool = Field(
        "auto",
        description="Liger's fused Triton kernels. `auto`: on GPUs, where liger-kernel is installed and knows the model"
        " and each GPU holds whole weights (not with `fsdp2` and `zero3`).",
    )
    compile: bool = Field(False, description="Compile the model with torch.compile.")
    vllm: str | None = Field(
        None,
        min_length=1,
        description="Python of an environment in which vLLM is installed, for suites with `engine: vllm`. It needs"
        " another torch, so it cannot be this one.",
    )
    rendezvous_timeout: int = Field(600, ge=1, description="Seconds that the hosts of a stage wait for each other.")
    collective_timeout: int = Field(
        1800,
        ge=1,
        description="Seconds after which a stage ends because a process does not answer in a collective operation; must"
        " be longer than the slowest save of a checkpoint.",
    )
    environment: dict[str, str | int] = Field(
        {},
        description="Environment variables of training, e.g. NCCL's: `NCCL_SOCKET_IFNAME`, `NCCL_IB_DISABLE`,"
        " `NCCL_P2P_DISABLE`.",
    )
