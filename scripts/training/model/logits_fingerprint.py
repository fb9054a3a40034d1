"""Model integrity check: a few logits, saved beside the weights and compared whenever the folder is loaded.

The manifest proves that the files are the same; this proves that the model loaded from them is the same function: RoPE
on and off in the right layers, each weight in its place, the right vocabulary.

`logits.json` holds logits at a few positions of a fixed text: those of the likeliest tokens and of others selected by
hash. They are always computed in float32 on the CPU, once with the weights as saved and once with the weights rounded
to bfloat16, so that a model loaded in either type is compared without the noise of that type. The distance of two
fingerprints is the root mean square of the difference in units of the logits' own standard deviation. Measured on
models trained and untrained, of 2 to 24 layers: sdpa against eager attention 1e-7 to 6e-7; RoPE flipped in one layer
1e-3 to 1; rope_theta doubled 2e-4 to 2e-1; one matrix taken from another layer 2e-3 to 3. (With bfloat16 arithmetic,
noise alone is 4e-3 to 3e-2, which would hide the first three.) Memory: the weights in float32.

The file is not part of the manifest: another processor may give other last digits, which must not rerun a stage.
"""

import hashlib
import math
from pathlib import Path

import torch
from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.training.model.loading import adapter_base, load_model

NAME = "logits.json"
TOKENS, POSITIONS = 64, [15, 31, 47, 63]
LIKELIEST, SELECTED = 8, 16
TOLERANCE = 5e-5


def hashed_integers(label: str, count: int, below: int) -> list[int]:
    """`count` integers in [0, below), by sha256 of label and place."""
    hashes = (hashlib.sha256(f"{label} {place}".encode()).digest() for place in range(count))
    return [int.from_bytes(digest) % below for digest in hashes]


def load_float32(folder: Path) -> PreTrainedModel:
    """Load the model in `folder` on the CPU, weights in float32.

    In a ZeRO-3 run call it within scripts/training/engine/parallel.py's `whole_model_loading`.
    """
    transformers_logging.disable_progress_bar()
    return load_model(folder, torch.float32)


@torch.no_grad()
def reference_logits(model: PreTrainedModel) -> torch.Tensor:
    """float32 [positions, vocabulary] on the fixed text, computed in float32; the model is left unchanged.

    bfloat16 → float32 → bfloat16 loses nothing. Buffers (RoPE's frequencies) are float32 in either type.
    """
    types = [parameter.dtype for parameter in model.parameters()]
    training, attention = model.training, model.config._attn_implementation
    model.eval()
    model.set_attn_implementation("eager" if attention == "eager" else "sdpa")  # flash kernels have no float32
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    ids = torch.tensor([hashed_integers("text", TOKENS, model.config.vocab_size)], device=model.device)
    result = model(input_ids=ids, use_cache=False, logits_to_keep=torch.tensor(POSITIONS)).logits[0].float().cpu()
    for parameter, dtype in zip(model.parameters(), types, strict=True):
        parameter.data = parameter.data.to(dtype)
    model.set_attn_implementation(attention)
    model.train(training)
    return result


def fingerprint(model: PreTrainedModel) -> dict:
    """The fingerprint of a model with float32 weights, which are rounded to bfloat16 on the way.

    Raises:
        UserError: the logits are not finite.
    """
    logits = reference_logits(model)
    if not logits.isfinite().all():
        raise UserError("the model has diverged: its logits are not finite")
    selected = torch.tensor([hashed_integers("picked", SELECTED, logits.shape[1])] * len(POSITIONS))
    places = torch.cat([logits.topk(LIKELIEST).indices, selected], 1)  # [positions, likeliest + selected]
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    values = {"float32": logits.gather(1, places), "bfloat16": reference_logits(model).gather(1, places)}
    return {
        "vocab_size": logits.shape[1],
        "spread": float(f"{logits.std(1).mean().item():.6g}"),
        "places": places.tolist(),
        # digits beyond the sixth of a float32 sum are noise
        "logits": {name: [[float(f"{x:.6g}") for x in row] for row in rows.tolist()] for name, rows in values.items()},
    }


def save(folder: Path, model: PreTrainedModel) -> None:
    """Write the fingerprint of `model`, as `load_float32` gives it, to `folder`.

    Raises:
        UserError: its logits are not finite.
    """
    write_json(folder / NAME, fingerprint(model))


def distance(model: PreTrainedModel, saved: dict) -> float:
    """Root mean square difference of a model's logits to those of fingerprint `saved`, in standard deviations."""
    actual = reference_logits(model).gather(1, torch.tensor(saved["places"]))
    expected = torch.tensor(saved["logits"][str(model.dtype).removeprefix("torch.")])
    return ((actual - expected).square().mean().sqrt() / saved["spread"]).item()


def has_whole_weights(model: PreTrainedModel) -> bool:
    """Whether all weights are in this process as float32 or bfloat16: not sharded by ZeRO-3, not quantized."""
    return all(
        parameter.dtype in (torch.float32, torch.bfloat16) and not hasattr(parameter, "ds_id")
        for parameter in model.parameters()
    )


def check(model: PreTrainedModel, folder: Path) -> None:
    """Compare a model just loaded from `folder`, best on the CPU, with its saved fingerprint.

    A sharded or quantized model cannot be compared; then the folder is loaded once more, in float32. So is an adapter
    in bfloat16, whose sum with rounded weights is rounded twice.

    Raises:
        UserError: there is no fingerprint, or the model is another function than the one that was saved.
    """
    path = folder / NAME
    if not path.is_file():
        raise UserError(f"{path}: missing, so the model cannot be checked; make the folder again")
    saved = read_json(path)
    if model.config.vocab_size != saved["vocab_size"]:
        raise UserError(
            f"{path}: made with a vocabulary of {saved['vocab_size']}, the model has {model.config.vocab_size}"
        )
    comparable = has_whole_weights(model) and (model.dtype == torch.float32 or adapter_base(folder) is None)
    difference = distance(model if comparable else load_float32(folder), saved)
    if math.isnan(difference):
        raise UserError(f"{folder}: the model has diverged: its logits are not finite")
    if difference > TOLERANCE:
        raise UserError(
            f"{folder}: the model as loaded is not the one that was saved: logits differ by {difference:.1e} of their "
            f"spread (tolerance {TOLERANCE:.0e}); were its RoPE layers, rope_theta or weights changed?"
        )
