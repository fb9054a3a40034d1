"""What the training benchmarks share: documents, our packed rows of them, and TRL's SFTTrainer on the same ones."""

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Trainer
from trl import SFTConfig, SFTTrainer

from scripts.tokens.packing.placement import pieces_of

END = "<|endoftext|>"


def documents(tokens: int, length: int, vocabulary: int, median: int) -> list[np.ndarray]:
    """Random documents of at least `tokens` tokens together, their lengths log-normal and cut at `length`."""
    rng, arrays, total = np.random.default_rng(0), [], 0
    while total < tokens:
        arrays.append(rng.integers(1, vocabulary, int(np.clip(rng.lognormal(np.log(median), 1), 16, length))))
        total += len(arrays[-1])
    return arrays


def packed(texts: list[np.ndarray], length: int) -> list[dict[str, torch.Tensor]]:
    """Rows as scripts/training/engine/trainer.py gives them."""
    pieces, _, rows = pieces_of(np.array([len(text) for text in texts]), length, seed=0)
    ids, positions = np.zeros((rows, length), np.int64), np.zeros((rows, length), np.int64)
    labels = np.full((rows, length), -100)
    for row, start, count, document in pieces:
        end = start + count
        ids[row, start:end], positions[row, start:end] = texts[document], np.arange(count)
        labels[row, start + 1 : end] = texts[document][1:]
        positions[row, end:] = np.arange(length - end)  # padding, unless another document follows
    columns = {"input_ids": ids, "position_ids": positions, "labels": labels}
    return [{name: torch.from_numpy(array[row]) for name, array in columns.items()} for row in range(rows)]


def sft_trainer(model: PreTrainedModel, texts: list[np.ndarray], length: int, settings: dict) -> Trainer:
    """TRL's SFTTrainer with packing, best-fit decreasing as ours; no document is longer than a row."""
    words = Tokenizer(models.WordLevel({END: 0}, unk_token=END))
    return SFTTrainer(
        model,
        SFTConfig(**settings, packing=True, max_length=length),
        train_dataset=Dataset.from_dict({"input_ids": [text.tolist() for text in texts]}),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, pad_token=END, eos_token=END),
    )
