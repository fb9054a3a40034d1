"""What the profile says about where jobs run, and whether its machine file agrees with it."""

import re
import shlex
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.checks.machine import check_machine
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import Record

STAGES = ("train", "train_adapter")  # the rules that train


class Profile:
    """Resources of a profile, as Snakemake has read them.

    Args:
        settings: `workflow.resource_settings`; the same in the main process and in its jobs.
    """

    def __init__(self, settings):
        self.settings = settings

    def default(self, name: str) -> int | str | None:
        """A resource of all jobs; None where the profile has none, or where there is no profile."""
        return value_in(self.settings.default_resources, name)

    def of(self, rule: str, name: str) -> int | str | None:
        """A resource of one rule, as `set-resources` has it; None where it has none."""
        return value_in(self.settings.overwrite_resources.get(rule), name)

    @property
    def machine(self) -> Path:
        """The machine file. It is a resource: these say where, and never cause a rerun."""
        return Path(f"config/machines/{self.default('machine') or 'local'}.yaml")

    @property
    def slurm(self) -> bool:
        """Whether jobs go to Slurm: only such a profile names a partition."""
        return self.default("slurm_partition") is not None


def value_in(resources, name: str) -> int | str | None:
    value = resources.get(name) if resources else None
    return getattr(value, "raw", value)


def gpus_in(gres: str) -> int:
    """The GPUs in Slurm's `gpu:a40:2`, `gpu:2` or `gpu`."""
    count = re.search(r":(\d+)(\(.*)?$", gres)
    return int(count[1]) if count else 1


def checked_machine(profile: Profile, experiment: Experiment) -> Machine:
    """The profile's machine file.

    Raises:
        UserError: it is malformed, lacks what the experiment needs, or the profile disagrees with it.
    """
    machine = load_machine(profile.machine)
    check_machine(experiment, machine, profile.machine)
    check_placement(profile, machine)
    return machine


def check_placement(profile: Profile, machine: Machine) -> None:
    """Check that the profile gives a stage the hosts and GPUs that the machine file spreads it over.

    A machine file with `gpus: 0` trains on the CPU, whatever GPUs its jobs may hold.

    Raises:
        UserError: it does not; the line names both keys.
    """
    for rule in STAGES:
        key = f"the profile's set-resources.{rule}"
        if profile.slurm:
            nodes = profile.of(rule, "nodes") or 1
            if nodes != machine.nodes:
                raise UserError(f"{key}.nodes is {nodes}, but {profile.machine} says `nodes: {machine.nodes}`")
            tasks = profile.of(rule, "tasks")
            if machine.nodes > 1 and tasks != nodes:
                raise UserError(f"{key}.tasks is {tasks}, but must be {nodes} as its `nodes`: one launcher per host")
            gres = profile.of(rule, "gres")
            gpus, name = gpus_in(str(gres)) if gres else 0, f"gres is {gres}"
        else:
            gpus = profile.of(rule, "gpu") or 0
            name = f"gpu is {gpus}"
            if value_in(profile.settings.resources, "gpu") is None:
                continue  # a profile that does not count GPUs, as `local`
        if machine.gpus and gpus != machine.gpus:
            raise UserError(f"{key}.{name}, but {profile.machine} says `gpus: {machine.gpus}`")


def uses_vllm(suite: Record) -> bool:
    """Whether a suite's models generate with vLLM, which has an environment and a torch of its own."""
    return getattr(suite, "engine", None) == "vllm"


def vllm_option(suite: Record, machine: Machine) -> str:
    """The option, quoted for a shell, by which a suite's models generate with vLLM; empty where they do not."""
    return f"--vllm {shlex.quote(machine.vllm)}" if uses_vllm(suite) else ""


def stage_threads(machine: Machine, cores: int) -> int:
    """The CPU cores of a stage's job on one host: a share for each GPU, or without GPUs all that Snakemake may use."""
    return machine.cpus_per_gpu * machine.gpus if machine.gpus else cores
