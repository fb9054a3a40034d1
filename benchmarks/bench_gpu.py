"""Training speed of models with random weights on one GPU or a CPU, here and with TRL: the tables `gpu` and `cpu`.

    python -m benchmarks.bench_gpu [--cases 0.5b-full 7b-lora ...] [--minutes 8]
    python -m benchmarks.bench_gpu --cases 135m-full 135m-lora --device cpu --length 256

bf16, on a CPU float32; four packed rows of 4,096 tokens a step, the best attention kernel in all. A stage of stagecraft
runs as its plan for this card says: micro-batch and recomputed layers. TRL runs as its defaults say (all layers
recomputed), and once more without recomputation and with Liger's kernels, where these are installed. All run in one
process, one after the other, those with Liger last: it replaces transformers' own classes for all models that are made
later. The rate is the median of windows of some steps, without the first. Beside the memory stands what the plan says
of it, without CUDA's context and fragmentation. A run that fails says so in its line.
"""

import gc
import importlib.util
import statistics
import tempfile
import time
import traceback

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

from benchmarks.figures import store
from scripts.common.cli import run
from scripts.common.options import parser
from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.tokens.pack import pieces_of
from scripts.training.engine.callbacks import RecomputedLayers
from scripts.training.engine.trainer import StageTrainer
from scripts.training.model.attention import collator_for, gpu_capability
from scripts.training.model.chunked_loss import use_chunked_loss
from scripts.training.model.compiled import choose_compile, compile_layers
from scripts.training.model.float32_products import float32_products
from scripts.training.model.kernels import choose_attention
from scripts.training.monitoring.measurements import Throughput, peak_flops
from scripts.training.planning.choice import Option, choose
from scripts.training.planning.states import GIB

# Qwen2.5's and SmolLM2's own; `tiny` is to try the benchmark out
SHAPES = {
    "tiny": (512, 64, 128, 2, 4, 2, True),
    "135m": (49152, 576, 1536, 30, 9, 3, True),
    "0.5b": (151936, 896, 4864, 24, 14, 2, True),
    "1.5b": (151936, 1536, 8960, 28, 12, 2, True),
    "7b": (152064, 3584, 18944, 28, 28, 4, False),
}
KEYS = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "tie_word_embeddings")  # fmt: skip
TRAINERS = ("stagecraft", "trl", "trl-tuned")
CASES = ("0.5b-full", "0.5b-lora", "1.5b-full", "1.5b-lora", "7b-lora", "7b-qlora")
WINDOW, WINDOWS = 4, 3  # steps between two measurements, and how many of these; the first one is a warm-up
LORA = {"r": 8, "targets": ["q_proj", "k_proj", "v_proj", "o_proj"]}
END = "<|endoftext|>"
UNCHANGED = torch.backends.mkldnn.matmul.fp32_precision


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


def planned(case: dict) -> Option:
    """How a stage of this repository would run on this card, by its plan: micro-batch, recomputed layers, memory."""
    shape = Shape(**dict(zip(KEYS, SHAPES[case["shape"]], strict=True)))
    method = case["method"]
    settings = {"from": "base", "data": "x", "steps": 1, "learning_rate": 1e-5}
    settings["precision"] = "fp32" if case["device"] == "cpu" else "bf16"
    settings |= {"method": "full" if method == "full" else "lora", "quantize": "4bit" if method == "qlora" else "none"}
    settings |= {"sequence_length": case["length"], "global_batch_size": case["rows"], "lora": {**LORA, "dropout": 0}}
    stage = Stage.parse(settings, "bench")
    machine = {"nodes": 1, "gpus": 1, "micro_batch_size": "auto", "gradient_checkpointing": "auto"}
    machine |= {"compile": case.get("compile", "auto")}
    if case["device"] == "cpu":
        machine |= {"gpus": 0, "cpu_tflops": 0.1}
    else:
        card = torch.cuda.get_device_properties(0)
        machine |= {"gpu_memory_gib": card.total_memory / GIB, "gpu_tflops": peak_flops(card.name) / 1e12}
    return choose("bench", stage, shape, Machine.parse(machine, "bench"))


