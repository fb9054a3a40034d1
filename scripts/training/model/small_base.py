"""A base model for a rehearsal: two narrow, random layers, the vocabulary and architecture of the real one.

    make_small_base(experiment.training.base, Path("results/rehearsal/x-base"))

Of the real base only config.json and the tokenizer are read; from a hub these few megabytes alone are downloaded.
"""

import shutil
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.settings.training import Base
from scripts.tokens.packing.base_tokenizer import small_files
from scripts.tokens.packing.tokenizer_files import FILES

SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def small_config(config: dict) -> dict:
    """config.json with two narrow layers; what it says for each layer is cut to two."""
    layers = config.get("num_hidden_layers")
    cut = {key: value[:2] for key, value in config.items() if isinstance(value, list) and len(value) == layers}
    width = {"head_dim": SIZES["hidden_size"] // SIZES["num_attention_heads"]} if config.get("head_dim") else {}
    return {**config, **cut, **SIZES, **width}


def make_small_base(base: Base, out: Path) -> None:
    """Write the small model and the real tokenizer to `out`.

    Raises:
        UserError: the base's config.json or tokenizer cannot be had, or its architecture is not known.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = Path(base.model) if Path(base.model).is_dir() else small_files(base)
    if folder is None or not (folder / "config.json").is_file():
        raise UserError(
            f"training.base.model: config.json and the tokenizer of {base.model} cannot be read; a rehearsal needs a "
            "network, or a folder"
        )
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    config = small_config(read_json(folder / "config.json"))
    torch.manual_seed(0)
    try:
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    except (KeyError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: no model that transformers can make: {error}") from error
    model.save_pretrained(out)
    for name in FILES:
        if name != "config.json" and (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)
