"""scripts/training/model/chunked_loss.py: the loss and the gradients are those of the model's own code."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, CohereConfig, Gemma2Config, PhiConfig, Qwen2Config
from transformers.utils import logging

from scripts.training.model import chunked_loss
from scripts.training.model.attention import collator_for
from scripts.training.model.chunked_loss import IGNORED, own_loss, use_chunked_loss

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 97, "pad_token_id": 0}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    logging.set_verbosity_error()
    monkeypatch.setattr(chunked_loss, "CHUNK", 5)


def made(kind=Qwen2Config, **changes):
    torch.manual_seed(7)
    return AutoModelForCausalLM.from_config(kind(**{**SIZES, **HEADS, **changes}))


def batch(masked: float) -> dict[str, torch.Tensor]:
    """Three rows of 13 tokens, a share of which is no target."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(1, 97, (3, 13), generator=generator)
    labels = ids.masked_fill(torch.rand(ids.shape, generator=generator) < masked, IGNORED)
    return {"input_ids": ids, "labels": labels}


def loss_and_gradients(model, rows, half: bool = False) -> list[torch.Tensor]:
    """The loss by 40 targets of a step, and the gradient of each trained parameter; all in float64."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss = model(**rows, num_items_in_batch=torch.tensor(40)).loss
    (3 * loss).backward()
    gradients = [parameter.grad.double() for parameter in model.parameters() if parameter.requires_grad]
    return [loss.detach().double(), *gradients]


@pytest.mark.parametrize("masked", [0, 0.7])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("method", ["full", "lora", "head trained alone"])
def test_loss_and_gradients_are_those_of_transformers_own_code(method, tied, masked):
    model, rows = made(tie_word_embeddings=tied), batch(masked)
    if method == "lora":
        model = get_peft_model(model, LoraConfig(target_modules="all-linear", init_lora_weights=False))
    elif method != "full":
        model.requires_grad_(False).get_output_embeddings().requires_grad_(True)
    expected = loss_and_gradients(model, rows)
    assert use_chunked_loss(model, "zero2", "")
    for ours, theirs in zip(loss_and_gradients(model, rows), expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    with torch.no_grad():
        assert torch.allclose(model(**rows, num_items_in_batch=40).loss.double(), expected[0], rtol=1e-6)


@pytest.mark.parametrize("autocast", [True, False])
def test_in_bf16_the_loss_is_float32_and_gradients_are_as_near_to_float64s_as_those_of_the_models_code(autocast):
    model, rows = made(), batch(0.3)
    if not autocast:
        model = model.bfloat16()
    exact = loss_and_gradients(made().to(next(model.parameters()).dtype).double(), rows)
    theirs = loss_and_gradients(model, rows, half=autocast)
    use_chunked_loss(model, "none", "")
    ours = loss_and_gradients(model, rows, half=autocast)
    assert model(**rows).loss.dtype == torch.float32
    assert abs(ours[0] - exact[0]) <= 1.1 * abs(theirs[0] - exact[0])
    expected = torch.cat([gradient.flatten() for gradient in exact[1:]])
    our_error, their_error = (
        (torch.cat([gradient.flatten() for gradient in found[1:]]) - expected).norm() for found in (ours, theirs)
    )
    # a tenth further off, or on a processor without instructions for bf16 a quarter
    assert our_error < 1.3 * their_error < 0.02 * expected.norm()


def test_a_part_of_a_step_without_any_target_has_no_loss_and_no_gradient():
    model = made()
    use_chunked_loss(model, "none", "")
    assert not any(value.any() for value in loss_and_gradients(model, batch(1)))


def test_the_logits_of_more_than_a_chunk_never_exist():
    rows_of_logits = []

    class Watched(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            tensors = [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
            rows_of_logits.extend(len(value) for value in tensors if value.dim() > 1 and value.shape[-1] == 97)
            return result

    model = made()
    use_chunked_loss(model, "none", "")
    with Watched():
        model(**batch(0)).loss.backward()
    # the head's own matrix is [97, 16], and [16, 97] transposed
    assert set(rows_of_logits) - {16} == {5, 1}, "36 targets are seven chunks of 5 and one of 1"


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (lambda: made(), ""),
        (
            lambda: made(Gemma2Config, final_logit_softcapping=2.0, head_dim=8, initializer_range=1.0),
            "and the model's own",
        ),
        (lambda: made(CohereConfig, logit_scale=0.1), "and the model's own"),
        (lambda: made(PhiConfig), "its head is not a plain matrix"),
    ],
)
def test_a_model_with_another_loss_computes_it_itself(model, says):
    assert says in own_loss(model(), batch(0.2))
    assert bool(own_loss(model(), batch(0.2))) == bool(says)


def test_sharded_weights_and_a_head_with_an_adapter_are_left_to_the_models_code():
    model = made(tie_word_embeddings=False)
    assert not use_chunked_loss(model, "zero3", "")
    assert not use_chunked_loss(model, "fsdp2", "")
    assert not use_chunked_loss(model, "none", "it caps its logits")
    adapted = get_peft_model(model, LoraConfig(target_modules=["q_proj", "lm_head"]))
    assert not use_chunked_loss(adapted, "none", "")
    assert "forward" not in vars(adapted.get_base_model())


def test_the_places_that_the_collator_finds_are_those_that_the_loss_would_find():
    model, given = made(), batch(0.5)
    assert use_chunked_loss(model, "none", "")
    rows = [{"input_ids": ids, "labels": labels} for ids, labels in zip(*given.values(), strict=True)]
    collated = collator_for("sdpa", chunked=True)(rows)
    assert len(collated["scored"]) == (given["labels"][:, 1:] != IGNORED).sum()
    expected = loss_and_gradients(model, given)
    for ours, theirs in zip(loss_and_gradients(model, collated), expected, strict=True):
        assert torch.equal(ours, theirs)
