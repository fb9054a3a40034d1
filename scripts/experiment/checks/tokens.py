"""Whether the settings of `tokens` agree with those of `training`."""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.suites import check_name


def check_tokens(experiment: Experiment, name: str) -> None:
    """Check tokenizer, mixtures and rows.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: a mixture has the name of a dataset or a part that is not a dataset, a setting is only for
            experiments without `training`, or the tokenizer's folder lacks a file.
    """
    tokens = experiment.tokens
    for mixture, settings in tokens.mix.items():
        if mixture in experiment.corpus.compose:
            raise UserError(f"{name}: tokens.mix.{mixture}: this names a dataset; give the mixture another name")
        for part in settings.parts:
            check_name(f"{name}: tokens.mix.{mixture}.parts", part, list(experiment.corpus.compose))
    if experiment.training is not None:
        if tokens.sequence_lengths is not None:
            raise UserError(f"{name}: tokens.sequence_lengths: only without `training`; a stage has `sequence_length`")
        if tokens.tokenizer.folder is not None:
            raise UserError(
                f"{name}: tokens.tokenizer.folder: only without `training`; with it the base model's tokenizer is used"
            )
    elif tokens.tokenizer.folder is not None:
        if "vocab_size" in tokens.tokenizer.model_fields_set:
            raise UserError(f"{name}: tokens.tokenizer.folder: give either this, or `vocab_size`")
        if not (path := Path(tokens.tokenizer.folder) / "tokenizer.json").is_file():
            raise UserError(f"{name}: tokens.tokenizer.folder: no file {path}; give a folder that has it")
