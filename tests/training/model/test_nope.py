"""scripts/training/model/nope.py: the converted model is the same function but for RoPE, wherever it is loaded."""

import json
import math
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM

from scripts.common.errors import UserError
from scripts.experiment.settings.training import Base
from scripts.training.base import base
from scripts.training.model.nope import convert_to_nope, expand_layers, no_rope_parameters
from tests.training.conftest import ROPE_THETA, SHAPE, scratch
from tests.training.test_train import run

HEADS, KEYS, WIDTH, DEPTH, WORDS = 4, 2, 32, 4, 128
SIZE = WIDTH // HEADS


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    """A folder with a Qwen2 whose large weights make a wrong position show, q/k/v biases included."""
    folder = tmp_path_factory.mktemp("qwen")
    torch.manual_seed(0)
    shape = {**SHAPE, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "num_key_value_heads": KEYS}
    rope = {"rope_type": "default", "rope_theta": ROPE_THETA}
    config = Qwen2Config(vocab_size=WORDS, rope_parameters=rope, initializer_range=0.3, eos_token_id=5, **shape)
    model = Qwen2ForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "norm.weight")):
            torch.nn.init.normal_(parameter, 1.0, 0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def copy(qwen, tmp_path):
    shutil.copytree(qwen, tmp_path / "model")
    return tmp_path / "model"


def load(folder, dtype=torch.float64, attention="eager"):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention).eval()


def ids(rows=2, length=40):
    return torch.randint(WORDS, (rows, length), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def reference(weights: dict, tokens: torch.Tensor, off: set, theta: float) -> torch.Tensor:
    """Qwen2 by hand, from the paper's formulas: RoPE as a complex rotation of (x[i], x[i + size / 2]), in float64."""
    weights = {name: value.double() for name, value in weights.items()}
    length = tokens.shape[1]
    angle = torch.arange(length)[:, None] * theta ** -(torch.arange(0, SIZE, 2).double() / SIZE)
    turn = torch.polar(torch.ones_like(angle), angle)  # [length, size / 2]

    def norm(x, name):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weights[f"{name}.weight"]

    def project(x, name, heads):
        y = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        return y.unflatten(-1, (heads, SIZE)).transpose(1, 2)  # [rows, heads, length, size]

    def rotate(x):
        turned = torch.complex(*x.chunk(2, -1)) * turn
        return torch.cat([turned.real, turned.imag], -1)

    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(DEPTH):
        at = f"model.layers.{layer}"
        y = norm(x, f"{at}.input_layernorm")
        q, k = project(y, f"{at}.self_attn.q_proj", HEADS), project(y, f"{at}.self_attn.k_proj", KEYS)
        v = project(y, f"{at}.self_attn.v_proj", KEYS)
        if layer not in off:
            q, k = rotate(q), rotate(k)
        heads = []
        for head in range(HEADS):
            shared = head // (HEADS // KEYS)
            scores = q[:, head] @ k[:, shared].transpose(1, 2) / math.sqrt(SIZE)
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
            heads.append(scores.softmax(-1) @ v[:, shared])
        x = x + torch.cat(heads, -1) @ weights[f"{at}.self_attn.o_proj.weight"].T
        y = norm(x, f"{at}.post_attention_layernorm")
        gate, up = y @ weights[f"{at}.mlp.gate_proj.weight"].T, y @ weights[f"{at}.mlp.up_proj.weight"].T
        x = x + (gate * gate.sigmoid() * up) @ weights[f"{at}.mlp.down_proj.weight"].T
    return norm(x, "model.norm") @ weights["model.embed_tokens.weight"].T  # tied


@torch.no_grad()
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_with_rope_on_everywhere_the_converted_model_gives_identical_logits(qwen, copy, attention):
    convert_to_nope(copy, [])
    model = load(copy, torch.float32, attention)
    assert model.config.model_type == "smollm3"
    assert torch.equal(model(ids()).logits, load(qwen, torch.float32, attention)(ids()).logits)


@torch.no_grad()
@pytest.mark.parametrize("off", [set(), {1}, {0, 3}, {0, 1, 2, 3}])
def test_the_logits_equal_an_independent_computation_without_rope_in_exactly_the_chosen_layers(qwen, copy, off):
    convert_to_nope(copy, sorted(off))
    expected = reference(load_file(qwen / "model.safetensors"), ids(), off, ROPE_THETA)
    assert (load(copy)(ids()).logits - expected).abs().max() < 1e-4  # the frequencies are float32
    if off:
        assert (load(qwen)(ids()).logits - expected).abs().max() > 0.5


@torch.no_grad()
def test_a_sharded_bfloat16_model_is_converted_too(qwen, tmp_path):
    load(qwen, torch.bfloat16).save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    shutil.copytree(tmp_path / "shards", tmp_path / "model")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 2
    convert_to_nope(tmp_path / "model", [])
    biases = load_file(tmp_path / "model/model-o-proj-bias.safetensors")
    assert {bias.dtype for bias in biases.values()} == {torch.bfloat16}
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype="auto")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    same = load(tmp_path / "shards", torch.bfloat16, "sdpa")
    assert torch.equal(model(ids()).logits, same(ids()).logits)


