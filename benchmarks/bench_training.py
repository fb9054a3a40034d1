"""Useful tokens per second in training: our packed rows against two peers, on the same documents and the same model.

    python -m benchmarks.bench_training

(a) transformers' Trainer with padded batches, one document a row; (b) TRL's SFTTrainer with packing. Each trains the
default experiment's model once over the same documents (lengths log-normal, median 150 tokens, cut at 512). Useful
tokens are those of documents, not padding, so all have the same number of them to do. TRL lays the rows of a pass end
to end, and on the CPU attention then costs the square of their sum: it is given one row a pass, its fastest.

The peers take turns, each in a process of its own, on one thread, and what is compared is processor time. Wall time of
two threads would say more of what else runs on the machine.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import PrinterCallback, Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

from benchmarks.peers import documents, packed, sft_trainer
from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.experiment.machine_files import read_yaml
from scripts.training.engine.trainer import StageTrainer, stack

LENGTH, VOCABULARY, TOKENS, RUNS = 512, 4096, 20_000, 3
# rows per pass, and passes per step
PEERS = {"packed": (4, 2), "padded": (8, 1), "trl": (1, 8)}


def pad(rows: list[dict]) -> dict:
    """Documents padded to the longest of their batch."""
    longest = max(len(row["input_ids"]) for row in rows)
    ids, mask = torch.zeros(len(rows), longest, dtype=torch.int64), torch.zeros(len(rows), longest, dtype=torch.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row["input_ids"])], mask[index, : len(row["input_ids"])] = row["input_ids"], 1
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def measure(peer: str) -> float:
    """Useful tokens per processor second of one pass over the documents, in this process."""
    texts = documents(TOKENS, LENGTH, VOCABULARY, median=150)
    shape = read_yaml(Path("config/config.yaml"))["training"]["base"]["shape"]
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCABULARY, pad_token_id=0, **shape))
    rows, passes = PEERS[peer]
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "output_dir": folder, "num_train_epochs": 1, "per_device_train_batch_size": rows, "use_cache": False,
            "gradient_accumulation_steps": passes, "use_cpu": True, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_strategy": "no", "bf16": False, "activation_checkpointing": False,
        }  # fmt: skip
        arguments = TrainingArguments(**settings, remove_unused_columns=False)
        if peer == "trl":
            trainer = sft_trainer(model, texts, LENGTH, settings)
        elif peer == "packed":
            trainer = StageTrainer(model, arguments, train_dataset=packed(texts, LENGTH), data_collator=stack)
        else:
            rows = [{"input_ids": torch.from_numpy(text)} for text in texts]
            trainer = Trainer(model, arguments, train_dataset=rows, data_collator=pad)
        trainer.remove_callback(PrinterCallback)
        begin = time.process_time()
        trainer.train()
        return sum(map(len, texts)) / (time.process_time() - begin)


def rate(peer: str) -> float:
    words = [sys.executable, "-m", "benchmarks.bench_training", "--peer", peer]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise UserError(f"{peer}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--peer", choices=PEERS, help="measure this one alone, in this process")
    if peer := arguments.parse_args().peer:
        print(measure(peer))
        return
    rounds = [{peer: rate(peer) for peer in PEERS} for _ in range(RUNS)]
    for peer in PEERS:
        median = statistics.median(each[peer] for each in rounds)
        ratio = statistics.median(each["packed"] / each[peer] for each in rounds)
        print(f"training: {peer} {median:,.0f} useful tokens per processor second, packed is {ratio:.2f} times that")


if __name__ == "__main__":
    run(main)
