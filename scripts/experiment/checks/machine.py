"""Whether a machine file has what the experiment needs of it."""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.machine import Machine
from scripts.experiment.suites import configured


def check_machine(experiment: Experiment, machine: Machine, path: Path) -> None:
    """Check that the machine file, at `path`, names vLLM's environment where a suite generates with it.

    Raises:
        UserError: it does not.
    """
    for suite, settings in configured(experiment.evaluation).items():
        if getattr(settings, "engine", None) == "vllm" and machine.vllm is None:
            raise UserError(
                f"{path}: vllm: required by evaluation.{suite}.engine; set it to the Python of vLLM's environment"
            )
