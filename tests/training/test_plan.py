"""scripts/training/plan.py: the plan's closed forms agree with transformers' and DeepSpeed's own counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.cli import UserError
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.experiment.settings.record import to_dict
from scripts.training.plan import accumulation, memory, moments, parameters, plan

MACHINE = {"nodes": 1, "gpus": 2, "micro_batch": 4, "sharding": "none", "offload": False, "gpu_memory_gib": 44.5}
QWEN_7B = read_yaml(Path("config/experiments/qwen2.5-7b-code.yaml"))["training"]["base"]["shape"] | {
    "tie_word_embeddings": False
}
SMALL = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
STAGE = {
    "global_batch": 64,
    "learning_rate": 2e-5,
    "sequence_length": 4096,
    "epochs": 3,
    "method": "full",
    "quantize": "none",
    "optimizer": "adamw",
}


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_are_those_of_the_model_that_transformers_builds(tied):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = {
        "hidden_size": 96,
        "intermediate_size": 200,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "tie_word_embeddings": tied,
    }
    with torch.device("meta"):
        model = Qwen2ForCausalLM(Qwen2Config(**shape))
    assert parameters(shape) == sum(weight.numel() for weight in set(model.parameters()))


def test_qwen_7b_has_its_published_number_of_parameters():
    assert round(parameters(QWEN_7B) / 1e9, 2) == 7.62


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
    machine = {**MACHINE, "gpus": gpus, "sharding": sharding, "gpu_memory_gib": 100}
    assert plan("sft", STAGE, QWEN_7B, machine)["model_states_gib"] == pytest.approx(gib, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (1, 8), (2, 4)])
@pytest.mark.parametrize("sharding", ["zero2", "zero3"])
def test_memory_agrees_with_deepspeeds_estimators(sharding, nodes, gpus, offload):
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    machine = {**MACHINE, "nodes": nodes, "gpus": gpus, "sharding": sharding, "offload": offload}
    hosts = {"num_gpus_per_node": gpus, "num_nodes": nodes, "cpu_offload": offload, "additional_buffer_factor": 1}
    count = parameters(QWEN_7B)
    if sharding == "zero3":
        embedding = QWEN_7B["vocab_size"] * QWEN_7B["hidden_size"]
        host, gpu, _ = estimate_zero3_model_states_mem_needs(count, embedding, cpu_offload_params=False, **hosts)
    else:
        host, gpu = estimate_zero2_model_states_mem_needs(count, **hosts)
        if offload and nodes == 2:  # DeepSpeed's ZeRO-2 figure forgets that the states are shared out over the hosts
            host = max(4 * gpus * count, host / nodes)
    assert memory(QWEN_7B, machine, "adamw") == pytest.approx((gpu, host), rel=1e-6)


def test_seven_billion_parameters_with_zero3_and_offload_take_what_the_design_says():
    states, host = memory(QWEN_7B, {**MACHINE, "sharding": "zero3", "offload": True}, "adamw")
    assert (round(states / 2**30, 1), round(host / 2**30)) == (9.1, 113)


@pytest.mark.parametrize(("sharding", "per_parameter"), [("none", 16), ("zero1", 12), ("zero2", 11)])
def test_model_states_per_parameter_follow_the_zero_papers_table(sharding, per_parameter):
    states, _ = memory(QWEN_7B, {**MACHINE, "sharding": sharding}, "adamw")
    assert states == per_parameter * parameters(QWEN_7B)


def test_fsdp2_shares_out_what_ddp_keeps_whole():
    ddp, _ = memory(QWEN_7B, MACHINE, "adamw")
    eight, _ = memory(QWEN_7B, {**MACHINE, "gpus": 8, "sharding": "fsdp2"}, "adamw")
    gathered = 8 * 152064 * 3584  # two units in bf16 and the gradient of one; the embedding is the largest
    assert eight == ddp / 8 + gathered


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("optimizer", ["adamw", "adamw_8bit", "muon"])
def test_moments_are_the_bytes_of_the_optimizers_state_after_a_real_step(tmp_path, optimizer, tied):
    """Summed over the tensors that torch and bitsandbytes keep; the Trainer makes the optimizer, as for a stage."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

    from scripts.training.optimization.optimizers import factory

    shape = {**SMALL, "vocab_size": 1000, "tie_word_embeddings": tied}
    model = Qwen2ForCausalLM(Qwen2Config(**shape))
    name = {"adamw_8bit": {"optim": "adamw_8bit"}}.get(optimizer, {})
    stage = {"optimizer": optimizer, "learning_rate": 1e-3, "weight_decay": 0.0, "betas": (0.9, 0.95), "eps": 1e-8}
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, **name)
    made = Trainer(model, arguments, optimizer_cls_and_kwargs=factory(stage, MACHINE)).create_optimizer()
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    made.step()
    tensors = [
        value
        for state in made.state.values()
        for name, value in state.items()
        if torch.is_tensor(value) and name != "step" and not name.startswith("qmap")  # one table for all tensors
    ]
    assert sum(tensor.nbytes for tensor in tensors) == pytest.approx(moments(shape, optimizer), rel=1e-3)


