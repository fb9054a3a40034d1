"""scripts/hosts/profile.py: a profile and its machine file that contradict each other are refused in one line."""

from types import SimpleNamespace

import pytest

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.hosts.profile import Profile, check_placement, gpus_in, stage_threads

CLUSTER = {"nodes": 4, "tasks": 4, "gres": "gpu:a40:2"}


def profile(train: dict, slurm: bool = True, gpu: int | None = None) -> Profile:
    resources = {} if gpu is None else {"gpu": gpu}
    default = {"machine": "a40"} | ({"slurm_partition": "gpu"} if slurm else {})
    rules = {"train": train, "train_adapter": train}
    return Profile(SimpleNamespace(default_resources=default, overwrite_resources=rules, resources=resources))


def machine(nodes: int, gpus: int) -> Machine:
    return Machine(nodes=nodes, gpus=gpus, micro_batch=1)


@pytest.mark.parametrize(
    ("profile_keys", "target", "line"),
    [
        (profile(CLUSTER), machine(2, 2), r"set-resources\.train\.nodes is 4, but \S+/a40\.yaml says `nodes: 2`"),
        (profile(CLUSTER), machine(4, 8), r"set-resources\.train\.gres is gpu:a40:2, but \S+ says `gpus: 8`"),
        (profile({**CLUSTER, "tasks": 1}), machine(4, 2), r"train\.tasks is 1, but must be 4 as its `nodes`"),
        (profile({"gres": "gpu:1"}), machine(2, 1), r"train\.nodes is 1, but \S+ says `nodes: 2`"),
        (profile({"gpu": 1}, slurm=False, gpu=2), machine(1, 2), r"train\.gpu is 1, but \S+ says `gpus: 2`"),
        (profile({}, slurm=False, gpu=2), machine(1, 2), r"train\.gpu is 0, but \S+ says `gpus: 2`"),
    ],
)
def test_a_contradiction_names_both_keys(profile_keys, target, line):
    with pytest.raises(UserError, match=line):
        check_placement(profile_keys, target)


@pytest.mark.parametrize(
    ("profile_keys", "target"),
    [
        (profile(CLUSTER), machine(4, 2)),
        (profile({"gres": "gpu:8"}), machine(1, 8)),
        (profile({"gpu": 4}, slurm=False, gpu=4), machine(1, 4)),
        (profile({}, slurm=False), machine(1, 2)),  # a profile that counts no GPUs
        (profile(CLUSTER), machine(4, 0)),  # trains on the CPU
    ],
)
def test_a_profile_that_agrees_with_its_machine_file_passes(profile_keys, target):
    check_placement(profile_keys, target)


def test_gpus_are_read_from_a_gres_and_threads_of_a_stage_follow_from_gpus_or_cores():
    assert [gpus_in(gres) for gres in ("gpu:a40:2", "gpu:8", "gpu", "gpu:a100:4(S:0-1)")] == [2, 8, 1, 4]
    assert stage_threads(machine(1, 8), cores=64) == 32 and stage_threads(machine(1, 0), cores=6) == 6
