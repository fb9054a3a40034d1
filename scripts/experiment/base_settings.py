"""The settings that determine the base model, wherever it is stored, for rule `base`; its shape for the plan."""

from dataclasses import replace
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.model_folder import folder_content
from scripts.experiment.model_shape import Shape
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import Base


def settings_of_base(base: Base) -> dict:
    """The settings as plain values: of a folder its content, not its path.

    The shape of a model that exists is for the plan alone. A hub model is pinned by its revision.

    Raises:
        UserError: the content does not match `sha256`.
    """
    if base.model == "scratch":
        return to_dict(base)
    if Path(base.model).is_dir():
        content = folder_content(Path(base.model))
        if base.sha256 not in (None, content):
            raise UserError(
                f"training.base.sha256: the content of {base.model} has {content}, not {base.sha256}; restore the"
                " folder, or correct the setting"
            )
        base = base.model_copy(update={"model": "folder", "sha256": content})
    return {key: value for key, value in to_dict(base).items() if key != "shape"}


def shape_of_base(base: Base, vocab_size: int | None) -> Shape | None:
    """The shape of the base; None where neither the settings nor a folder give it.

    Args:
        vocab_size: of the tokenizer that is learned for a base from scratch.
    """
    if base.shape is None:
        config = Path(base.model) / "config.json"
        return Shape.from_config(read_json(config)) if config.is_file() else None
    shape = Shape(**base.shape)
    return replace(shape, vocab_size=vocab_size) if base.model == "scratch" else shape
