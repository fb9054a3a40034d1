"""What an architecture can be trained with, found on a small copy of it: attention kernels, adapters with dropout."""

import sys

import pytest
from transformers import AutoConfig

from scripts.common.errors import UserError
from scripts.training.model.kernels import architecture, stage_attention
from tests import forked
from tests.training.conftest import stage

pytestmark = pytest.mark.slow


@pytest.fixture
def tried(tmp_path, monkeypatch):
    """The outcome of the trials of a model type with transformers' default sizes."""
    monkeypatch.setattr("scripts.training.model.kernels.architecture_file", lambda name: tmp_path / name)
    monkeypatch.setattr(sys, "executable", forked.python())

    def of(model_type: str):
        AutoConfig.for_model(model_type).save_pretrained(tmp_path / model_type)
        return architecture(tmp_path / model_type)

    return of


def test_a_kernel_that_drops_what_the_model_asks_for_is_not_chosen(tried):
    gemma = tried("gemma2")  # caps its attention scores
    assert (
        gemma.wrong["varlen"] == "it drops softcap" and not gemma.wrong["eager"] and not gemma.wrong["flex_attention"]
    )
    assert gemma.linear == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert gemma.no_dropout == ""
    assert "and the model's own" in gemma.own_loss, "it caps its logits too"


def test_a_model_whose_layers_have_heads_of_two_sizes_is_tried_with_both(tried):
    gemma = tried("gemma4_text")
    assert not gemma.wrong["sdpa"] and gemma.wrong["varlen"] == "heads of 512; it takes 256 at most"


def test_dropout_on_adapters_of_fused_experts_is_refused_in_one_line(tried):
    experts = tried("qwen3_moe")
    assert experts.own_loss == ""
    adapters = {"method": "lora", "lora": {"r": 2, "dropout": 0.05}}
    with pytest.raises(
        UserError, match=r"^training\.train\.sft\.lora\.dropout: .* of qwen3_moe have no dropout .* set 0"
    ):
        stage_attention(experts, "sft", stage(**adapters), None)
    for lora in ({"dropout": 0}, {"targets": ["q_proj"]}):
        settings = stage(method="lora", lora={**adapters["lora"], **lora})
        assert stage_attention(experts, "sft", settings, None).name == "sdpa"


def test_a_model_without_attention_is_refused_in_one_line(tried):
    with pytest.raises(UserError, match=r"no small copy of mamba2 .*: it has no attention; use another") as refused:
        tried("mamba2")
    assert "\n" not in str(refused.value)
