"""What is measured of a running stage: a JSON line and a progress line with its ETA per logged step; tokens per second,
MFU, memory; utilisation, power and temperature of the GPUs.
"""

import logging
import re
import resource
import statistics
import time
from pathlib import Path

import orjson
import torch
from transformers import TrainerCallback

from scripts.common.files import atomic
from scripts.experiment.model_folder import has_experts
from scripts.experiment.settings.machine import Machine


def truncate_after(path: Path, step: int) -> int:
    """Remove from a metric log the lines after the checkpoint that is resumed, and a half-written line.

    Returns:
        the last step that was logged, 0 without any.

    Lines that hold no logged step, as a failing disk may leave them, are removed too, and counted in a warning: a stage
    need not fail for its curve.
    """
    if not path.is_file():
        if step:
            logging.warning(f"{path}: not there; what it said of the steps until {step} is lost")
        path.touch()
        return 0
    kept, damaged, last = [], 0, 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            logged = orjson.loads(line)["step"]
            last = max(last, logged)
            if line.endswith(b"\n") and logged <= step:
                kept.append(line)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            damaged += line.endswith(b"\n")
    if damaged:
        logging.warning(f"{path}: {damaged} damaged lines are left out; the curves have a gap there")
    with atomic(path) as temporary:
        temporary.write_bytes(b"".join(kept))
    return last


def summarize_metrics(path: Path) -> dict[str, float | None]:
    """Facts for summary.json from a metric log: median gradient norm before clipping, peak GPU memory (GiB, reserved).

    A figure that was never logged is None, as GPU memory on a CPU; a norm that is not a number is left out.
    """
    steps = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    norms = [step["grad_norm"] for step in steps if step.get("grad_norm") is not None]
    memory = [step["memory_reserved_gib"] for step in steps if "memory_reserved_gib" in step]
    return {"gradient_norm": statistics.median(norms) if norms else None, "memory_gib": max(memory, default=None)}


class MetricLog(TrainerCallback):
    """Appends what the Trainer logs, with the figures that other callbacks add, to `path`.

    Args:
        path: metrics.jsonl; another terminal can watch it.
        stage: name for the progress line.
        tokens_per_step: tokens in one optimizer step, over all ranks.
    """

    def __init__(self, path: Path, stage: str, tokens_per_step: int):
        self.path, self.stage, self.tokens_per_step = path, stage, tokens_per_step

    def on_train_begin(self, args, state, control, **kwargs):
        self.began, self.begin_step = time.monotonic(), state.global_step

    def is_logged(self, record: dict) -> bool:
        """Whether the newest line is this evaluation: a stage that is killed after its last step evaluates again."""
        lines = []
        if self.path.is_file():
            lines = self.path.read_bytes().splitlines()
        last = orjson.loads(lines[-1]) if lines else {}
        return (last.get("step"), last.get("eval_loss")) == (record["step"], record["eval_loss"])

    def on_log(self, args, state, control, logs, **kwargs):
        if not state.is_world_process_zero or "train_runtime" in logs:
            return
        record = {"step": state.global_step, "tokens": state.global_step * self.tokens_per_step, **logs}
        if "loss" in logs:
            record.setdefault("mfu", None)
            per_step = (time.monotonic() - self.began) / (state.global_step - self.begin_step)
            eta = per_step * (state.max_steps - state.global_step)
            logging.info(
                f"{self.stage}: step {state.global_step}/{state.max_steps}, loss {logs['loss']:.3f}, "
                f"{logs['tokens_per_second']:,.0f} tokens/s, ETA {eta:.0f} s"
            )
        elif "eval_loss" in logs:
            logging.info(f"{self.stage}: step {state.global_step}, validation loss {logs['eval_loss']:.3f}")
            if self.is_logged(record):
                return
        with self.path.open("ab") as file:
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


GIB = 2**30
# dense bf16 peak (FLOP/s) with fp32 accumulation, from NVIDIA's data sheets; names as the driver gives them
PEAKS = {
    r"\bA40\b": 149.7e12,
    r"\bA[18]00\b": 312e12,
    r"\bRTX 4090\b(?! D)": 165.2e12,
    r"\bH100 PCIe\b": 756e12,
    r"\bH[12]00\b": 989e12,
}


def peak_flops(name: str) -> float | None:
    """The bf16 peak (FLOP/s) of a GPU by its name; None if the table does not have it."""
    return next((flops for pattern, flops in PEAKS.items() if re.search(pattern, name)), None)


def size_of(weight: torch.nn.Parameter) -> int:
    """The number of a weight's values over all ranks: ZeRO-3 keeps it in `ds_numel`, and 4-bit weights are packed."""
    count = getattr(weight, "ds_numel", weight.numel())
    if type(weight).__name__ == "Params4bit":
        return 2 * count
    return count


def flops_per_token(model: torch.nn.Module, length: int) -> float | None:
    """FLOPs of one token's forward and backward pass in rows of `length` tokens; None for a mixture of experts, whose
    tokens pass a part of the weights.

    A frozen parameter takes 4 FLOPs, as its own gradient is not computed. (If the lowest layers are all frozen it takes
    2, so the result is too high then.)
    """
    config = model.config.get_text_config(decoder=True)
    if has_experts(config.to_dict()):
        return None
    looked_up = None
    if not config.tie_word_embeddings:
        looked_up = model.get_input_embeddings().weight
    counted = [weight for weight in model.parameters() if weight is not looked_up]
    total = sum(map(size_of, counted))
    trained = sum(size_of(weight) for weight in counted if weight.requires_grad)
    return 4 * total + 2 * trained + 6 * config.num_hidden_layers * config.hidden_size * length


