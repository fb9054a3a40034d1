"""The settings that determine the base model, for rule `base`; they do not depend on where it is stored."""

from pathlib import Path

from scripts.common.cli import UserError
from scripts.experiment.model_folder import folder_content
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import Base


def settings_of_base(base: Base) -> dict:
    """The settings as plain values: of a folder its content, not its path.

    The shape of a model that exists, and `trained_tokens`, are for the plan alone. A hub model is pinned by its
    revision.

    Raises:
        UserError: the content does not match `sha256`.
    """
    base = base.model_copy(update={"trained_tokens": None})
    if base.model == "scratch":
        return to_dict(base)
    if Path(base.model).is_dir():
        content = folder_content(Path(base.model))
        if base.sha256 not in (None, content):
            raise UserError(f"training.base.sha256: expected {base.sha256}, the content of {base.model} has {content}")
        base = base.model_copy(update={"model": "folder", "sha256": content})
    return {key: value for key, value in to_dict(base).items() if key != "shape"}
