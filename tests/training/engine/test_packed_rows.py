"""Packed rows are the documents one by one: logits and gradients, for text and for chats, on each attention kernel."""

import shutil

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, PreTrainedModel, TrainingArguments

from scripts.training.engine.trainer import StageTrainer
from scripts.training.model import attention
from scripts.training.model.nope import convert_to_nope
from tests.training.conftest import LENGTH, VOCABULARY

# lengths of the documents in each row; the last row is padded, and padding is a document of its own without targets
ROWS = [[5, 20, 7], [LENGTH], [1, 2, 29], [16, 10]]


def documents(kind: str) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
    """Per row the (tokens, labels) of its documents: text counts all but the first token, a chat only the answers."""
    torch.manual_seed(3)
    rows = []
    for lengths in ROWS:
        rows.append([])
        for length in lengths:
            tokens = torch.randint(0, VOCABULARY, (length,))
            labels = tokens.clone()
            labels[0] = -100
            if kind == "chat":  # turns of four tokens, every second one an answer: unequal numbers of targets
                labels[(torch.arange(length) // 4) % 2 == 0] = -100
            rows[-1].append((tokens, labels))
        if padding := LENGTH - sum(lengths):
            rows[-1].append((torch.zeros(padding, dtype=torch.long), torch.full((padding,), -100)))
    return rows


def packed(rows) -> list[dict[str, torch.Tensor]]:
    """As scripts/tokens/packing/shards.py gives them."""
    return [
        {
            "input_ids": torch.cat([tokens for tokens, _ in row]),
            "position_ids": torch.cat([torch.arange(len(tokens)) for tokens, _ in row]),
            "labels": torch.cat([labels for _, labels in row]),
        }
        for row in rows
    ]


def one_by_one(origin, rows) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits [rows, length, vocabulary] and gradients of the summed loss: each document alone, in float64."""
    model = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float64, attn_implementation="eager")
    logits, nats = [], 0
    for row in rows:
        scores = [model(tokens[None], use_cache=False).logits[0] for tokens, _ in row]
        for score, (_, labels) in zip(scores, row, strict=True):
            if (labels != -100).any():
                nats = nats + F.cross_entropy(score[:-1], labels[1:], ignore_index=-100, reduction="sum")
        logits.append(torch.cat(scores))
    nats.backward()
    return torch.stack(logits).detach(), {name: weight.grad for name, weight in model.named_parameters()}


def together(origin, rows, kernel: str) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The same, as the stage engine does it: one batch of packed rows, the model's own loss."""
    model = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float64, attn_implementation=kernel)
    output = model(**attention.collator_for(kernel)(packed(rows)), num_items_in_batch=1, use_cache=False)
    output.loss.backward()
    return output.logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}


@pytest.fixture
def reference_kernel(monkeypatch):
    """PyTorch's variable-length kernel needs a GPU; the same function by its documentation, document by document."""

    def varlen_attn(query, key, value, cu_q, cu_k, max_q, max_k, *, scale, window_size, enable_gqa):
        assert window_size == (-1, 0) and torch.equal(cu_q, cu_k) and cu_q.dtype == torch.int32
        assert max_q == max_k == int(cu_q.diff().max()) and cu_q[-1] == len(query)
        sections = cu_q.diff().tolist()
        cuts = [tensor.transpose(0, 1).split(sections, 1) for tensor in (query, key, value)]
        each = [
            F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=enable_gqa)
            for q, k, v in zip(*cuts, strict=True)
        ]
        return torch.cat(each, 1).transpose(0, 1)

    monkeypatch.setattr(attention, "varlen_attn", varlen_attn)


@pytest.fixture(scope="module")
def nope(origin, tmp_path_factory):
    """The model with RoPE off in its second layer, where nothing but the mask tells documents apart."""
    folder = tmp_path_factory.mktemp("nope")
    shutil.copytree(origin, folder, dirs_exist_ok=True)
    convert_to_nope(folder, [1])
    return folder


@pytest.mark.parametrize("kind", ["text", "chat"])
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("model", ["origin", "nope"])
def test_packed_rows_give_the_logits_and_gradients_of_single_documents(request, model, kernel, kind):
    folder, rows = request.getfixturevalue(model), documents(kind)
    (ours, gradients), (theirs, expected) = together(folder, rows, kernel), one_by_one(folder, rows)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert gradients.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-6, atol=5e-6)  # norms are computed in float32


def test_the_variable_length_kernel_gets_boundaries_heads_and_causality_right(origin, reference_kernel):
    """All but the kernel itself: boundaries, layout, grouped heads, causality. It computes in bf16."""
    rows = documents("chat")
    (ours, gradients), (theirs, expected) = together(origin, rows, attention.VARLEN), one_by_one(origin, rows)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-3)
    for name, gradient in expected.items():
        assert (gradients[name] - gradient).norm() < 2e-2 * gradient.norm() + 1e-4, name


def test_an_all_ones_mask_would_let_documents_see_each_other(origin):
    """Why there is no mask in a batch; when this fails, transformers has changed and the rule may go."""
    rows = documents("text")
    model = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float64, attn_implementation="sdpa")
    batch = attention.collator_for("sdpa")(packed(rows))
    assert "attention_mask" not in batch
    leaked = model(**batch, attention_mask=torch.ones(len(rows), LENGTH), use_cache=False).logits
    assert (leaked - one_by_one(origin, rows)[0]).abs().max() > 1e-3


def test_boundaries_are_those_of_the_concatenated_rows():
    boundaries = attention.document_boundaries(torch.tensor([[0, 1, 2, 0], [0, 0, 1, 2]]))
    assert boundaries["cu_seq_lens_q"].tolist() == boundaries["cu_seq_lens_k"].tolist() == [0, 3, 4, 5, 8]
    assert boundaries["max_length_q"] == boundaries["max_length_k"] == 3


def test_weights_of_any_size_are_saved_as_the_one_file_that_the_rule_declares(model, tmp_path, monkeypatch):
    """transformers splits from 50 GB on; here from 20 kB."""
    saver = PreTrainedModel.save_pretrained
    monkeypatch.setattr(
        PreTrainedModel,
        "save_pretrained",
        lambda self, *rest, **named: saver(self, *rest, **{"max_shard_size": 20_000} | named),
    )
    model.save_pretrained(tmp_path / "split")
    assert len(list((tmp_path / "split").glob("*.safetensors"))) > 1
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])
    StageTrainer(model=model, args=arguments).save_model(str(tmp_path / "one"))
    assert [path.name for path in (tmp_path / "one").glob("*.safetensors*")] == ["model.safetensors"]
