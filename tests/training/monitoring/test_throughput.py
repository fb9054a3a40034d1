"""scripts/training/monitoring/measurements.py: MFU by hand and by torch's own count, NVML's readings."""

import importlib.util
import json
import math
import os
import sys
import types

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from scripts.training.monitoring.measurements import (
    GpuSensors,
    flops_per_token,
    peak_flops,
)
from tests import forked
from tests.training.conftest import LENGTH, SHAPE
from tests.training.test_train import command, metrics, run


def test_a_token_of_qwen2_5_7b_takes_what_the_definition_says_by_hand():
    """7,615,616,512 parameters (model card: 7.61 B, 6.53 B without embeddings), less the 152,064 x 3,584 looked up."""
    shape = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28}
    shape |= {"num_key_value_heads": 4, "vocab_size": 152064}
    weights = 7_615_616_512 - 152_064 * 3_584
    for tied in (False, True):
        with torch.device("meta"):
            model = Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=tied))
        assert flops_per_token(model, 4096) == 6 * weights + 6 * 28 * 3584 * 4096 == 44_889_965_568


def test_a_model_with_other_names_for_its_sizes_is_counted_and_one_with_experts_is_not():
    sizes = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 2}
    gpt2 = AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt2", **sizes))
    assert flops_per_token(gpt2, 16) == 6 * gpt2.num_parameters() + 6 * 2 * 32 * 16
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_experts": 4, "moe_intermediate_size": 16}
    assert flops_per_token(AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3_moe", **sizes)), 16) is None


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_count_of_operations_is_torchs_without_the_masked_half_of_attention(tied, frozen):
    shape = {**SHAPE, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 512, "tie_word_embeddings": tied}
    model = Qwen2ForCausalLM(Qwen2Config(**shape, attn_implementation="eager"))
    if frozen:  # all but the embedding, so that gradients still flow through every layer
        for weight in model.parameters():
            weight.requires_grad = weight is model.get_input_embeddings().weight
    ids = torch.randint(0, 512, (1, 64))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, use_cache=False).logits.sum().backward()
    attention = 6 * shape["num_hidden_layers"] * shape["hidden_size"] * 64  # the half that the causal mask throws away
    expected = counter.get_total_flops() / 64 - attention
    assert flops_per_token(model, 64) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA A40", 149.7),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A800 80GB PCIe", 312),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H200", 989),
        ("NVIDIA RTX A4000", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("Tesla T4", None),
    ],
)
def test_peaks_are_known_by_the_drivers_names_and_nothing_is_guessed(name, tflops):
    assert peak_flops(name) == (tflops and pytest.approx(tflops * 1e12))


class NVMLError(Exception):
    pass


def fake_nvml(**changes) -> types.SimpleNamespace:
    uuids = []
    fake = types.SimpleNamespace(
        NVMLError=NVMLError,
        NVML_TEMPERATURE_GPU=0,
        uuids=uuids,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuids.append(uuid) or "handle",
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=97, memory=40),
        nvmlDeviceGetPowerUsage=lambda handle: 291_500,
        nvmlDeviceGetTemperature=lambda handle, sensor: 71,
    )
    vars(fake).update(changes)
    return fake


def fails(*arguments):
    raise NVMLError("Not Supported")


def test_readings_that_a_card_does_not_give_have_no_key(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlDeviceGetPowerUsage=fails))
    assert GpuSensors("1234-ab").read() == {"gpu_utilisation": 97, "gpu_temperature_c": 71}


def test_without_a_driver_or_without_the_library_there_are_no_keys(monkeypatch):
    assert GpuSensors("1234-ab").read() == {}  # the real library, no driver here
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=fails))
    assert GpuSensors("1234-ab").read() == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert GpuSensors("1234-ab").read() == {}


def test_ranks_become_one_figure_the_fullest_memory_the_hottest_card_the_mean_power(tmp_path):
    """Two real gloo ranks, of which only the first reads a temperature."""
    program = tmp_path / "ranks.py"
    program.write_text(
        "import json, torch\n"
        "from scripts.training.monitoring.measurements import reduce_over_ranks\n"
        "torch.distributed.init_process_group('gloo')\n"
        "rank = torch.distributed.get_rank()\n"
        "mine = {'memory_reserved_gib': 30.0 + rank, 'gpu_power_w': 200.0 + 100 * rank}\n"
        "mine |= {'gpu_temperature_c': 60.0} if rank == 0 else {}\n"
        "found = reduce_over_ranks(mine, torch.device('cpu'))\n"
        "open(__file__ + str(rank), 'w').write(json.dumps(found))\n"
    )
    done = forked.run_ranks([sys.executable, "-m", "ranks"], 2, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        actual = json.loads((tmp_path / f"ranks.py{rank}").read_text())
        assert actual == {"memory_reserved_gib": 31.0, "gpu_power_w": 250.0, "gpu_temperature_c": 60.0}


def test_each_logged_step_of_a_stage_has_rate_memory_and_an_empty_mfu_on_the_cpu(origin, shards, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = run(origin, shards, tmp_path, steps=4)
    assert done.returncode == 0, done.stderr
    steps = [entry for entry in metrics(tmp_path / "out") if "loss" in entry]
    assert len(steps) == 4
    for entry in steps:
        assert entry["mfu"] is None
        assert entry["tokens_per_second"] > 0
        assert 0.05 < entry["memory_resident_gib"] < 8
        assert not any(name.startswith("gpu") for name in entry)
    board = EventAccumulator(str(tmp_path / "out/tensorboard"))
    board.Reload()
    tags = {tag.removeprefix("train/"): tag for tag in board.Tags()["scalars"]}
    written = [event.value for event in board.Scalars(tags["tokens_per_second"])]
    assert written == pytest.approx([entry["tokens_per_second"] for entry in steps], rel=1e-5)
    assert "memory_resident_gib" in tags
    progress = json.loads(next(tmp_path.glob("work/*/progress.json")).read_text())
    assert {name: progress[name] for name in ("stage", "state", "step", "steps", "tokens_left", "eta_seconds")} == {
        "stage": "tiny",
        "state": "trained",
        "step": 4,
        "steps": 4,
        "tokens_left": 0,
        "eta_seconds": 0,
    }
    assert progress["tokens"] == 4 * 4 * LENGTH
    assert math.isclose(progress["loss"], steps[-1]["loss"])
    assert progress["last_alert"] is None and (tmp_path / "out/alerts.jsonl").read_bytes() == b""


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_wandb_that_is_not_installed_is_a_one_line_error_with_the_remedy(origin, shards, tmp_path):
    (tmp_path / "monitoring.yaml").write_text("wandb: code\n")
    words = [*command(origin, shards, tmp_path), "--monitoring", str(tmp_path / "monitoring.yaml")]
    done = forked.run(words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: monitoring: wandb is not installed: `uv pip install wandb`")


def test_an_unknown_monitoring_key_is_a_one_line_error(origin, shards, tmp_path):
    (tmp_path / "monitoring.yaml").write_text("alerts: {grad_nrm: 3}\n")
    words = [*command(origin, shards, tmp_path), "--monitoring", str(tmp_path / "monitoring.yaml")]
    done = forked.run(words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("alerts.grad_nrm: unknown key; did you mean `grad_norm`?")