@pytest.mark.parametrize("sharding", ["none", "zero1", "zero2", "zero3", "fsdp2"])
def test_muon_spares_one_moment_of_the_layers_matrices(sharding):
    """On a GPU, or on the host where the moments are there."""
    spared = 4 * 28 * (2 * 3584 * 3584 + 2 * 3584 * 512 + 3 * 3584 * 18944)
    machine = {**MACHINE, "sharding": sharding}
    (adamw, _), (muon, _) = (memory(QWEN_7B, machine, name) for name in ("adamw", "muon"))
    assert adamw - muon == (spared if sharding == "none" else spared / 2)
    if sharding.startswith("zero"):
        machine["offload"] = True
        (adamw, host), (muon, its_host) = (memory(QWEN_7B, machine, name) for name in ("adamw", "muon"))
        assert (adamw, host) == (muon, its_host + spared)


def test_offload_that_host_memory_cannot_hold_is_refused():
    machine = {**MACHINE, "sharding": "zero3", "offload": True, "host_memory_gib": 64}
    with pytest.raises(UserError, match=r"sft: offloaded states take 113\.\d GiB of host memory, the machine has 64"):
        plan("sft", STAGE, QWEN_7B, machine)


def test_a_stage_that_cannot_fit_is_refused_with_both_figures():
    with pytest.raises(
        UserError, match=r"training\.train\.sft: model states take 78\.\d GiB per process, the machine has 44\.5"
    ):
        plan("sft", STAGE, QWEN_7B, {**MACHINE, "sharding": "zero2"})


def test_the_shipped_a40_experiment_fits_its_machine():
    config = to_dict(load_experiment(read_yaml(Path("config/experiments/qwen2.5-7b-code.yaml"))))
    found = plan(
        "sft", config["training"]["train"]["sft"], QWEN_7B, to_dict(load_machine(Path("config/machines/a40.yaml")))
    )
    assert found["micro_batch"] * found["gradient_accumulation"] * 8 == 64
    assert found["model_states_gib"] == pytest.approx(30.1, rel=0.01)


@pytest.mark.parametrize(
    ("global_batch", "micro_batch", "expected"), [(64, 4, (4, 8)), (24, 8, (6, 2)), (2, 4, (1, 1)), (14, 4, (1, 7))]
)
def test_micro_batch_times_accumulation_times_processes_is_the_global_batch(global_batch, micro_batch, expected):
    assert accumulation(global_batch, micro_batch, 2, "sft") == expected


@pytest.mark.parametrize("change", [{"quantize": "8bit", "method": "lora"}, {"optimizer": "adamw_8bit"}])
@pytest.mark.parametrize("sharding", ["fsdp2", "zero1", "zero2", "zero3"])
def test_what_cannot_be_sharded_is_refused_without_a_shape(change, sharding):
    key = f"training.train.sft.{next(iter(change))}: .*use `sharding: none` in the machine file"
    with pytest.raises(UserError, match=key):
        plan("sft", STAGE | change, None, {**MACHINE, "sharding": sharding})
    assert plan("sft", STAGE | change, None, MACHINE)["steps"] is None


def test_a_global_batch_that_does_not_divide_is_refused():
    with pytest.raises(UserError, match=r"sft\.global_batch: 7 is no multiple of 2 processes"):
        accumulation(7, 4, 2, "sft")


def planned(folder: Path, stage: dict, targets: int) -> subprocess.CompletedProcess:
    """The script on shards of 130 training rows and `targets` targets for validation; it writes plan.json."""
    splits = {"train": {"rows": 130}, "validation": {"targets": targets, "too_long": 4321}}
    (folder / "manifest.json").write_text(json.dumps({"splits": splits, "length": 4096}))
    machine = folder / "m.yaml"
    machine.write_text("{nodes: 1, gpus: 0, micro_batch: 1}")
    line = ["--stage", "sft", "--machine", machine, "--settings", json.dumps({"stage": stage, "shape": None})]
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
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["steps"] == 9  # three epochs of 64 + 64 + 2 rows
    assert found["tokens"] == 9 * 64 * 4096
