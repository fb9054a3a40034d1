"""The plan against published runs on GPUs: memory per GPU and tokens per second.

    python -m benchmarks.published_plans      # prints the table that docs/plan.md holds

The rows, with their sources, are in published_runs.tsv beside this module. What torch allocated or reserved has no CUDA
context in it, so that is taken off the plan; and of what was allocated fragmentation too. Nor is a validation pass.
published_speeds.tsv holds speeds of MosaicML's MPT models (LLM-Foundry's scripts/train/benchmarking/README.md at
8c8dd48: bf16, up to 16 GPUs, rows of 2,048 tokens or more), on which two constants of the plan were chosen.
"""

import statistics
from pathlib import Path

import pandas as pd

from benchmarks.figures import Value, store
from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.planning.budget import stage_budget
from scripts.training.planning.resolved_stage import Batch
from scripts.training.planning.speed import stage_speed
from scripts.training.planning.states import GIB

SHAPES = {  # width, feed-forward, layers, heads, key heads, vocabulary: the models' config.json
    "qwen2.5-7b": (3584, 18944, 28, 28, 4, 152064),
    "qwen2.5-14b": (5120, 13824, 48, 40, 8, 152064),
    "mistral-7b": (4096, 14336, 32, 32, 8, 32000),
    "llama3-8b": (4096, 14336, 32, 32, 8, 128256),
}
# peak in 10^12 operations, expected share of it, gigabytes per second between GPUs of a host
GPUS = {"A100": (312, 0.6, 200), "A800": (312, 0.6, 150), "H100": (989, 0.48, 350)}
# MPT's width, layers and heads; two matrices of four widths in place of three
MPT = {
    "125m": (768, 12, 12),
    "350m": (1024, 24, 16),
    "760m": (1536, 24, 12),
    "1b": (2048, 24, 16),
    "3b": (2560, 32, 20),
}
MPT |= {"7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56)}


def machine_of(row, sharding: str, checkpointing: bool, network: float, **changes) -> Machine:
    """The machine that a row ran on, eight GPUs to a host. `network`: gigabytes per second between hosts."""
    tflops, share, link = GPUS[row.gpu]
    nodes = max(1, row.gpus // 8)
    return Machine(
        nodes=nodes,
        gpus=row.gpus // nodes,
        micro_batch_size=row.rows,
        sharding=sharding,
        gradient_checkpointing=checkpointing,
        gpu_tflops=tflops,
        mfu=share,
        link_gbs=link,
        network_gbs=network,
        **changes,
    )


def plan_of(row) -> tuple[float, float, float]:
    """(GiB with activations as the row has them, GiB with every layer checkpointed, tokens per second and GPU)."""
    *sizes, vocabulary = SHAPES[row.model]
    shape = Shape(*sizes, vocab_size=vocabulary)  # in the order of its fields
    settings = {"from": "base", "data": "x", "steps": 1, "learning_rate": 1e-5, "method": row.method}
    settings |= {"sequence_length": row.length, "optimizer": row.optimizer, "global_batch_size": row.rows * row.gpus}
    if row.method == "lora":  # the adapters of fms-acceleration's benchmark
        settings["lora"] = {"targets": ["q_proj", "k_proj", "v_proj", "o_proj"]}
    stage = Stage.parse(settings, "published")
    fused = row.liger == "yes"  # compiled layers keep about as much
    totals_gib = []
    for checkpointing in (row.checkpointing == "yes", True):
        machine = machine_of(row, row.sharding, checkpointing, network=50, compile=fused)
        batch = Batch(row.rows, 1)
        budget = stage_budget(stage, shape, machine, batch, validates=False, chunked=fused)
        gpu_bytes = dict(budget.gpu)
        gpu_bytes.pop("CUDA")
        if row.kind == "allocated":
            gpu_bytes.pop("fragmentation")
        totals_gib.append(sum(gpu_bytes.values()) / GIB)
    return *totals_gib, stage_speed(stage, shape, machine, batch).tokens_per_second / row.gpus


def pretraining_errors() -> list[float]:
    """Planned by published tokens per second, less 1, for each row of published_speeds.tsv."""
    errors = []
    for row in pd.read_table(Path(__file__).with_name("published_speeds.tsv")).itertuples():
        width, layers, heads = MPT[row.model.removeprefix("mpt-")]
        shape = Shape(width, round(8 / 3 * width), layers, heads, heads, vocab_size=50368, tie_word_embeddings=True)
        settings = {"from": "base", "data": "x", "steps": 1, "learning_rate": 1e-5, "sequence_length": row.length}
        stage = Stage.parse(settings | {"global_batch_size": row.rows * row.gpus}, "published")
        machine = machine_of(row, "fsdp2", row.checkpointing == "yes", network=200)
        speed = stage_speed(stage, shape, machine, Batch(row.rows, 1)).tokens_per_second / row.gpus
        errors.append(speed / row.tokens_per_second - 1)
    return errors


def main() -> None:
    print("| run | GPUs | published GiB | planned GiB | error | published tokens/s | planned tokens/s | error |")
    print("|---|---|---|---|---|---|---|---|")
    memory_errors, speed_errors = [], []
    for row in pd.read_table(Path(__file__).with_name("published_runs.tsv")).itertuples():
        none, full, speed = plan_of(row)
        planned, error = f"{none:.1f}", f"{none / row.gib - 1:+.0%}"
        if row.checkpointing != "selective":
            memory_errors.append(abs(none / row.gib - 1))
        else:
            planned, error = f"{full:.1f} to {none:.1f}", "bracket" if full <= row.gib <= none else "outside"
        speeds = " |  | "
        if row.tokens_per_second == row.tokens_per_second:  # not NaN
            speed_errors.append(abs(speed / row.tokens_per_second - 1))
            speeds = f"{row.tokens_per_second:,.0f} | {speed:,.0f} | {speed / row.tokens_per_second - 1:+.0%}"
        memory = f"{row.gib:g} ({row.kind}) | {planned} | {error}"
        print(f"| {row.id} | {row.gpus} {row.gpu} | {memory} | {speeds} |", flush=True)
    pretraining = [abs(error) for error in pretraining_errors()]
    print(f"pretraining of MPT: {statistics.median(pretraining):.1%} in the median, {max(pretraining):.1%} at worst")
    values = {
        "pretraining": Value(
            round(100 * statistics.median(pretraining)), "%", f"the median of {len(pretraining)} rows"
        ),
        "pretraining_worst": Value(round(100 * max(pretraining)), "%", f"the largest of {len(pretraining)} rows"),
        "memory": Value(round(100 * max(memory_errors)), "%", f"the largest of {len(memory_errors)} runs"),
        "speed": Value(round(100 * max(speed_errors)), "%", f"the largest of {len(speed_errors)} runs"),
    }
    conditions = "memory without torchtitan's runs, whose checkpointing cannot be planned; largest deviation"
    store("plan-published", values, conditions)


if __name__ == "__main__":
    main()
