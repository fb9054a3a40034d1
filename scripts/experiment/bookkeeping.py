"""The settings of a stage that cannot change its weights: how often it logs and saves, how many checkpoints it keeps.

They are resources of rule `train`, no params, and no part of the work folder's name, so a change of them reruns nothing
and a killed stage goes on from its checkpoint. All other settings count, `eval_steps` and `eval_rows` too: they decide
the validation losses that are published, and each evaluation draws from the random stream that dropout uses.
"""

from argparse import ArgumentParser, Namespace

from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import Stage

BOOKKEEPING = ("log_steps", "save_steps", "keep_checkpoints")


def without_effect(stage: Stage) -> tuple[str, ...]:
    """The settings of BOOKKEEPING that cannot change which weights this stage publishes.

    Where validation losses select them (`keep_best`, `early_stopping`), they are weights that a checkpoint holds.
    """
    return ("log_steps",) if stage.keep_best or stage.early_stopping else BOOKKEEPING


def determining(stage: Stage) -> dict:
    """The settings that may change the weights, as plain values."""
    return {name: value for name, value in to_dict(stage).items() if name not in without_effect(stage)}


def add_bookkeeping(arguments: ArgumentParser) -> None:
    """Options of a script that takes these settings beside `--settings`."""
    for name in BOOKKEEPING:
        arguments.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"in place of `{name}` of the settings")


def with_bookkeeping(stage: Stage, given: Namespace) -> Stage:
    """The settings with those options that were given."""
    return stage.model_copy(update={name: value for name in BOOKKEEPING if (value := getattr(given, name))})
