"""The settings of a stage that cannot change its weights: how often it logs and saves, how many checkpoints it keeps.

They are resources of rule `train`, no params, and no part of the work folder's name, so a change of them reruns nothing
and a killed stage goes on from its checkpoint. All other settings count, `eval_steps` and `eval_rows` too: they decide
the validation losses that are published, and each evaluation draws from the random stream that dropout uses.
"""

from argparse import ArgumentParser, Namespace

from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import Stage

LOGGING = ("log_steps", "log_share")
NO_EFFECT = (*LOGGING, "save_steps", "save_share", "keep_checkpoints")


def without_effect(stage: Stage) -> tuple[str, ...]:
    """The settings of NO_EFFECT that cannot change which weights this stage publishes.

    Where validation losses select them (`keep_best`, `early_stopping`), they are weights that a checkpoint holds.
    """
    return LOGGING if stage.keep_best or stage.early_stopping else NO_EFFECT


def weight_settings(stage: Stage) -> dict:
    """The settings that may change the weights, as plain values."""
    return {name: value for name, value in to_dict(stage).items() if name not in without_effect(stage)}


def every_of(stage: Stage, event: str) -> str:
    """How often a stage logs or saves, as a resource and an option hold it: `100 steps`, or `0.1 share`.

    Args:
        event: `log` or `save`.
    """
    steps = getattr(stage, f"{event}_steps")
    return f"{steps} steps" if steps else f"{getattr(stage, f'{event}_share')} share"


def add_no_effect_options(arguments: ArgumentParser) -> None:
    """Options of a script that takes these settings beside `--settings`."""
    for event in ("log", "save"):
        arguments.add_argument(f"--{event}-every", help="`100 steps`, or `0.1 share` of all steps")
    arguments.add_argument("--keep-checkpoints", type=int, help="in place of `keep_checkpoints` of the settings")


def with_no_effect_options(stage: Stage, args: Namespace) -> Stage:
    """The settings with those options that were given."""
    update = {"keep_checkpoints": args.keep_checkpoints} if args.keep_checkpoints else {}
    for setting in ("log", "save"):
        if interval := getattr(args, f"{setting}_every"):
            number, unit = interval.split()
            steps = int(number) if unit == "steps" else None
            update |= {f"{setting}_steps": steps} | ({} if steps else {f"{setting}_share": float(number)})
    return stage.model_copy(update=update)
