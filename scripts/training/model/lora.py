"""Low-rank adapters (Hu et al. 2021, arXiv 2106.09685) on a frozen model, quantized or not (Dettmers et al. 2023).

A stage with `method: lora` trains these in scripts/training/train.py. Quantized weights are used for training only: the
adapter is merged into, and evaluated with, the weights as they were saved. Merging into dequantized weights would make
their rounding errors permanent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import BitsAndBytesConfig, PreTrainedModel, set_seed
from transformers.pytorch_utils import Conv1D

from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file, write_json
from scripts.common.manifest import NAME
from scripts.experiment.settings.training import Stage
from scripts.training.model.kernels import ALL_LINEAR, unknown_target
from scripts.training.model.loading import ONE_FILE, load_model, merge_adapter

if TYPE_CHECKING:
    from peft import PeftModel  # it imports bitsandbytes, which a stage without adapters does not need

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def quantization_config(quantize: str, compute: torch.dtype) -> BitsAndBytesConfig | None:
    """bitsandbytes' settings: LLM.int8 (Dettmers et al. 2022), or NF4 with quantized constants (QLoRA)."""
    if quantize == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    if quantize == "4bit":
        return BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=compute
        )
    return None


def linear_names(model: PreTrainedModel) -> list[str]:
    """The names, without their path, of the linear layers below the head; GPT-2's are of transformers' own class."""
    head = model.get_output_embeddings()
    linear = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and module is not head
    ]
    return sorted({name.rpartition(".")[2] for name in linear})


def load_with_adapters(
    name: str, settings: Stage, seed: int, origin: Path, device: torch.device, **options
) -> PeftModel:
    """Load the model in `origin`, frozen and quantized as the stage says, with new adapters in float32.

    Unquantized weights are held in the precision of compute: frozen, they need no float32 copy.

    Args:
        name: the stage's, for errors.
        seed: of the adapters' first weights.
        options: further arguments of `from_pretrained`.

    Raises:
        UserError: a target is no linear layer of the model, or bitsandbytes does not run here.
    """
    from peft import LoraConfig, get_peft_model

    lora, key = settings.lora, f"training.train.{name}"
    dtype = torch.bfloat16 if settings.precision == "bf16" else torch.float32
    config = quantization_config(settings.quantize, dtype)
    if config:
        try:
            import bitsandbytes  # noqa: F401
        except (ImportError, OSError, RuntimeError) as error:
            raise UserError(f"{key}.quantize: bitsandbytes does not load here ({error}); use `none`") from error
        options |= {"quantization_config": config, "device_map": {"": device}}
    model = load_model(origin, dtype, **options)
    for module in model.modules():
        # On some CPUs bitsandbytes would repack 4-bit weights to bfloat16 for evaluation, and back for training: not
        # for all widths, and another result than in training.
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    known = linear_names(model)
    unknown = unknown_target(lora.targets, known)
    if unknown:
        raise UserError(
            f"{key}.lora.targets: no linear layer {unknown!r} in {origin}; use `{ALL_LINEAR}`, or some of"
            f" {', '.join(known)}"
        )
    set_seed(seed)
    config = LoraConfig(
        r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.targets, task_type="CAUSAL_LM"
    )
    return get_peft_model(model, config)


def finish_adapter_folder(folder: Path, settings: Stage, origin: Path, out: Path) -> dict:
    """Turn the adapter that peft saved to `folder` into the content of the stage's folder `out`.

    With `merge` that is a plain model in the precision of `origin`'s weights; else the adapter. peft's README and
    machine paths are removed; the order of `target_modules`, a set, is fixed.

    Returns:
        Facts for the folder's manifest: the base model of an adapter, nothing for a merged model.
    """
    (folder / "README.md").unlink(missing_ok=True)
    if settings.lora.merge:
        merge_adapter(load_model(origin, "auto"), folder).save_pretrained(folder, max_shard_size=ONE_FILE)
        (folder / WEIGHTS).unlink()
        (folder / CONFIG).unlink()
        return {}
    base = os.path.relpath(origin, out)
    config = read_json(folder / CONFIG)
    config |= {"base_model_name_or_path": base, "target_modules": sorted(config["target_modules"])}
    write_json(folder / CONFIG, config)
    manifest = sha256_file(origin / NAME)
    return {"adapter": {"base": base, "base_manifest": manifest, "quantize": settings.quantize}}
