"""scripts/training/model/liger.py: what runs is what the machine file allows, and trains the same
model."""

from importlib.machinery import ModuleSpec

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.qwen2 import modeling_qwen2

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.training.model import liger
from tests.training.conftest import MACHINE
from tests.training.test_train import run

GPU = {**MACHINE, "gpus": 1}


@pytest.fixture
def package(monkeypatch):
    """Whether liger-kernel is installed, and what it knows, as a test says."""

    def set_to(installed: bool, known: tuple[str, ...] = ("qwen2", "smollm3")):
        spec = ModuleSpec("liger_kernel", None) if installed else None
        monkeypatch.setattr(liger.importlib.util, "find_spec", lambda name: spec)
        monkeypatch.setattr(liger, "has_kernels", lambda model_type: model_type in known)

    return set_to


@pytest.mark.parametrize(
    ("machine", "installed", "expected"),
    [
        (MACHINE, True, False),
        (GPU, False, False),
        (GPU, True, True),
        ({**GPU, "sharding": "zero2"}, True, True),
        ({**GPU, "sharding": "zero3"}, True, False),
        ({**GPU, "sharding": "fsdp2"}, True, False),
        ({**GPU, "sharding": "fsdp2", "liger": True}, True, True),
        ({**GPU, "liger": False}, True, False),
    ],
)
def test_liger_runs_where_it_can_and_the_machine_file_allows_it(package, machine, installed, expected):
    package(installed)
    assert liger.choose_liger(Machine.parse(machine, "test"), "qwen2") is expected


@pytest.mark.parametrize(
    ("machine", "installed", "says"),
    [
        (MACHINE, True, "needs GPUs"),
        (GPU, False, "needs the package: `uv pip install --group liger`"),
        (GPU, True, "has no kernels for mamba"),
    ],
)
def test_liger_true_where_it_cannot_run_is_a_one_line_error(package, machine, installed, says):
    package(installed)
    with pytest.raises(UserError, match=f"^machine: `liger: true` {says}.*use `auto`"):
        liger.choose_liger(Machine.parse({**machine, "liger": True}, "test"), "mamba")


def test_without_a_gpu_a_stage_with_liger_true_ends_before_it_trains(origin, shards, tmp_path):
    done = run(origin, shards, tmp_path, {**MACHINE, "liger": True})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: machine: `liger: true` needs GPUs")
    assert not (tmp_path / "out").exists()


def test_a_model_loaded_after_training_with_liger_is_transformers_own(origin, monkeypatch):
    """Liger puts Triton kernels into transformers' module; the fingerprint is then taken on the CPU."""

    def patch(model, settings):  # what Liger does
        for name in ("apply_rotary_pos_emb", "Qwen2RMSNorm", "Qwen2MLP"):
            setattr(modeling_qwen2, name, None)

    monkeypatch.setattr(liger.liger, "apply_liger_kernel", patch)
    model = AutoModelForCausalLM.from_pretrained(origin)
    tokens = torch.arange(8)[None]
    expected = model(tokens).logits
    with pytest.raises(KeyboardInterrupt), liger.liger_kernels(model, True, loss=False):
        assert modeling_qwen2.Qwen2MLP is None
        raise KeyboardInterrupt
    assert torch.equal(AutoModelForCausalLM.from_pretrained(origin)(tokens).logits, expected)
