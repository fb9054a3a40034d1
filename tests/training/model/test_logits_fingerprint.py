"""scripts/training/model/logits_fingerprint.py: a model that loads as another function than was saved is refused,
damage by damage."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen2ForCausalLM

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.manifest import read_manifest
from scripts.training.base import base
from scripts.training.model import logits_fingerprint
from tests.training.conftest import scratch


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """An untrained model of transformers' usual small weights, the hardest case: its attention is nearly uniform."""
    out = tmp_path_factory.mktemp("nope")
    base(scratch(shape={"num_hidden_layers": 4}, no_rope_layers=[2]), 3, tokenizer, out)
    return out


def load(folder, dtype=torch.float32, attention="sdpa"):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention)


def flip(layer):
    def damage(model):
        attention = model.model.layers[layer].self_attn
        attention.use_rope = 1 - attention.use_rope

    return damage


def theta(model):
    size = 2 * len(model.model.rotary_emb.inv_freq)
    frequencies = 20000.0 ** -(torch.arange(0, size, 2) / size)
    model.model.rotary_emb.inv_freq.copy_(frequencies)


def swap(name):
    def damage(model):
        first, second = (model.get_submodule(f"model.layers.{layer}.{name}").weight for layer in (0, 1))
        first.data, second.data = second.data, first.data

    return damage


DAMAGE = {
    **{f"RoPE flipped in layer {layer}": flip(layer) for layer in range(4)},
    "rope_theta doubled": theta,
    **{f"{name} swapped": swap(name) for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")},
    **{f"{name} swapped": swap(name) for name in ("self_attn.o_proj", "mlp.up_proj", "mlp.down_proj")},
}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sound_model_passes_in_either_type_and_attention_and_is_left_as_it_was(folder, dtype, attention):
    model = load(folder, dtype, attention).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    logits_fingerprint.check(model, folder)
    assert model.training
    assert model.config._attn_implementation == attention
    for name, value in model.state_dict().items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])
    assert model.lm_head.weight is model.model.embed_tokens.weight  # still tied
    assert (
        logits_fingerprint.distance(model, read_json(folder / logits_fingerprint.NAME))
        < logits_fingerprint.TOLERANCE / 20
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("damage", DAMAGE)
def test_each_damage_is_a_one_line_error(folder, damage, dtype):
    model = load(folder, dtype)
    DAMAGE[damage](model)
    with pytest.raises(UserError, match="the model as loaded is not the one that was saved: logits differ by"):
        logits_fingerprint.check(model, folder)


def test_the_same_weights_with_rope_everywhere_are_refused(folder, tmp_path):
    """What would happen were they loaded as the Qwen2 that they were: transformers says nothing that stops it."""
    config = json.loads((folder / "config.json").read_text())
    fields = {name: value for name, value in config.items() if not name.startswith("no_rope")}
    write_json(tmp_path / "config.json", {**fields, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]})
    for path in folder.glob("model*"):
        (tmp_path / path.name).symlink_to(path)
    model = Qwen2ForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    with pytest.raises(UserError, match="were its RoPE layers"):
        logits_fingerprint.check(model, folder)


def test_another_vocabulary_a_missing_fingerprint_and_a_diverged_model_are_one_line_errors(folder, tmp_path):
    model = load(folder)
    with pytest.raises(UserError, match=r"logits\.json: missing"):
        logits_fingerprint.check(model, tmp_path)
    torch.nn.init.constant_(model.model.norm.weight, torch.nan)
    with pytest.raises(UserError, match="diverged"):
        logits_fingerprint.check(model, folder)
    with pytest.raises(UserError, match="diverged"):
        logits_fingerprint.save(tmp_path, model)
    model.resize_token_embeddings(520)
    with pytest.raises(UserError, match="made with a vocabulary of 512, the model has 520"):
        logits_fingerprint.check(model, folder)


def test_the_fingerprint_is_transformers_own_logits_and_equal_on_every_call(folder, tmp_path):
    """The likeliest tokens of a plain forward pass by hand, which no rounding or upcasting touched."""
    logits_fingerprint.save(tmp_path, logits_fingerprint.load_float32(folder))
    assert (tmp_path / logits_fingerprint.NAME).read_bytes() == (folder / logits_fingerprint.NAME).read_bytes()
    fingerprint = read_json(folder / logits_fingerprint.NAME)
    text = torch.tensor([logits_fingerprint.hashed_integers("text", logits_fingerprint.TOKENS, 512)])
    with torch.no_grad():
        logits = load(folder)(text).logits[0, logits_fingerprint.POSITIONS]
    top = logits.topk(logits_fingerprint.LIKELIEST)
    assert [row[: logits_fingerprint.LIKELIEST] for row in fingerprint["places"]] == top.indices.tolist()
    stored = torch.tensor(fingerprint["logits"]["float32"])[:, : logits_fingerprint.LIKELIEST]
    torch.testing.assert_close(stored, top.values, atol=1e-6, rtol=1e-5)


def test_a_quantized_model_is_checked_by_its_folder(folder):
    model = load(folder)
    model.model.layers[0].mlp.up_proj.weight = torch.nn.Parameter(
        torch.zeros(64, 32, dtype=torch.int8), requires_grad=False
    )
    logits_fingerprint.check(model, folder)


def test_the_manifest_does_not_list_the_file_with_the_logits_fingerprint(folder):
    assert logits_fingerprint.NAME not in read_manifest(folder)["files"]
