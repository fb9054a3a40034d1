"""Useful tokens per second in training: our packed rows against transformers' Trainer with padded batches.

    python -m tests.benchmarks.bench_training

Both train the embedded default's model on the same documents (lengths log-normal, median 150 tokens, cut at 512) for
the same number of rows per step, in turn, in one process. Useful tokens are those of documents, not padding.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import PrinterCallback, Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

from scripts.common.config import read_yaml
from scripts.training.trainer import StageTrainer, stack

LENGTH, ROWS, STEPS, RUNS = 512, 8, 6, 3


def documents(rng: np.random.Generator, tokens: int) -> list[np.ndarray]:
    found = []
    while sum(map(len, found)) < tokens:
        found.append(rng.integers(0, 8192, int(np.clip(rng.lognormal(5.0, 1.0), 16, LENGTH))))
    return found


def padded(texts: list[np.ndarray]) -> list[dict]:
    """One document a row, padded to the longest of its batch by the collator."""
    return [{"input_ids": torch.from_numpy(text)} for text in texts]


def collate(rows: list[dict]) -> dict:
    longest = max(len(row["input_ids"]) for row in rows)
    ids, mask = torch.zeros(len(rows), longest, dtype=torch.int64), torch.zeros(len(rows), longest, dtype=torch.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row["input_ids"])], mask[place, : len(row["input_ids"])] = row["input_ids"], 1
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def packed(texts: list[np.ndarray]) -> list[dict]:
    """Documents end to end in full rows, positions starting anew."""
    flat = torch.from_numpy(np.concatenate(texts))
    positions = torch.from_numpy(np.concatenate([np.arange(len(text)) for text in texts]))
    rows = len(flat) // LENGTH
    ids, places = (tensor[: rows * LENGTH].view(rows, LENGTH) for tensor in (flat, positions))
    return [
        {"input_ids": i, "position_ids": p, "labels": i.masked_fill(p == 0, -100)}
        for i, p in zip(ids, places, strict=True)
    ]


def rate(trainer_class: type, rows: list[dict], collator, useful: float) -> float:
    shape = read_yaml(Path("config/config.yaml"))["training"]["base"]["shape"]
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=8192, **shape))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=ROWS, use_cpu=True, save_strategy="no", report_to=[],
            disable_tqdm=True, remove_unused_columns=False, logging_strategy="no", use_cache=False,
        )  # fmt: skip
        trainer = trainer_class(model, arguments, train_dataset=rows, data_collator=collator)
        trainer.remove_callback(PrinterCallback)
        begin = time.perf_counter()
        trainer.train()
        return useful * STEPS / (time.perf_counter() - begin)


def main() -> None:
    texts = documents(np.random.default_rng(0), 2 * STEPS * ROWS * LENGTH)
    mean = float(np.mean([len(text) for text in texts]))
    pairs = []
    for _ in range(RUNS):
        ours = rate(StageTrainer, packed(texts), stack, ROWS * LENGTH)
        theirs = rate(Trainer, padded(texts), collate, ROWS * mean)
        pairs.append((ours, theirs))
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"training: packed {ours:,.0f} useful tokens/s, padded Trainer {theirs:,.0f}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
