"""Settings of a machine file, `config/machines/{name}.yaml`: where a stage runs, never what it computes."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from scripts.experiment.settings.record import Number, Record, Unique


class Checkpointing(Record):
    """`true` recomputes the activations of all layers in the backward pass, `false` of none; a mapping says more."""

    every_n_layers: int = Field(
        1, ge=1, description="Recompute only every n-th layer, from layer 0 on; the others keep their activations."
    )
    offload: bool = Field(
        False, description="Hold what the recomputed layers start from in host memory; GPUs only, and slower."
    )


def checkpointing(value: Any) -> Any:
    """The record that `true` or `false` stands for; any other mapping unchanged.

    Raises:
        PydanticCustomError: it is neither.
    """
    if isinstance(value, bool):
        return Checkpointing() if value else None
    if value is None or isinstance(value, dict | Checkpointing):
        return value
    raise PydanticCustomError(
        "checkpointing", "must be true, false or a mapping of keys, not {value}", {"value": repr(value)}
    )


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
    gpu_tflops: Number | None = Field(
        None, gt=0, description="Peak of one GPU in dense bf16 with fp32 sums (10^12 operations per second), for plans."
    )
    mfu: Number = Field(
        0.4,
        gt=0,
        lt=1,
        description="Share of `gpu_tflops` that a GPU reaches in the passes themselves, recomputation counted as work"
        " and communication left out (docs/plan.md has the sources); `make calibrate` measures it.",
    )
    cpu_tflops: Number | None = Field(
        None,
        gt=0,
        description="What one process trains at where `gpus` is 0 (10^12 operations per second), for plans;"
        " `make calibrate` measures it.",
    )
    memory_overhead_gib: Number = Field(
        0, description="GiB per GPU that stages took beyond their plan, as `make calibrate` measures it."
    )
    link_gbs: Number = Field(
        12,
        gt=0,
        description="Gigabytes per second and direction between the GPUs of a host: PCIe 4.0 12, NVLink 100 on.",
    )
    network_gbs: Number = Field(
        2.5, gt=0, description="Gigabytes per second and direction of a host's network (2.5: 25 Gbit Ethernet)."
    )
    host_link_gbs: Number = Field(
        12, gt=0, description="Gigabytes per second and direction between a GPU and its host, for `offload`."
    )
    host_adam: Number = Field(
        2.0, gt=0, description="Billions of parameters that a host's AdamW updates per second, for `offload`."
    )
    gpu_watts: Number | None = Field(None, gt=0, description="Power of a busy GPU.")
    host_watts: Number = Field(300, ge=0, description="Power of a host without its GPUs.")
    gpu_hour_price: Number | None = Field(None, ge=0, description="Price of one GPU for an hour; any currency.")
    currency: str = Field("EUR", min_length=1, description="Of `gpu_hour_price`.")
    disk_gib: Number | None = Field(None, gt=0, description="Free disk that a plan counts on; by default what is free.")
    micro_batch: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        description="Packed rows per GPU and pass; gradient accumulation follows from it and the stage's global batch."
        " `auto`: with each stage the fastest that fits, by its plan.",
    )
    sharding: Literal["auto", "none", "fsdp2", "zero1", "zero2", "zero3"] = Field(
        "none",
        description="How model states are divided among the GPUs: `none` is DDP, `fsdp2` is PyTorch's fully sharded"
        " data parallelism, the others are DeepSpeed's. `auto`: with each stage the fastest that fits, by its plan.",
    )
    offload: bool = Field(False, description="Keep the optimizer's states in host memory (ZeRO only).")
    grad_accum_dtype: Literal["auto", "fp32"] = Field(
        "auto",
        description="Type in which the passes of a step add up their gradients. `auto`: fp32 with DDP and FSDP2, the"
        " precision of compute with ZeRO. `fp32` is for `zero2` and `zero3`, and not for Muon.",
    )
    gradient_checkpointing: Annotated[Checkpointing | None, BeforeValidator(checkpointing)] = None
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
