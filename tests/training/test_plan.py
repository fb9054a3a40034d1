"""scripts/training/plan.py: what a plan says, and what is refused before a job is queued."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.report.content.wording import FIGURES
from scripts.training.planning.plan_stage import PlanInputs, plan
from scripts.training.planning.resolved_stage import divide_batch

QWEN_7B = Shape(
    **read_yaml(Path("config/experiments/qwen2.5-7b-code.yaml"))["training"]["base"]["shape"]
    | {"tie_word_embeddings": False}
)
QWEN_7B_PARAMETERS = 7_615_616_512
STAGE = {
    "from": "base",
    "data": "code",
    "global_batch_size": 64,
    "learning_rate": 2e-5,
    "sequence_length": 4096,
    "epochs": 3,
}


def a40(**changes) -> Machine:
    """Two A40s on one host."""
    settings = {"nodes": 1, "gpus": 2, "micro_batch_size": 4, "sharding": "none", "gpu_memory_gib": 44.5}
    return Machine.parse(settings | changes, "test")


def stage(**changes) -> Stage:
    return Stage.parse(STAGE | changes, "test")


@pytest.mark.parametrize(
    ("sharding", "gpus", "gib"),
    # DeepSpeed's estimate_zero{2,3}_model_states_mem_needs for 7.62 B parameters, per GPU, as the design gives them
    [
        ("zero2", 2, 78.0),
        ("zero2", 4, 46.1),
        ("zero2", 8, 30.1),
        ("zero3", 2, 65.9),
        ("zero3", 4, 33.9),
        ("zero3", 8, 18.0),
    ],
)
def test_model_states_agree_with_deepspeeds_estimate(sharding, gpus, gib):
    machine = a40(gpus=gpus, sharding=sharding, gpu_memory_gib=300)
    assert plan(PlanInputs("sft", stage(), machine, QWEN_7B))["model_states_gib"] == pytest.approx(gib, rel=0.01)


def test_the_plan_has_each_figure_that_the_report_compares_with_what_was_measured():
    machine = a40(gpus=8, sharding="zero2", gpu_tflops=150, gpu_memory_gib=300)
    planned = plan(PlanInputs("sft", stage(), machine, QWEN_7B, rows=6400))
    assert all(planned[key] > 0 for _, key, _, _ in FIGURES)
    assert planned["hours"] == pytest.approx(planned["seconds"] / 3600, abs=0.01)


def test_the_weights_of_a_curve_lie_on_the_disk_twice_beside_the_model():
    sizes = []
    machine = a40(gpus=8, sharding="zero2", gpu_memory_gib=300)
    for curve in ([], [0.5], [0.25, 0.5]):
        planned = plan(PlanInputs("sft", stage(curve=curve), machine, QWEN_7B, rows=6400))
        sizes.append(planned["published_gib"])
    assert sizes == pytest.approx([2 * QWEN_7B_PARAMETERS / 2**30 * factor for factor in (1, 3, 5)], rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "micro", "expected"),
    [(64, 4, (4, 8)), (24, 8, (6, 2)), (2, 4, (1, 1)), (14, 4, (1, 7))],
)
def test_micro_batch_times_accumulation_times_processes_is_the_global_batch(rows, micro, expected):
    assert divide_batch(rows, micro, 2, "sft") == expected


@pytest.mark.parametrize("change", [{"quantize": "8bit", "method": "lora"}, {"optimizer": "adamw_8bit"}])
@pytest.mark.parametrize("sharding", ["fsdp2", "zero2", "zero3"])
def test_settings_that_cannot_be_sharded_are_refused_even_without_a_shape(change, sharding):
    key = f"training.train.sft.{next(iter(change))}: .*use `sharding: none` in the machine file"
    with pytest.raises(UserError, match=key):
        plan(PlanInputs("sft", stage(**change), a40(sharding=sharding)))
    assert plan(PlanInputs("sft", stage(**change), a40())).get("steps") is None


def test_a_global_batch_that_does_not_divide_is_refused():
    with pytest.raises(UserError, match=r"sft\.global_batch_size: 7 is no multiple of 2 processes; 6 or 8 would be"):
        divide_batch(7, 4, 2, "sft")
    with pytest.raises(UserError, match=r"3 is no multiple of 8 processes; 8 would be"):
        divide_batch(3, 4, 8, "sft")


REFUSED = [
    ({}, {"sharding": "fsdp2", "offload": True}, "machine: offload needs `sharding` zero2 or zero3, not fsdp2"),
    ({}, {"sharding": "none", "offload": True}, "machine: offload needs `sharding` zero2 or zero3, not none"),
    (
        {},
        {"micro_batch_size": "auto", "gpu_memory_gib": None},
        "machine: gpu_memory_gib: required by `micro_batch_size: auto`",
    ),
    ({}, {"sharding": "auto", "gpu_memory_gib": None}, "machine: gpu_memory_gib: required by `sharding: auto`"),
    ({}, {"gpus": 0, "micro_batch_size": "auto"}, "machine: host_memory_gib: required by `micro_batch_size: auto`"),
    (
        {"trainable": ["lm_head.*", "*.layer.2?.*"]},
        {},
        r"sft\.trainable: '\*\.layer\.2\?\.\*' matches no parameter of 28 layers; .* 'model\.layers\.0\.self_attn\.q",
    ),
]


@pytest.mark.parametrize(("change", "machine", "line"), REFUSED)
def test_settings_that_the_machine_or_the_model_does_not_support_are_one_line_errors_before_any_data(
    change, machine, line
):
    with pytest.raises(UserError, match=line) as refused:
        plan(PlanInputs("sft", stage(**change), a40(**machine), QWEN_7B))
    assert "\n" not in str(refused.value)


def test_patterns_for_parameters_of_similar_architectures_are_accepted():
    for pattern in ("*.q_norm.weight", "*.27.self_attn.o_proj.bias"):
        plan(PlanInputs("sft", stage(trainable=[pattern]), a40(gpu_memory_gib=400), QWEN_7B))


def test_rows_longer_than_the_model_knows_are_named():
    short = replace(QWEN_7B, max_position_embeddings=4095)
    warned = [
        plan(PlanInputs("sft", stage(steps=100, epochs=None), a40(gpu_memory_gib=400), shape))["warnings"]
        for shape in (short, QWEN_7B)
    ]
    assert warned[1] == [] and len(warned[0]) == 1
    assert "sequence_length: 4,096 is more than the model's max_position_embeddings 4,095: " in warned[0][0]


def planned(folder: Path, stage: dict, targets: int) -> subprocess.CompletedProcess:
    """The script on shards of 130 training rows and `targets` targets for validation; it writes plan.json."""
    splits = {"train": {"rows": 130}, "validation": {"rows": targets, "targets": targets, "too_long": 4321}}
    (folder / "manifest.json").write_text(json.dumps({"splits": splits, "length": 4096}))
    machine = folder / "m.yaml"
    machine.write_text("{nodes: 1, gpus: 0, micro_batch_size: 1}")
    line = ["--stage", "sft", "--machine", machine, "--settings", json.dumps(stage)]
    line += ["--monitoring", "config/monitoring/default.yaml"]
    line += ["--shards", folder, "--out", folder / "plan.json"]
    words = [sys.executable, "-m", "scripts.training.plan", *line]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("change", [{"keep_best": True}, {"early_stopping": {"patience": 3, "min_delta": 0}}])
def test_a_stage_that_chooses_by_a_validation_loss_that_nothing_gives_is_refused(tmp_path, change):
    done = planned(tmp_path, STAGE | change, targets=0)
    assert done.returncode == 1
    key = f"error: training.train.sft.{next(iter(change))}: {tmp_path} has no validation rows, 4,321 chats are longer"
    assert done.stderr.startswith(key) and done.stderr.count("\n") == 1
    assert planned(tmp_path, STAGE | change, targets=1).returncode == 0


def test_steps_follow_from_epochs_and_rows(tmp_path):
    assert planned(tmp_path, STAGE, targets=0).returncode == 0
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["steps"] == 9  # three epochs of 64 + 64 + 2 rows
    assert written["tokens"] == 9 * 64 * 4096
