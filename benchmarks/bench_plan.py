"""The plan's memory against memory that stages took here, on the CPU.

    python -m benchmarks.bench_plan                    # prints the table, and stores the two figures of docs/plan.md
    python -m benchmarks.bench_plan --cases 0 6 12     # some of its 24 rows

Measured is the growth of the process' resident memory: the kernel's own high-water mark (VmHWM), reset after the first
optimizer step, against what was resident before the model was made. Every tensor from 64 KiB on has its own mapping,
which goes back to the kernel when it is freed (glibc's M_MMAP_THRESHOLD), so no allocator's cache is in it. Each case
trains in a fork of this process, with a stage's own Trainer, optimizer and settings. Published runs on GPUs are in
published_plans.py.
"""

import argparse
import os
import statistics
import sys
import tempfile
from itertools import product
from pathlib import Path

from benchmarks.figures import Value, store

LENGTHS = (256, 512, 1024)
SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 8192,
    "max_position_embeddings": 2048,
}
ROWS, ACCUMULATION = 2, 2
MMAP = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
MMAP |= {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0", "HF_HUB_OFFLINE": "1"}


def cases() -> list[dict]:
    """Method, checkpointing, length and optimizer: 2 x 2 x 3 x 2. Under LoRA the second optimizer is adamw_8bit."""
    grid = product(("full", "lora"), (False, True), LENGTHS, (0, 1))
    return [
        {
            "method": method,
            "checkpointing": checkpointing,
            "length": length,
            "optimizer": ("adamw", "muon" if method == "full" else "adamw_8bit")[second],
        }
        for method, checkpointing, length, second in grid
    ]


def stage_of(case: dict):
    from scripts.experiment.settings.training import Stage

    settings = {
        "from": "base",
        "data": "code",
        "method": case["method"],
        "optimizer": case["optimizer"],
        "sequence_length": case["length"],
        "global_batch": ROWS * ACCUMULATION,
        "steps": 3,
        "learning_rate": 1e-3,
        "precision": "fp32",
    }
    if case["method"] == "lora":
        settings["lora"] = {"r": 16, "dropout": 0.05}
    return Stage.parse(settings, "bench")


def machine_of(case: dict):
    from scripts.experiment.settings.machine import Machine

    machine = {"nodes": 1, "gpus": 0, "micro_batch": ROWS, "gradient_checkpointing": case["checkpointing"]}
    return Machine.parse(machine, "bench")


def predicted(case: dict) -> float:
    """Bytes by the plan."""
    from scripts.experiment.model_shape import Shape
    from scripts.training.planning.budget import stage_budget
    from scripts.training.planning.resolved_stage import Batch

    settings, shape, machine, batch = stage_of(case), Shape(**SHAPE), machine_of(case), Batch(ROWS, ACCUMULATION)
    return stage_budget(settings, shape, machine, batch).total


def resident(key: str) -> int:
    """Bytes that /proc says of this process: VmRSS now, VmHWM the most since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{key}:")))


def measured(case: dict) -> int:
    """Bytes that this process took while it trained; a stage's own Trainer, model, optimizer and settings."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM, TrainerCallback

    from scripts.training.engine.trainer import StageTrainer, stack
    from scripts.training.optimization.muon import optimizer_factory
    from scripts.training.optimization.training_arguments import training_arguments
    from scripts.training.planning.resolved_stage import resolve_stage

    class Peak(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 1:  # from here on the moments exist
                Path("/proc/self/clear_refs").write_text("5")

    class Packed(torch.utils.data.Dataset):
        """Rows of two documents."""

        def __len__(self):
            return 3 * ROWS * ACCUMULATION

        def __getitem__(self, index):
            half = torch.arange(case["length"] // 2)
            ids = torch.randint(0, SHAPE["vocab_size"], (case["length"],))
            return {"input_ids": ids, "position_ids": torch.cat([half, half]), "labels": ids}

    def train(shape: dict, settings, folder: str) -> int:
        torch.manual_seed(0)
        before = resident("VmRSS")
        model = Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=False, attn_implementation="sdpa"))
        if case["method"] == "lora":
            adapters = {"r": settings.lora.r, "lora_dropout": settings.lora.dropout}
            adapters |= {"target_modules": settings.lora.targets, "task_type": "CAUSAL_LM"}
            model = get_peft_model(model, LoraConfig(**adapters))
        machine = machine_of(case)
        stage = resolve_stage("bench", settings, machine, None, None)
        arguments = training_arguments(stage, 0, Path(folder), False)
        arguments.save_strategy = "no"
        factory = optimizer_factory(settings, machine)
        trainer = StageTrainer(
            model=model,
            args=arguments,
            train_dataset=Packed(),
            data_collator=stack,
            optimizer_cls_and_kwargs=factory,
        )
        trainer.add_callback(Peak())
        trainer.train()
        return resident("VmHWM") - before

    with tempfile.TemporaryDirectory() as folder:
        warm = {**SHAPE, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 512}
        train({**warm, "vocab_size": SHAPE["vocab_size"]}, stage_of({**case, "length": case["length"]}), folder)
        return train(SHAPE, stage_of(case), folder)


def measured_elsewhere(case: dict) -> int:
    """`measured` in a fork of this process, whose own memory is not counted."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writer, str(measured(case)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text, f"{case}: the stage failed; its error is above"
    return int(text)


def cpu_table(numbers: list[int]) -> None:
    """Print predicted and measured of the cases with these numbers."""
    from transformers import Qwen2ForCausalLM, Trainer  # noqa: F401  imported once, before the forks

    chosen = [cases()[number] for number in numbers]
    print("| method | checkpointing | tokens | optimizer | predicted MiB | measured MiB | error |")
    print("|---" * 7 + "|")
    errors = []
    for case in chosen:
        plan, real = predicted(case), measured_elsewhere(case)
        errors.append(abs(plan / real - 1))
        row = (case["method"], "on" if case["checkpointing"] else "off", f"{case['length']:,}", case["optimizer"])
        figures = (f"{plan / 2**20:,.0f}", f"{real / 2**20:,.0f}", f"{plan / real - 1:+.1%}")
        print(f"| {' | '.join([*row, *figures])} |", flush=True)
    if len(errors) == len(cases()):
        values = {
            "median": Value(round(100 * statistics.median(errors), 1), "%", f"over {len(errors)} cases"),
            "largest": Value(round(100 * max(errors), 1), "%", f"the largest of {len(errors)} cases"),
        }
        store("plan-cpu", values, "growth of resident memory (VmHWM) after the first step; 8 layers, width 256, fp32")
    print(f"\n{len(errors)} cases: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cases", type=int, nargs="+", default=range(len(cases())), help="numbers; all by default")
    options = arguments.parse_args()
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # read when a process starts
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.bench_plan", *sys.argv[1:]], os.environ | MMAP)
    cpu_table(list(options.cases))


if __name__ == "__main__":
    main()