@torch.no_grad()
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_documents_are_kept_apart_also_in_layers_without_rope(copy, attention):
    convert_to_nope(copy, [1, 3])
    model = load(copy, torch.float32, attention)
    lengths = [7, 20, 13]
    positions = torch.cat([torch.arange(length) for length in lengths])[None].expand(2, -1)
    packed = model(ids(), position_ids=positions, use_cache=False).logits
    start = 0
    for length in lengths:
        alone = model(ids()[:, start : start + length], use_cache=False).logits
        torch.testing.assert_close(packed[:, start : start + length], alone, atol=2e-5, rtol=1e-5)
        start += length


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([28], "28 is out of range; the model has layers 0 to 27"),
        (["20-32"], "20-32 is out of range; the model has layers 0 to 27"),
        ([-1], "-1 is out of range"),
        (["27-20"], "27-20 runs backwards; write 20-27"),
        ([3, "2-4", 2], "2, 3 named more than once"),
    ],
)
def test_layers_that_do_not_exist_or_repeat_are_one_line_errors(chosen, message):
    with pytest.raises(UserError, match=f"training.base.no_rope_layers: {message}"):
        expand_layers(chosen, 28)


def test_other_architectures_and_sliding_windows_are_refused_and_nothing_is_changed(copy):
    config = json.loads((copy / "config.json").read_text())
    before = sorted(path.name for path in copy.iterdir())
    sliding = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0, "layer_types": None}
    for change, message in [
        ({"model_type": "llama"}, "only Qwen2"),
        (sliding, "sliding window"),
        ({}, "layers 0 to 3"),
    ]:
        (copy / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(UserError, match=message):
            convert_to_nope(copy, [4])
    assert sorted(path.name for path in copy.iterdir()) == before


def test_the_base_rule_converts_and_checks_the_hash_of_what_it_copied(origin, tokenizer, tmp_path):
    from scripts.training.base import content_hash

    digest = content_hash(json.loads((origin / "manifest.json").read_text()))
    out = tmp_path / "out"
    settings = Base(model=str(origin), sha256=digest, no_rope_layers=[1])
    manifest = base(settings, 0, tokenizer, out)
    assert {"model.safetensors.index.json", "model-o-proj-bias.safetensors"} <= set(manifest["files"])
    assert "model.safetensors" not in manifest["files"]
    model = AutoModelForCausalLM.from_pretrained(out)
    assert model.config.no_rope_layers == [1, 0]
    made = base(scratch(no_rope_layers=["0-1"]), 1, tokenizer, tmp_path / "scratch")
    assert (
        made["files"]["model-weights.safetensors"]["sha256"] == manifest["files"]["model-weights.safetensors"]["sha256"]
    )


def test_a_stage_on_no_rope_layers_moves_these_alone(tokenizer, shards, tmp_path):
    folder, out = tmp_path / "base", tmp_path / "out"
    base(scratch(no_rope_layers=[1]), 1, tokenizer, folder)
    done = run(folder, shards, tmp_path, steps=2, warmup_steps=1, save_steps=2, trainable="no_rope_layers")
    assert done.returncode == 0, done.stderr
    before, after = load(folder), load(out)
    assert after.config.no_rope_layers == [1, 0]
    moved = {name for name, value in after.named_parameters() if not torch.equal(value, before.get_parameter(name))}
    assert moved == set(no_rope_parameters(before))


def test_the_parameters_of_layers_without_rope_are_listed_whole(qwen, copy):
    convert_to_nope(copy, [1, 3])
    model = load(copy)
    names = no_rope_parameters(model)
    expected = {name for name, _ in model.named_parameters() if name.split(".")[2] in ("1", "3")}
    assert set(names) == expected
    assert len(names) == 2 * 13  # 4 projections with biases, 3 matrices of the feed-forward, 2 norms
    with torch.device("meta"):  # layer 1 is not layer 10
        deep = SmolLM3ForCausalLM(SmolLM3Config(num_hidden_layers=12, no_rope_layers=[1, 0, *[1] * 10]))
    assert {name.split(".")[2] for name in no_rope_parameters(deep)} == {"1"}
    with pytest.raises(UserError, match="RoPE is on in all layers"):
        no_rope_parameters(load(qwen))