def quantize(model: PreTrainedModel) -> None:
    """Put the layers' matrices into 4 bits as a stage with `quantize: 4bit` loads them, without writing them first."""
    import bitsandbytes

    for module in list(model.model.modules()):
        for name, linear in list(module.named_children()):
            if type(linear) is not torch.nn.Linear:
                continue
            small = bitsandbytes.nn.Linear4bit(
                linear.in_features, linear.out_features, linear.bias is not None, torch.bfloat16, True, "nf4"
            )
            small.weight = bitsandbytes.nn.Params4bit(
                linear.weight.data, requires_grad=False, compress_statistics=True, quant_type="nf4"
            )
            small.bias, device = linear.bias, linear.weight.device
            setattr(module, name, small.to(device))
    model.is_loaded_in_4bit = True


def measure(case: dict) -> dict:
    """Rate, MFU and memory of a trainer for `shape`, `method`, `device`, `rows` and `length`, in this process."""
    cpu, length, rows, ours = case["device"] == "cpu", case["length"], case["rows"], case["trainer"] == "stagecraft"
    attention = choose_attention(gpu_capability(not cpu), "fp32" if cpu else "bf16").name
    torch.backends.mkldnn.matmul.fp32_precision = UNCHANGED
    if cpu and ours:
        float32_products.__wrapped__()  # as a stage does; it is asked once a process
    shape, full = dict(zip(KEYS, SHAPES[case["shape"]], strict=True)), case["method"] == "full"
    option = planned(case)
    micro, accumulation = rows, 1
    if ours:
        micro, accumulation = option.batch
    recomputed = option.machine.recomputed(shape["num_hidden_layers"])
    torch.manual_seed(0)
    with torch.device(case["device"]):
        config = Qwen2Config(max_position_embeddings=length, pad_token_id=0, **shape)
        dtype = torch.float32 if full or cpu else torch.bfloat16  # frozen ones in that of compute, as in lora.py
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    if case["method"] == "qlora":
        quantize(model)
    if not full:
        adapted = LoraConfig(r=LORA["r"], target_modules=LORA["targets"], task_type="CAUSAL_LM")
        model = get_peft_model(model, adapted)
    texts = documents(WINDOW * WINDOWS * rows * length, length, shape["vocab_size"], median=length // 8)
    with tempfile.TemporaryDirectory() as folder:
        arguments = {
            "output_dir": folder, "max_steps": WINDOW * WINDOWS, "per_device_train_batch_size": micro, "use_cpu": cpu,
            "gradient_accumulation_steps": accumulation, "bf16": not cpu, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": WINDOW, "use_cache": False,
        }  # fmt: skip
        callbacks = [Throughput(rows * length, length, bf16=not cpu), Figures()]
        if ours:
            compiled = choose_compile(option.machine, option.settings)
            if compiled:
                compile_layers(model)
            given = TrainingArguments(**arguments, activation_checkpointing=recomputed > 0, remove_unused_columns=False)
            rows_given, collator = packed(texts, length), collator_for(attention, chunked=True)
            trainer = StageTrainer(model, given, train_dataset=rows_given, data_collator=collator)
            use_chunked_loss(model, "none", "", compiled)
            callbacks.append(RecomputedLayers(option.machine))
        elif case["trainer"] == "trl":
            trainer = sft_trainer(model, texts, length, arguments)
        else:
            liger = not cpu and importlib.util.find_spec("liger_kernel") is not None
            tuned = {"gradient_checkpointing": False, "use_liger_kernel": liger}
            trainer = sft_trainer(model, texts, length, arguments | tuned)
        for callback in callbacks:
            trainer.add_callback(callback)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    windows = callbacks[1].steps[1:]
    plan = sum(value for part, value in option.budget.gpu.items() if part not in ("CUDA", "fragmentation")) / GIB
    return {
        "attention": attention,
        "tokens_per_second": statistics.median(window["tokens_per_second"] for window in windows),
        "mfu": statistics.median(window.get("mfu", 0) for window in windows),
        "memory_gib": windows[-1].get("memory_allocated_gib", windows[-1].get("memory_resident_gib")),
        "planned_gib": plan,
        "loss": windows[-1]["loss"],
        "recomputed": recomputed,
        "micro_batch": micro,
    }


def alone(case: dict) -> dict | None:
    """`measure`, with the card's memory empty before and after; None with a printed line where it fails."""
    if case["device"] == "cuda":
        torch.cuda.reset_peak_memory_stats()
    result, began = None, time.monotonic()
    try:
        result = measure(case)
        print(f"{case['shape']} {case['method']} {case['trainer']} {case.get('compile', '')}: {result}", end=" ")
    except Exception as error:  # one that does not fit, or a kernel that fails: the others still run
        line = str(error).splitlines() or [""]
        print(f"{case['shape']} {case['method']} {case['trainer']}: {type(error).__name__}: {line[0][:200]}", end=" ")
        traceback.print_exc()
    print(f"({time.monotonic() - began:.0f} s)", flush=True)
    gc.collect()
    if case["device"] == "cuda":
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    return result


HEAD = ["model", "method", "tokens/s", "TRL's defaults", "TRL, tuned", "x", "MFU %", "GiB", "planned", "recomputed"]


def row(case: str, results: dict[str, dict]) -> list:
    """A row of the table; what failed is a dash."""
    shape, method = case.split("-")
    rates = [f"{results[name]['tokens_per_second']:,.0f}" if name in results else "-" for name in TRAINERS]
    ours = results.get("stagecraft")
    if not ours:
        return [shape, method, *rates, "-", "-", "-", "-", "-"]
    times = "-"
    if "trl" in results:
        times = round(ours["tokens_per_second"] / results["trl"]["tokens_per_second"], 2)
    memory, plan = round(ours["memory_gib"], 1), round(ours["planned_gib"], 1)
    layers = f"{ours['recomputed']} of {SHAPES[shape][3]}, {ours['micro_batch']} rows"
    return [shape, method, *rates, times, round(100 * ours["mfu"], 1), memory, plan, layers]


def main() -> None:
    arguments = parser(__doc__)
    known = [f"{shape}-{method}" for shape in SHAPES for method in ("full", "lora", "qlora")]
    arguments.add_argument("--cases", nargs="+", choices=known, default=CASES)
    arguments.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments.add_argument("--rows", type=int, default=4, help="rows per step")
    arguments.add_argument("--length", type=int, default=4096, help="tokens of a row")
    arguments.add_argument("--minutes", type=float, default=60, help="after this time no further run begins")
    options = arguments.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        # no error: `make bench` runs it everywhere
        print("bench_gpu: needs a CUDA GPU; `--cases tiny-full --device cpu --length 64` tries it out")
        return
    hardware = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{hardware}, torch {torch.__version__}", flush=True)
    began = time.monotonic()
    results = {name: {} for name in options.cases}
    runs = [(name, trainer) for name in options.cases for trainer in TRAINERS[:2]]
    runs += [(name, TRAINERS[2]) for name in options.cases]
    for name, trainer in runs:
        shape, method = name.split("-")
        case = {"shape": shape, "method": method, "device": options.device, "trainer": trainer}
        case |= {"rows": options.rows, "length": options.length}
        if time.monotonic() - began < 60 * options.minutes and (result := alone(case)):
            results[name][trainer] = result
    table = [HEAD]
    for name in options.cases:
        table.append(row(name, results[name]))
    for line in table:
        print(" | ".join(map(str, line)))
    if any(name.startswith("tiny") for name in options.cases):
        return
    conditions = (
        f"{hardware}, torch {torch.__version__}, {torch.get_num_threads()} threads; one run each, one after the other"
        f" in one process, the median of {WINDOWS - 1} windows of {WINDOW} steps; {options.rows} packed rows of"
        f" {options.length} tokens a step, random weights, the same attention kernel in all; tuned TRL: no"
        " recomputation, and on a GPU Liger's kernels"
    )
    name, columns = "gpu", len(HEAD)
    if options.device == "cpu":
        name, columns = "cpu", HEAD.index("MFU %")  # the memory of a process is that of all its runs
    store(name, {}, conditions, {"lines": [line[:columns] for line in table]})


if __name__ == "__main__":
    run(main)
