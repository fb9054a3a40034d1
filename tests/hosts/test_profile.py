"""scripts/hosts/profile.py: every job that needs a GPU gets one, and a profile that contradicts its machine file is
refused in one line."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from snakemake.resources import Resources

from scripts.common.errors import UserError
from scripts.evaluation.suites import abouts
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.machine import Machine
from scripts.hosts.profile import Profile, assign_jobs, check_placement, gpus_in, stage_threads, value_in

CLUSTER = {"nodes": 4, "tasks": 4, "gres": "gpu:a40:2"}


def profile(train: dict, slurm: bool = True, gpu: int | None = None) -> Profile:
    resources = {} if gpu is None else {"gpu": gpu}
    default = {"machine": "a40"} | ({"slurm_partition": "gpu"} if slurm else {})
    rules = {"train": train}
    return Profile(SimpleNamespace(default_resources=default, overwrite_resources=rules, resources=resources))


def machine(nodes: int, gpus: int) -> Machine:
    return Machine(nodes=nodes, gpus=gpus, micro_batch_size=1)


@pytest.mark.parametrize(
    ("profile_keys", "target", "line"),
    [
        (
            profile(CLUSTER),
            machine(2, 2),
            r"set-resources\.training_job\.nodes is 4, but \S+/a40\.yaml says `nodes: 2`",
        ),
        (profile(CLUSTER), machine(4, 8), r"set-resources\.training_job\.gres is gpu:a40:2, but \S+ says `gpus: 8`"),
        (profile({**CLUSTER, "tasks": 1}), machine(4, 2), r"training_job\.tasks is 1, but must be 4 as its `nodes`"),
        (profile({"gres": "gpu:1"}), machine(2, 1), r"training_job\.nodes is 1, but \S+ says `nodes: 2`"),
        (profile({"gpu": 1}, slurm=False, gpu=2), machine(1, 2), r"training_job\.gpu is 1, but \S+ says `gpus: 2`"),
        (profile({}, slurm=False, gpu=2), machine(1, 2), r"training_job\.gpu is 0, but \S+ says `gpus: 2`"),
    ],
)
def test_a_contradiction_names_both_keys(profile_keys, target, line):
    with pytest.raises(UserError, match=line):
        check_placement(profile_keys, target)


def test_gpus_are_read_from_a_gres_and_threads_of_a_stage_follow_from_gpus_or_cores():
    assert [gpus_in(gres) for gres in ("gpu:a40:2", "gpu:8", "gpu", "gpu:a100:4(S:0-1)")] == [2, 8, 1, 4]
    assert stage_threads(machine(1, 8), cores=64) == 32 and stage_threads(machine(1, 0), cores=6) == 6


PROFILES = sorted(path.parent.name for path in Path("profiles").glob("*/config.yaml") if path.parent.name != "default")
SUITES = abouts()
PARAMETERS = {"7B": 7_600_000_000, "32B": 32_800_000_000}


def parsed(keys: dict) -> Resources:
    """Resources as Snakemake parses them from a profile."""
    return Resources.parse([f"{name}={value}" for name, value in keys.items()], allow_expressions=True)


def shipped(name: str) -> tuple[Profile, Machine]:
    """A profile of this repository as Snakemake reads it, and its machine file."""
    content = yaml.safe_load(Path(f"profiles/{name}/config.yaml").read_text())
    rules = {rule: parsed(keys) for rule, keys in content.get("set-resources", {}).items()}
    default = parsed(content["default-resources"])
    keys = SimpleNamespace(default_resources=default, overwrite_resources=rules, resources=content["resources"])
    made = Profile(keys)
    return made, load_machine(made.machine)


def first_memory(profile: Profile, rule: str) -> int:
    """The memory (MB) that a job asks for at its first attempt."""
    return eval(str(profile.of(rule, "mem_mb")), {"attempt": 1, "min": min, "max": max})  # noqa: S307


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("size", PARAMETERS)
def test_each_job_gets_the_gpus_and_the_memory_that_its_model_needs(name, size):
    made, target = shipped(name)
    assign_jobs(made, target, SUITES, PARAMETERS[size])
    assert made.gpus("train") == (target.gpus if made.counts_gpus else 0)
    for suite in SUITES:
        assert made.gpus(suite) == int(SUITES[suite].needs_gpu and made.counts_gpus), suite
        if made.slurm and SUITES[suite].needs_gpu:
            assert made.of(suite, "slurm_partition") == made.of("train", "slurm_partition") != "cpu"
            assert first_memory(made, suite) * 1e6 > 4 * PARAMETERS[size]
    if made.slurm:
        assert made.gpus("base") == 0 and first_memory(made, "base") * 1e6 > 4 * PARAMETERS[size]
        assert "--exclusive" in made.of("latency", "slurm_extra")
        assert "--exclusive" not in made.of("perplexity", "slurm_extra")


@pytest.mark.parametrize("name", sorted(set(PROFILES) - {"local"}))
def test_a_profile_without_gpu_jobs_is_refused_where_the_machine_has_gpus(name):
    made, target = shipped(name)
    del made.settings.overwrite_resources["gpu_job"]
    with pytest.raises(
        UserError, match=r"set-resources\.gpu_job: suite perplexity needs one GPU of \S+, but gets 0; put"
    ):
        assign_jobs(made, target, SUITES, None)


def test_memory_that_a_job_was_given_is_not_raised_again_in_the_process_of_the_job():
    made, target = shipped("a40")
    assign_jobs(made, target, SUITES, PARAMETERS["32B"])
    first = value_in(made.settings.overwrite_resources["perplexity"], "mem_mb")
    assign_jobs(made, target, SUITES, PARAMETERS["32B"])
    assert value_in(made.settings.overwrite_resources["perplexity"], "mem_mb") == first
