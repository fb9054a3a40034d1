"""Low-rank adapters (Hu et al. 2021, arXiv 2106.09685) on a frozen model, quantized or not (Dettmers et al. 2023).

A stage with `method: lora` trains these in scripts/training/train.py. Quantized weights serve the training alone: what
is merged and what is evaluated are the weights as they were saved, with the adapter added. Merging into the dequantized
ones would keep their rounding for good.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import BitsAndBytesConfig, PreTrainedModel, set_seed

from scripts.common.cli import UserError
from scripts.common.files import read_json, sha256_file, write_json
from scripts.common.manifest import NAME
from scripts.training.model.loading import add_adapter, load_model

if TYPE_CHECKING:
    from peft import PeftModel  # it loads bitsandbytes, which a stage without adapters does without

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def quantization(how: str, compute: torch.dtype) -> BitsAndBytesConfig | None:
    """bitsandbytes' settings: LLM.int8 (Dettmers et al. 2022), or NF4 with quantized constants (QLoRA)."""
    if how == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    if how == "4bit":
        return BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=compute,
        )
    return None


def linear_names(model: PreTrainedModel) -> list[str]:
    """The names, without their path, of the linear layers below the head."""
    found = {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
    return sorted(found - {"lm_head"})


def with_adapters(name: str, stage: dict, origin: Path, device: torch.device, **options) -> PeftModel:
    """The model in `origin`, frozen and quantized as the stage says, with fresh adapters in float32.

    Unquantized weights are held in the precision of compute: frozen, they need no float32 copy.

    Args:
        name: the stage's, for errors.
        options: further arguments of `from_pretrained`.

    Raises:
        UserError: a target is no linear layer of the model, or bitsandbytes does not run here.
    """
    from peft import LoraConfig, get_peft_model

    settings, key = stage["lora"], f"training.train.{name}"
    dtype = torch.bfloat16 if stage["precision"] == "bf16" else torch.float32
    if config := quantization(stage["quantize"], dtype):
        try:
            import bitsandbytes  # noqa: F401
        except (ImportError, OSError, RuntimeError) as error:
            raise UserError(f"{key}.quantize: bitsandbytes does not load here ({error}); use `none`") from error
        options |= {"quantization_config": config, "device_map": {"": device}}
    model = load_model(origin, dtype, **options)
    for part in model.modules():
        # On some CPUs bitsandbytes would repack 4-bit weights to bfloat16 for evaluation, and back for training: not
        # for all widths, and another result than in training.
        if hasattr(part, "support_avx512bf16_for_cpu"):
            part.support_avx512bf16_for_cpu = False
    known = linear_names(model)
    if other := [target for target in settings["targets"] if target not in known]:
        raise UserError(f"{key}.lora.targets: no linear layer {other[0]!r} in {origin}; there: {', '.join(known)}")
    set_seed(stage["seed"])  # the adapters' first weights are drawn here
    config = LoraConfig(
        r=settings["r"],
        lora_alpha=settings["alpha"],
        lora_dropout=settings["dropout"],
        target_modules=settings["targets"],
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def finish(made: Path, stage: dict, origin: Path, out: Path) -> dict:
    """Make of the adapter that peft saved to `made` what the stage's folder `out` will hold; facts for its manifest.

    With `merge` that is a plain model in the precision of `origin`'s weights; else the adapter, whose manifest says
    what it stands on. peft's README and machine paths go; the order of `target_modules`, a set, is fixed.
    """
    (made / "README.md").unlink(missing_ok=True)
    if stage["lora"]["merge"]:
        add_adapter(load_model(origin, "auto"), made).save_pretrained(made)
        (made / WEIGHTS).unlink()
        (made / CONFIG).unlink()
        return {}
    base = os.path.relpath(origin, out)
    config = read_json(made / CONFIG)
    config |= {"base_model_name_or_path": base, "target_modules": sorted(config["target_modules"])}
    write_json(made / CONFIG, config)
    manifest = sha256_file(origin / NAME)
    return {"adapter": {"base": base, "base_manifest": manifest, "quantize": stage["quantize"]}}