class GpuSensors:
    """Reads this process' GPU through NVML; without driver or library, or for a sensor it lacks, there is no key."""

    def __init__(self, uuid: str):
        self.handle = None
        try:
            import pynvml

            pynvml.nvmlInit()
            # by UUID, as CUDA_VISIBLE_DEVICES renumbers CUDA's devices but not NVML's
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
            self.nvml = pynvml
        except Exception as error:
            logging.info(f"monitor: no NVML ({error}): utilisation, power and temperature are not logged")

    def read(self) -> dict[str, float]:
        """gpu_utilisation (%), gpu_power_w, gpu_temperature_c, as far as the card has them."""
        if self.handle is None:
            return {}
        readings, nvml, handle = {}, self.nvml, self.handle
        for name, read in {
            "gpu_utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "gpu_power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "gpu_temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        }.items():
            try:
                readings[name] = float(read())
            except nvml.NVMLError:
                continue
        return readings


# how the readings of all ranks are reduced to one figure
OVER_RANKS = {
    "memory_allocated_gib": torch.max,
    "memory_reserved_gib": torch.max,
    "memory_resident_gib": torch.max,
    "gpu_utilisation": torch.mean,
    "gpu_power_w": torch.mean,
    "gpu_temperature_c": torch.max,
}


def reduce_over_ranks(readings: dict[str, float], device: torch.device) -> dict[str, float]:
    """The readings of all ranks, reduced as in OVER_RANKS; what no rank has is left out. On all ranks."""
    row = torch.tensor([readings.get(name, float("nan")) for name in OVER_RANKS], dtype=torch.float64, device=device)
    rows = [row]
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        rows = [torch.empty_like(row) for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather(rows, row)
    columns = torch.stack(rows).cpu().T  # [readings, ranks]
    known = {name: column[~column.isnan()] for name, column in zip(OVER_RANKS, columns, strict=True)}
    return {name: OVER_RANKS[name](values).item() for name, values in known.items() if len(values)}


def peak_memory(device: torch.device) -> dict[str, float]:
    """This process' peak memory (GiB): allocated and reserved on its GPU, on the CPU its resident set."""
    if device.type == "cuda":
        return {
            "memory_allocated_gib": torch.cuda.max_memory_allocated(device) / GIB,
            "memory_reserved_gib": torch.cuda.max_memory_reserved(device) / GIB,
        }
    return {"memory_resident_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB}


class Throughput(TrainerCallback):
    """Adds its figures to each logged step. Add it before the callbacks that write them.

    Args:
        tokens_per_step: tokens in one optimizer step, over all ranks.
        length: tokens of a row.
        bf16: whether the stage computes in bf16; else there is no MFU, as the peaks are those of bf16.
    """

    def __init__(self, tokens_per_step: int, length: int, bf16: bool):
        self.tokens_per_step, self.length, self.bf16 = tokens_per_step, length, bf16

    def on_train_begin(self, args, state, control, model, **kwargs):
        device, self.peak, self.sensors = args.device, None, None
        if device.type == "cuda":
            card = torch.cuda.get_device_properties(device)
            self.peak = peak_flops(card.name) if self.bf16 else None
            self.sensors = GpuSensors(str(card.uuid))
        self.flops = flops_per_token(model, self.length) if self.peak else None
        self.last, self.last_step, self.paused, self.pausing = time.monotonic(), state.global_step, 0.0, False

    def on_step_begin(self, args, state, control, **kwargs):
        if self.pausing:
            self.paused += time.monotonic() - self.step_end
            self.pausing = False

    def on_step_end(self, args, state, control, **kwargs):
        self.step_end = time.monotonic()

    def on_evaluate(self, args, state, control, **kwargs):
        self.pausing = True  # time of validating and saving does not count

    on_save = on_evaluate

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" not in logs or state.global_step == self.last_step:
            return
        now = time.monotonic()
        rate = (state.global_step - self.last_step) * self.tokens_per_step / (now - self.last - self.paused)
        self.last, self.last_step, self.paused = now, state.global_step, 0.0
        logs["tokens_per_second"] = rate
        if self.flops:
            logs["mfu"] = rate * self.flops / (self.peak * args.world_size)
        sensors = self.sensors.read() if self.sensors else {}
        logs.update(reduce_over_ranks({**peak_memory(args.device), **sensors}, args.device))


class FreeMemory(TrainerCallback):
    """Says once, after some steps, that much of the GPU stays free. It is not asked on a CPU."""

    AFTER, SHARE = 3, 0.15  # steps, and share of the card

    def __init__(self, first_step: int, machine: Machine):
        self.at, self.machine = first_step + self.AFTER, machine

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step != self.at or not self.machine.gpus:
            return
        gib = torch.cuda.get_device_properties(args.device).total_memory / GIB
        peak = torch.cuda.max_memory_reserved(args.device) / GIB
        if peak < (1 - self.SHARE) * gib:
            logging.info(
                f"memory: {peak:.1f} of {gib:.1f} GiB were needed; with `micro_batch_size: auto` and"
                " `gradient_checkpointing: auto` in the machine file the plan uses what is free"
            )
