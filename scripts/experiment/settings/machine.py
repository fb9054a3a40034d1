"""Settings of machine files, `config/machines/{name}.yaml`, and of monitoring files, `config/monitoring/{name}.yaml`.

A machine file says where a stage runs, a monitoring file how it is watched: neither changes what it computes, so a
change reruns nothing. With `keep_best` the best checkpoint is saved and kept whatever the monitoring file says.
"""

from typing import Annotated, Literal

from pydantic import Field

from scripts.experiment.settings.record import Number, Record, Steps, Text, Unique


class Machine(Record):
    nodes: int = Field(ge=1, description="Number of hosts that train together.")
    gpus: int = Field(ge=0, description="Number of GPUs per host that a stage uses; 0 trains on the CPU.")
    cpus_per_gpu: int = Field(4, ge=1, description="CPU cores of a stage's job for each of its GPUs.")
    cpu_ranks: int = Field(
        1, ge=1, description="Number of processes per host that train together if `gpus` is 0 (gloo)."
    )
    gpu_kind: str = Field(
        "auto",
        min_length=1,
        description="Which GPUs jobs may use on a host without a queue: a part of the name that the driver gives"
        " them, such as `A800` or `RTX 4090`. `auto`: any GPUs, but all GPUs of a job have the same name;"
        " those with the most memory first.",
    )
    gpu_ids: Annotated[list[Annotated[int, Field(ge=0)]], Unique] | None = Field(
        None,
        min_length=1,
        description="Numbers of the GPUs (as in `nvidia-smi`) that jobs may use on a host without a queue; their"
        " names may differ. All by default.",
    )
    gpu_memory_gib: Number | None = Field(
        None, gt=0, description="Memory of one GPU (GiB); GPUs with less are never used."
    )
    host_memory_gib: Number | None = Field(None, gt=0, description="Memory of one host (GiB).")
    gpu_tflops: Number | None = Field(
        None, gt=0, description="Peak of one GPU in dense bf16 with fp32 sums (10^12 operations per second), for plans."
    )
    mfu: Number = Field(
        0.4,
        gt=0,
        lt=1,
        description="Share of `gpu_tflops` that a GPU reaches in forward and backward passes; recomputation counts"
        " as work, communication is left out (sources: docs/plan.md).",
    )
    cpu_tflops: Number | None = Field(
        None, gt=0, description="Speed of one process if `gpus` is 0 (10^12 operations per second), for plans."
    )
    link_gbs: Number = Field(
        12,
        gt=0,
        description="Bandwidth between the GPUs of a host (GB/s in one direction): about 12 with PCIe 4.0, 100 or"
        " more with NVLink.",
    )
    network_gbs: Number = Field(
        2.5, gt=0, description="Bandwidth of a host's network (GB/s in one direction): about 2.5 with 25 Gbit Ethernet."
    )
    micro_batch_size: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        description="Packed rows per GPU and pass; gradient accumulation is computed from this and the stage's"
        " global batch. `auto`: for each stage the fastest value that fits, by its plan."
    )
    sharding: Literal["auto", "none", "fsdp2", "zero2", "zero3"] = Field(
        "none",
        description="How model states are divided among the GPUs: `none` is DDP, `fsdp2` is PyTorch's fully sharded"
        " data parallelism, the others are DeepSpeed's. `auto`: for each stage the fastest mode that"
        " fits, by its plan.",
    )
    offload: bool = Field(False, description="Keep the optimizer's states in host memory (ZeRO only).")
    gradient_checkpointing: bool | Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        False,
        description="Recompute activations in the backward pass instead of keeping them: of all layers (`true`), of the"
        " first so many that gradients reach, or of none. `auto`: for each stage of the fewest that fit, by its plan.",
    )
    compile: Literal["auto"] | bool = Field(
        "auto",
        description="Whether to compile each layer by torch.compile, which needs a C compiler. `auto`: on GPUs, if"
        " there is one, if the weights are not sharded (not with `fsdp2` and `zero3`), and not held in 8 bits.",
    )
    collective_timeout: int = Field(
        1800,
        ge=1,
        description="A stage ends if its hosts have not met, or a process does not respond in a collective operation,"
        " for this long (seconds); must be longer than saving a checkpoint takes.",
    )
    environment: dict[str, str | int] = Field(
        {},
        description="Environment variables for training, such as NCCL's: `NCCL_SOCKET_IFNAME`, `NCCL_IB_DISABLE`,"
        " `NCCL_P2P_DISABLE`.",
    )

    def recomputed(self, layers: int) -> int:
        """How many of a model's layers are recomputed; with `auto`, before that is decided, all."""
        if self.gradient_checkpointing is True or self.gradient_checkpointing == "auto":  # 1 is equal to True
            return layers
        return min(int(self.gradient_checkpointing), layers)

    @property
    def hardware(self) -> dict:
        """What tells one machine from another; a stage's summary.json has it beside what was measured there."""
        return self.model_dump(mode="json", include={"nodes", "gpus", "gpu_kind", "gpu_memory_gib", "cpu_ranks"})


class Alerts(Record):
    grad_norm: Number = Field(100, gt=0, description="Alert when the gradient norm, before clipping, exceeds this.")
    memory_gib: Number | None = Field(
        None,
        gt=0,
        description="Alert when the peak memory of any process exceeds this (GiB; reserved on a GPU, resident on the"
        " CPU).",
    )


class Monitoring(Record):
    log_steps: Steps = Field(
        0.005,
        description="Steps between logged metrics; below 1 a share of all steps, so that with 0.005 there are at least"
        " 200.",
    )
    save_steps: Steps = Field(
        0.1,
        description="Steps between checkpoints; below 1 a share of all steps. A killed job loses at most this much of"
        " its work.",
    )
    keep_checkpoints: int = Field(3, ge=1, description="Number of checkpoints that are kept.")
    alerts: Alerts = Alerts()
    webhook: str | None = Field(
        None,
        pattern=r"^(https?://|\$)",
        description="Address to which each alert is sent as a JSON POST. `$NAME` is replaced by the environment"
        " variable NAME, for a secret address. Training waits 3 seconds for it at most; a failure is only logged.",
    )
    wandb: Text | None = Field(
        None,
        description="Project to log to with Weights & Biases (`uv pip install wandb`). WANDB_MODE and WANDB_ENTITY work"
        " as always, but without WANDB_MODE it writes to the stage's work folder, for `wandb sync` later.",
    )
