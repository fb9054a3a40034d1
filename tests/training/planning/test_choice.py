"""scripts/training/planning/: what fits, what is chosen, and what is offered instead."""

import json
import re
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.training import Lora
from scripts.training.planning.budget import Pass, pass_peak
from scripts.training.planning.choice import HEADROOM, Option, choose, option
from scripts.training.planning.plan_stage import PlanInputs, plan
from scripts.training.planning.states import GIB
from tests.training.test_plan import QWEN_7B, stage


def machine(name: str, **changes):
    return load_machine(Path(f"config/machines/{name}.yaml")).model_copy(update=changes)


def test_the_7b_experiment_fits_its_cluster_uncompiled_with_the_figures_of_the_design():
    """About 39 of 44.5 GiB: logits of a chunk 1.2, activations 0.8, a layer and the head's gradient, buckets 2 to 3."""
    experiment = load_experiment(read_yaml(Path("config/experiments/qwen2.5-7b-code.yaml")))
    planned = plan(
        PlanInputs(
            "sft", experiment.training.train["sft"], machine("a40", compile=False, gradient_checkpointing=True), QWEN_7B
        )
    )
    gpu_gib = planned["gpu_parts_gib"]
    assert planned["gpu_gib"] == pytest.approx(38.4, abs=0.3)
    assert planned["model_states_gib"] == pytest.approx(30.1, rel=0.01)
    assert 1.1 < gpu_gib["logits"] < 1.3 and 2.8 < gpu_gib["activations"] < 3.5 and 2 < gpu_gib["buckets"] < 3
    assert planned["micro_batch_size"] * planned["gradient_accumulation"] * 8 == 64


def test_two_a40_offer_zero_with_offload_and_lora_for_a_whole_7b_with_their_hours():
    with pytest.raises(UserError) as refused:
        choose("sft", stage(), QWEN_7B, machine("a40-dual", offload=False, compile=False), tokens=10**8)
    head, *lines = str(refused.value).split("\n")
    assert head.startswith("training.train.sft: does not fit: 86.3 GiB per GPU, the machine has 44.5, 41.8 too few")
    texts = [line.strip().split("  ")[0] for line in lines]
    assert {"`offload: true`", "`sharding: zero3`, `offload: true`", "`method: lora`"} <= set(texts)
    hours = [float(line.split(";")[1].split()[0]) for line in lines]
    assert hours == sorted(hours) and 5 < hours[0] < 20


def test_rows_of_32k_tokens_eight_at_a_time_are_refused_for_149_gib_of_logits():
    """With sharded weights, where the loss needs them all; else the logits of a chunk are small beside the rest."""
    long = stage(sequence_length=32768)
    with pytest.raises(UserError, match=r"does not fit: .*the logits of 262,144 tokens alone are 148\.5 GiB in fp32"):
        plan(PlanInputs("qa", long, machine("a40", sharding="zero3", micro_batch_size=8, compile=False), QWEN_7B))
    with pytest.raises(UserError, match="does not fit: ") as refused:
        plan(PlanInputs("qa", long, machine("a40", micro_batch_size=8, compile=False), QWEN_7B))
    assert "logits of" not in str(refused.value)


def test_auto_takes_offload_only_where_nothing_else_fits_and_the_larger_batch_where_it_is_faster():
    dual = {"sharding": "auto", "micro_batch_size": "auto", "offload": False, "compile": False}
    dual["gradient_checkpointing"] = True
    chosen = choose("sft", stage(), QWEN_7B, machine("a40-dual", **dual))
    assert (chosen.machine.sharding, chosen.machine.offload) == ("zero2", True)
    assert chosen.machine.micro_batch_size == 8 and chosen.missing() == 0
    lora = choose("sft", stage(method="lora"), QWEN_7B, machine("a40-dual", **dual))
    assert (lora.machine.sharding, lora.machine.offload) == ("none", False)
    fixed = choose("sft", stage(method="lora"), QWEN_7B, machine("a40-dual", compile=False))
    assert (fixed.machine.sharding, fixed.machine.offload) == ("zero2", True), "what is given is not changed"


def test_auto_recomputes_the_fewest_layers_that_fit_and_is_the_faster_for_each_less():
    def way(count: int | bool | str) -> Option:
        here = machine("a40", compile=False, gradient_checkpointing=count)
        return choose("sft", stage(global_batch_size=64), QWEN_7B, here)

    chosen, memory = way("auto"), machine("a40").gpu_memory_gib * GIB
    count = chosen.machine.gradient_checkpointing
    assert 0 < count < QWEN_7B.num_hidden_layers and chosen.budget.total <= (1 - HEADROOM) * memory
    assert way(count - 1).budget.total > (1 - HEADROOM) * memory
    assert chosen.speed.tokens_per_second > way(count + 1).speed.tokens_per_second > way(True).speed.tokens_per_second
    a40 = machine("a40", gradient_checkpointing="auto")
    planned = plan(PlanInputs("sft", stage(global_batch_size=64), a40, QWEN_7B))
    assert re.fullmatch(r"\d+ of 28, \d+% of the time; none with \d+\.\d GiB more", planned["recomputed_layers"])
    large = machine("a40", compile=False, gradient_checkpointing="auto", gpu_memory_gib=180)
    assert choose("sft", stage(), QWEN_7B, large).machine.gradient_checkpointing is False
    tiny = machine("a40", compile=False, gradient_checkpointing="auto", gpu_memory_gib=39)
    assert choose("sft", stage(), QWEN_7B, tiny).machine.gradient_checkpointing is True  # without headroom


def test_one_recomputed_layer_is_one_and_not_all():
    ways = []
    for count in (False, 1, 2, True):
        here = machine("a40", compile=False, gradient_checkpointing=count)
        ways.append(option("sft", stage(global_batch_size=64), QWEN_7B, here))
    assert [way.machine.recomputed(28) for way in ways] == [0, 1, 2, 28]
    memory, seconds = [way.budget.total for way in ways], [way.speed.step for way in ways]
    assert memory == sorted(memory, reverse=True) and len(set(memory)) == 4
    assert seconds == sorted(seconds) and len(set(seconds)) == 4


TRACED = json.loads(Path("tests/training/planning/traced_passes.json").read_text())


@pytest.mark.parametrize("number", range(len(TRACED)))
def test_the_closed_form_gives_the_peak_of_a_trace_of_the_models_code(number):
    """Each was traced with torch 2.13 and transformers 5, whose code ran on fake tensors."""
    traced = dict(TRACED[number]["pass"])
    lora = Lora(**traced["lora"]) if "lora" in traced else None
    recomputed = traced["shape"]["num_hidden_layers"] * traced.pop("checkpointing")
    requested = Pass(**traced | {"shape": Shape(**traced["shape"]), "lora": lora, "recomputed": recomputed})
    made = pass_peak(requested, requested.shape.num_hidden_layers)
    assert made.bytes == pytest.approx(TRACED[number]["bytes"], rel=0.06)
