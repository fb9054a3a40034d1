"""Load a model folder, plain or with an adapter: one function for stages and evaluation.

    model = load_model(Path("results/training/train/sft"), torch.float32)

The folder of a LoRA stage without `merge` holds an adapter. Its manifest names the folder of its base model (a path
relative to the adapter's folder, so that a results root can be moved as a whole) and the sha256 of that manifest.
"""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file
from scripts.common.manifest import NAME, read_manifest

# `save_pretrained` into one file of any size, as rule `train` declares it: by default it splits one of 50 GB or more.
ONE_FILE = 2**62


def adapter_base(folder: Path) -> Path | None:
    """The folder of the base model of the adapter in `folder`; None for a plain model. Raises UserError: the base is
    missing, or it is another than the adapter was trained on."""
    adapter = read_json(folder / NAME).get("adapter")
    if adapter is None:
        return None
    base = (folder / adapter["base"]).resolve()
    if not (base / NAME).is_file():
        raise UserError(f"{folder}: the adapter's base model {base} was not found; copy it too")
    if sha256_file(base / NAME) != adapter["base_manifest"]:
        raise UserError(f"{folder}: {base} is not the model that the adapter was trained on; train it again")
    return base


def merge_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """`model` with the adapter in `folder` merged into its weights: sums in float32, rounded once to their type."""
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


def count_parameters(folder: Path) -> int:
    """How many parameters the model in `folder` has, without loading its weights."""
    with torch.device("meta"):  # shapes without memory
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(adapter_base(folder) or folder))
    return model.num_parameters()


def load_model(folder: Path, dtype: torch.dtype | str, **options) -> PreTrainedModel:
    """The model in `folder`; an adapter is merged into its base model.

    Args:
        dtype: of the weights; "auto" for the one they are saved in.
        options: further arguments of `from_pretrained`, as `attn_implementation`.

    Raises:
        UserError: the folder holds an adapter whose base model is missing or changed.
    """
    base = adapter_base(folder)
    if base is None:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True, **options)
    read_manifest(base)
    return merge_adapter(load_model(base, dtype, **options), folder)
