"""Training speed of Qwen2.5-shaped models with random weights on one GPU: a Markdown table for benchmarks/README.md.

    uv pip install --group gpu
    python -m benchmarks.bench_gpu [--shapes 0.5b 1.5b 7b] [--rows 4]
    python -m benchmarks.bench_gpu --shapes tiny --device cpu --length 64      # tries it out

Each model, fully trained and with LoRA, in bf16 with checkpointed activations, over packed rows of 4096 tokens: sdpa,
the best kernel of scripts/training/model/attention.py and Liger in turn, and TRL's SFTTrainer with packing. Each line
is a process of its own; the rate is a median over the steps after the first five. Beside the memory stands what the
plan says of it, without CUDA's context and fragmentation. A run that fails says so in its line.
"""

import datetime
import json
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models
from transformers import (
    AutoModelForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Qwen2Config,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from trl import SFTConfig, SFTTrainer

from scripts.common.cli import run
from scripts.common.options import parser
from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.tokens.pack import pieces_of
from scripts.training.engine.trainer import StageTrainer
from scripts.training.model.attention import collator_for, gpu_capability
from scripts.training.model.chunked_loss import use_chunked_loss
from scripts.training.model.kernels import choose_attention, installed_kernels
from scripts.training.model.liger import choose_liger, liger_kernels
from scripts.training.monitoring.measurements import Throughput
from scripts.training.planning.budget import stage_budget
from scripts.training.planning.resolved_stage import Batch
from scripts.training.planning.states import GIB

# Qwen2.5's own; `tiny` is to try the benchmark out
SHAPES = {
    "tiny": (512, 64, 128, 2, 4, 2, True),
    "0.5b": (151936, 896, 4864, 24, 14, 2, True),
    "1.5b": (151936, 1536, 8960, 28, 12, 2, True),
    "7b": (152064, 3584, 18944, 28, 28, 4, False),
}
KEYS = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "tie_word_embeddings")  # fmt: skip
VARIANTS = [
    {"trainer": "stagecraft", "attention": "sdpa", "liger": False},
    {"trainer": "stagecraft", "attention": "best", "liger": False},
    {"trainer": "stagecraft", "attention": "best", "liger": True},
    {"trainer": "trl", "attention": "best", "liger": "auto"},
]
WARM, STEPS = 5, 15
LORA = {"r": 8, "targets": ["q_proj", "k_proj", "v_proj", "o_proj"]}
END = "<|endoftext|>"


def documents(tokens: int, length: int, vocabulary: int, median: int) -> list[np.ndarray]:
    """Random documents of at least `tokens` tokens together, their lengths log-normal and cut at `length`."""
    rng, arrays, total = np.random.default_rng(0), [], 0
    while total < tokens:
        arrays.append(rng.integers(1, vocabulary, int(np.clip(rng.lognormal(np.log(median), 1), 16, length))))
        total += len(arrays[-1])
    return arrays


class PackedRows(list):
    """Rows as `Rows` of scripts/training/engine/trainer.py gives them, all in memory."""

    rows = property(list.__len__)


def packed(texts: list[np.ndarray], length: int) -> PackedRows:
    """The documents packed into rows, each a dict of int64 [length]."""
    pieces, _, rows = pieces_of(np.array([len(text) for text in texts]), length, seed=0)
    ids, positions = np.zeros((rows, length), np.int64), np.zeros((rows, length), np.int64)
    labels = np.full((rows, length), -100)
    for row, start, count, document in pieces:
        end = start + count
        ids[row, start:end], positions[row, start:end] = texts[document], np.arange(count)
        labels[row, start + 1 : end] = texts[document][1:]
        positions[row, end:] = np.arange(length - end)  # padding, unless another document follows
    columns = {"input_ids": ids, "position_ids": positions, "labels": labels}
    every = {name: torch.from_numpy(array) for name, array in columns.items()}
    return PackedRows({name: tensor[row] for name, tensor in every.items()} for row in range(rows))


def sft_trainer(model: PreTrainedModel, texts: list[np.ndarray], length: int, settings: dict) -> Trainer:
    """TRL's SFTTrainer with packing, best-fit decreasing as ours; no document is longer than a row."""
    words = Tokenizer(models.WordLevel({END: 0}, unk_token=END))
    return SFTTrainer(
        model,
        SFTConfig(**settings, packing=True, max_length=length),
        train_dataset=Dataset.from_dict({"input_ids": [text.tolist() for text in texts]}),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, pad_token=END, eos_token=END),
    )


class Figures(TrainerCallback):
    """Keeps the figures that Throughput adds to each logged step."""

    def __init__(self):
        self.steps = []

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" in logs:
            self.steps.append(dict(logs))


def planned(case: dict) -> float:
    """GiB by the plan, for what a stage of this repository would run: the best kernel of attention."""
    shape = Shape(**dict(zip(KEYS, SHAPES[case["shape"]], strict=True)))
    settings = {"from": "base", "data": "x", "steps": 1, "learning_rate": 1e-5, "method": case["method"]}
    settings |= {"sequence_length": case["length"], "global_batch_size": case["rows"], "lora": {**LORA, "dropout": 0}}
    stage, batch = Stage.parse(settings, "bench"), Batch(case["rows"], 1)
    machine = {"nodes": 1, "gpus": 1, "micro_batch_size": case["rows"], "liger": case["liger"]}
    machine = Machine.parse(machine | {"gradient_checkpointing": True}, "bench")
    gpu_bytes = stage_budget(stage, shape, machine, batch, validates=False).gpu
    return sum(value for part, value in gpu_bytes.items() if part not in ("CUDA", "fragmentation")) / GIB


