"""What the profile says about where jobs run: resources for each kind of job, and whether its machine file agrees."""

import re
from pathlib import Path

from snakemake.resources import Resource, Resources

from scripts.common.errors import UserError
from scripts.evaluation.suites import abouts
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import Record

# Kinds of jobs that a profile describes in `set-resources` as if they were rules; which rule is which follows from the
# suite and the stage. Keys that the profile has for the rule itself win.
TRAINING_JOB = "training_job"  # a stage, on all GPUs of the machine file
GPU_JOB = "gpu_job"  # scores a model on one GPU
WHOLE_NODE_JOB = "whole_node_job"  # the same with nothing beside it; without these keys it is a gpu_job
MODEL_JOB = "model_job"  # loads a model without a GPU
BYTES_PER_PARAMETER = 4  # a job may hold a copy of the weights in fp32
JOB_BYTES = 8e9  # of Python, libraries and data, beside the model


class Profile:
    """Resources of a profile, as Snakemake has read them. `settings`: `workflow.resource_settings`; the same in the
    main process and in its jobs."""

    def __init__(self, settings):
        self.settings = settings

    def default(self, name: str) -> int | str | None:
        """A resource of all jobs; None where the profile has none, or where there is no profile."""
        return value_in(self.settings.default_resources, name)

    def of(self, rule: str, name: str) -> int | str | None:
        """A resource of one rule; None where it has none."""
        return value_in(self.settings.overwrite_resources.get(rule), name)

    def assign(self, rule: str, *kinds: str, least_mb: int = 0) -> None:
        """Give a rule the resources that the profile has for jobs of these kinds, a later kind over an earlier one.

        Call it before the rule is defined.

        Args:
            least_mb: memory that the job needs in any case.
        """
        given = self.settings.overwrite_resources
        resources = {}
        for kind in kinds:
            resources |= given.get(kind, {})
        memory = value_in(resources, "mem_mb") or (self.slurm and self.default("mem_mb"))
        if memory and least_mb:
            resources["mem_mb"] = Resource.from_cli_expression("mem_mb", f"max({memory}, {least_mb})")
        resources |= given.get(rule, {})
        if resources:
            given[rule] = Resources(resources)
            vars(self.settings).pop("_parsed_overwrite_resources", None)  # Snakemake's own copy, made before

    def gpus(self, rule: str) -> int:
        """The GPUs of a rule's job on one host."""
        if self.slurm:
            gres = self.of(rule, "gres")
            return gpus_in(str(gres)) if gres else 0
        return self.of(rule, "gpu") or 0

    @property
    def counts_gpus(self) -> bool:
        """Whether jobs must ask for GPUs: from Slurm, or out of the number that the profile counts."""
        return self.slurm or value_in(self.settings.resources, "gpu") is not None

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


def assign_jobs(profile: Profile, machine: Machine, suites: dict[str, Record], parameters: int | None) -> None:
    """Give the rules of training and evaluation the resources that the profile has for jobs of their kind.

    Args:
        suites: the configured ones with their settings.
        parameters: of the base model; None where they are not known yet.

    Raises:
        UserError: the profile gives a stage other hosts or GPUs than the machine file, or a suite no GPU.
    """
    least_mb = 0
    if parameters:
        least_mb = round((parameters * BYTES_PER_PARAMETER + JOB_BYTES) / 1e6)
    profile.assign("train", TRAINING_JOB)
    profile.assign("base", MODEL_JOB, least_mb=least_mb)
    profile.assign("release", MODEL_JOB, least_mb=2 * least_mb)  # the trained and the released model side by side
    for suite, about in abouts().items():
        if suite in suites and about.needs_gpu:
            whole_node = []
            if about.whole_node:
                whole_node = [WHOLE_NODE_JOB]
            profile.assign(suite, GPU_JOB, *whole_node, least_mb=least_mb)
            if machine.gpus and profile.counts_gpus and profile.gpus(suite) != 1:
                asked = "gpu: 1"
                if profile.slurm:
                    asked = "gres: a GPU such as gpu:a40:1"
                raise UserError(
                    f"the profile's set-resources.{GPU_JOB}: suite {suite} needs one GPU of {profile.machine}, but gets"
                    f" {profile.gpus(suite)}; put `{asked}` there"
                )
    check_placement(profile, machine)


def check_placement(profile: Profile, machine: Machine) -> None:
    """Check that the profile gives a stage the hosts and GPUs that the machine file spreads it over.

    A machine file with `gpus: 0` trains on the CPU, whatever GPUs its jobs may hold."""
    key = f"the profile's set-resources.{TRAINING_JOB}"
    if profile.slurm:
        nodes = profile.of("train", "nodes") or 1
        if nodes != machine.nodes:
            raise UserError(f"{key}.nodes is {nodes}, but {profile.machine} says `nodes: {machine.nodes}`")
        tasks = profile.of("train", "tasks")
        if machine.nodes > 1 and tasks != nodes:
            raise UserError(f"{key}.tasks is {tasks}, but must be {nodes} as its `nodes`: one launcher per host")
    gpus = profile.gpus("train")
    if machine.gpus and profile.counts_gpus and gpus != machine.gpus:
        name = "gres" if profile.slurm else "gpu"
        raise UserError(
            f"{key}.{name} is {profile.of('train', name) or 0}, but {profile.machine} says `gpus: {machine.gpus}`"
        )


def stage_threads(machine: Machine, cores: int) -> int:
    """The CPU cores of a stage's job on one host: a share for each GPU, or without GPUs all that Snakemake may use."""
    if machine.gpus:
        return machine.cpus_per_gpu * machine.gpus
    return cores
