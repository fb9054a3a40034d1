"""Loading a model folder, plain or an adapter that stands on another folder: one function for stages and evaluation.

    model = load_model(Path("results/training/train/sft"), torch.float32)

The folder of a LoRA stage without `merge` holds an adapter. Its manifest says on which folder it stands (a path from
the adapter's folder on, so that a results root can be moved as a whole) and the sha256 of that folder's manifest.
"""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from scripts.common.cli import UserError
from scripts.common.files import read_json, sha256_file
from scripts.common.manifest import NAME, read_manifest


def base_of(folder: Path) -> Path | None:
    """The folder that the adapter in `folder` stands on; None for a plain model.

    Raises:
        UserError: that folder is not there, or not the one that the adapter was trained on.
    """
    adapter = read_json(folder / NAME).get("adapter")
    if adapter is None:
        return None
    base = (folder / adapter["base"]).resolve()
    if not (base / NAME).is_file():
        raise UserError(f"{folder}: its adapter stands on {base}, which is not there; bring that folder too")
    if sha256_file(base / NAME) != adapter["base_manifest"]:
        raise UserError(f"{folder}: its adapter was trained on another model than {base} holds now; train it again")
    return base


def add_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """The plain model that `model` with the adapter in `folder` is: each sum is taken in float32, then rounded once."""
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer

    adapted = PeftModel.from_pretrained(model, str(folder))
    with torch.no_grad():
        for layer in adapted.modules():
            if isinstance(layer, LoraLayer):
                weight = layer.get_base_layer().weight
                for name in layer.active_adapters:
                    weight.copy_(weight.float() + layer.get_delta_weight(name).float())
    return adapted.unload().requires_grad_(True)  # peft froze it


def load_model(folder: Path, dtype: torch.dtype | str, **options) -> PreTrainedModel:
    """The model in `folder`, an adapter already added to what it stands on.

    Args:
        dtype: of the weights; "auto" for the one they are saved in.
        options: further arguments of `from_pretrained`, as `attn_implementation`.

    Raises:
        UserError: the folder is an adapter, and what it stands on is missing or changed.
    """
    base = base_of(folder)
    if base is None:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True, **options)
    read_manifest(base)
    return add_adapter(load_model(base, dtype, **options), folder)
