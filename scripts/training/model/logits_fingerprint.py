"""A model's fingerprint: a few of its logits, saved beside the weights and checked whenever the folder is loaded.

The manifest says that the files are the same; this says that what was loaded from them is the same function: RoPE on
and off where it should be, each weight in its place, the vocabulary that the model was made with. By hand:

    python -m scripts.training.model.logits_fingerprint --model results/training/train/sft

`logits.json` holds logits at a few positions of a fixed text: those of the likeliest tokens and of others picked by
hash. They are always computed in float32 on the CPU, once with the weights as saved and once with the weights rounded
to bfloat16, so a model loaded in either type has a reference without the noise of that type. The distance of two
fingerprints is the root mean square of the difference in units of the logits' own standard deviation. Measured on
models trained and untrained, of 2 to 24 layers: sdpa against eager attention 1e-7 to 6e-7; RoPE flipped in one layer
1e-3 to 1; rope_theta doubled 2e-4 to 2e-1; one matrix taken from another layer 2e-3 to 3. (With bfloat16 arithmetic
noise alone is 4e-3 to 3e-2, which would hide the first three.) Memory: the weights in float32.

The file is no part of the manifest: another processor may give other last digits, and no stage should run again for it.
"""

import hashlib
import logging
from pathlib import Path

import torch
from transformers import PreTrainedModel
from transformers.integrations import deepspeed
from transformers.utils import logging as transformers_logging

from scripts.common.cli import UserError, parser, run
from scripts.common.files import read_json, write_json
from scripts.training.model.loading import base_of, load_model

NAME = "logits.json"
TOKENS, POSITIONS = 64, [15, 31, 47, 63]
LIKELIEST, PICKED = 8, 16
TOLERANCE = 5e-5


def numbers(label: str, count: int, below: int) -> list[int]:
    """`count` integers in [0, below), by sha256 of label and place."""
    hashes = (hashlib.sha256(f"{label} {place}".encode()).digest() for place in range(count))
    return [int.from_bytes(digest) % below for digest in hashes]


def load(folder: Path) -> PreTrainedModel:
    """The model in `folder` on the CPU, weights in float32 and whole, also in the middle of a ZeRO-3 run."""
    transformers_logging.disable_progress_bar()
    running, deepspeed._hf_deepspeed_config_weak_ref = deepspeed._hf_deepspeed_config_weak_ref, None
    try:
        return load_model(folder, torch.float32)
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = running


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    """float32 [positions, vocabulary] on the fixed text, computed in float32; the model comes back as it was.

    bfloat16 → float32 → bfloat16 loses nothing. Buffers (RoPE's frequencies) are float32 in either type.
    """
    types = [parameter.dtype for parameter in model.parameters()]
    training, attention = model.training, model.config._attn_implementation
    model.eval()
    model.set_attn_implementation("eager" if attention == "eager" else "sdpa")  # flash kernels know no float32
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    ids = torch.tensor([numbers("text", TOKENS, model.config.vocab_size)], device=model.device)
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
    found = logits(model)
    if not found.isfinite().all():
        raise UserError("the model has diverged: its logits are not finite")
    picked = torch.tensor([numbers("picked", PICKED, found.shape[1])] * len(POSITIONS))
    places = torch.cat([found.topk(LIKELIEST).indices, picked], 1)  # [positions, likeliest + picked]
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    values = {"float32": found.gather(1, places), "bfloat16": logits(model).gather(1, places)}
    return {
        "vocab_size": found.shape[1],
        "spread": float(f"{found.std(1).mean().item():.6g}"),
        "places": places.tolist(),
        # more digits than six would say nothing about a float32 sum
        "logits": {name: [[float(f"{x:.6g}") for x in row] for row in rows.tolist()] for name, rows in values.items()},
    }


def save(folder: Path, model: PreTrainedModel) -> None:
    """Write the fingerprint of `model`, as `load` gives it, to `folder`.

    Raises:
        UserError: its logits are not finite.
    """
    write_json(folder / NAME, fingerprint(model))


def distance(model: PreTrainedModel, said: dict) -> float:
    """Root mean square difference of a model's logits to those of fingerprint `said`, in standard deviations."""
    found = logits(model).gather(1, torch.tensor(said["places"]))
    expected = torch.tensor(said["logits"][str(model.dtype).removeprefix("torch.")])
    return ((found - expected).square().mean().sqrt() / said["spread"]).item()


def whole(model: PreTrainedModel) -> bool:
    """Whether the weights are all here as float32 or bfloat16: not ZeRO-3 shards, not quantized."""
    return all(
        parameter.dtype in (torch.float32, torch.bfloat16) and not hasattr(parameter, "ds_id")
        for parameter in model.parameters()
    )


def check(model: PreTrainedModel, folder: Path) -> None:
    """Compare a model just loaded from `folder`, best on the CPU, with its fingerprint.

    One that is sharded or quantized cannot be compared; then the folder is loaded once more, whole and in float32. So
    is an adapter in bfloat16, whose sum with rounded weights is rounded twice.

    Raises:
        UserError: there is no fingerprint, or the model is another function than the one that was saved.
    """
    path = folder / NAME
    if not path.is_file():
        raise UserError(f"{path}: missing, so nothing says that the model loads as it was saved; make the folder again")
    said = read_json(path)
    if model.config.vocab_size != said["vocab_size"]:
        raise UserError(f"{path}: is of {said['vocab_size']} tokens, the model has {model.config.vocab_size}")
    comparable = whole(model) and (model.dtype == torch.float32 or base_of(folder) is None)
    far = distance(model if comparable else load(folder), said)
    if far != far:
        raise UserError(f"{folder}: the model has diverged: its logits are not finite")
    if far > TOLERANCE:
        raise UserError(
            f"{folder}: the model as loaded is not the one that was saved: logits differ by {far:.1e} of their spread "
            f"(tolerance {TOLERANCE:.0e}); were its RoPE layers, rope_theta or weights changed?"
        )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--model", type=Path, required=True, help="model folder to check")
    given = arguments.parse_args()
    check(load(given.model), given.model)
    logging.info(f"{given.model}: loads as it was saved")


if __name__ == "__main__":
    run(main)