def measure(case: dict) -> dict:
    """Rate, MFU and memory of a variant with `shape`, `method`, `device`, `rows` and `length`, in this process."""
    cpu, length, rows, attention = case["device"] == "cpu", case["length"], case["rows"], case["attention"]
    if attention == "best":
        attention = choose_attention(gpu_capability(1), "bf16", installed_kernels()).name
    shape = dict(zip(KEYS, SHAPES[case["shape"]], strict=True))
    liger = choose_liger(Machine(nodes=1, gpus=0 if cpu else 1, micro_batch_size=1, liger=case["liger"]), "qwen2")
    lora = case["method"] == "lora"
    torch.manual_seed(0)
    with torch.device(case["device"]):
        config = Qwen2Config(max_position_embeddings=length, pad_token_id=0, **shape)
        dtype = torch.bfloat16 if lora else torch.float32  # frozen ones in that of compute, as in lora.py
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    if lora:
        adapted = LoraConfig(r=LORA["r"], target_modules=LORA["targets"], task_type="CAUSAL_LM")
        model = get_peft_model(model, adapted)
    texts = documents(STEPS * rows * length, length, shape["vocab_size"], median=length // 8)
    with tempfile.TemporaryDirectory() as folder:
        trainer_arguments = {
            "output_dir": folder, "max_steps": STEPS, "per_device_train_batch_size": rows, "use_cpu": cpu, "bf16": True,
            "activation_checkpointing": True, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 1, "use_cache": False,
        }  # fmt: skip
        if case["trainer"] == "trl":
            trainer = sft_trainer(model, texts, length, {**trainer_arguments, "use_liger_kernel": liger})
        else:
            arguments = TrainingArguments(**trainer_arguments, remove_unused_columns=False)
            data, collator = packed(texts, length), collator_for(attention)
            trainer = StageTrainer(model, arguments, train_dataset=data, data_collator=collator)
            use_chunked_loss(model, "none", own="")
        figures = Figures()
        for callback in (Throughput(rows * length, length, bf16=True), figures):
            trainer.add_callback(callback)
        trainer.remove_callback(PrinterCallback)
        with liger_kernels(model, liger and case["trainer"] != "trl", loss=False):
            trainer.train()
    steps, last = figures.steps[WARM:], figures.steps[-1]
    return {
        "attention": attention,
        "liger": liger,
        "tokens_per_second": statistics.median(step["tokens_per_second"] for step in steps),
        "mfu": statistics.median(step["mfu"] for step in steps) if "mfu" in last else None,
        "memory_gib": last.get("memory_allocated_gib", last.get("memory_resident_gib")),
        "planned_gib": planned(case) if case["trainer"] == "stagecraft" and case["attention"] == "best" else None,
    }


def line(case: dict) -> str:
    """One line of the table, measured in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.bench_gpu", "--measure", json.dumps(case)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        result, figures = case, [done.stderr.strip().splitlines()[-1][:100], "", "", ""]
    else:
        result = json.loads(done.stdout.splitlines()[-1])
        mfu, plan = f"{result['mfu']:.1%}" if result["mfu"] else "unknown", result["planned_gib"]
        figures = [f"{result['tokens_per_second']:,.0f}", mfu, f"{result['memory_gib']:.1f}"]
        figures.append(f"{plan:.1f}" if plan else "")
        if plan and case["device"] == "cuda":  # on the CPU the memory measured is the whole process'
            figures[-1] += f" ({plan / result['memory_gib'] - 1:+.1%})"
    kernels = [result["attention"], "yes" if result["liger"] else "no"]
    return f"| {' | '.join([case['shape'], case['method'], case['trainer'], *kernels, *figures])} |"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--shapes", nargs="+", choices=SHAPES, default=["0.5b", "1.5b", "7b"])
    arguments.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments.add_argument("--rows", type=int, default=4, help="rows per step")
    arguments.add_argument("--length", type=int, default=4096, help="tokens of a row")
    arguments.add_argument("--measure", type=json.loads, help="one line alone, in this process")
    options = arguments.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    if options.device == "cuda" and not torch.cuda.is_available():
        # no error: `make bench` runs it everywhere
        print("bench_gpu: needs a CUDA GPU; without one `--shapes tiny --device cpu --length 64` tries it out")
        return
    hardware = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{datetime.date.today()}, {hardware}, torch {torch.__version__}: {' '.join(sys.argv[1:])}\n")
    print("| model | method | trainer | attention | Liger | tokens/s | MFU | memory, GiB | planned |")
    print("|---|---|---|---|---|---|---|---|---|")
    conditions = {"device": options.device, "rows": options.rows, "length": options.length}
    for shape in options.shapes:
        for method in ("full", "lora"):
            for variant in VARIANTS:
                print(line({**variant, **conditions, "shape": shape, "method": method}), flush=True)


if __name__ == "__main__":
    run(main)
