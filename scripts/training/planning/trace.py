"""Trace the real model's code on fake tensors: how many bytes a pass keeps alive, at any size, without a GPU.

    echo '[{"hidden_size": 3584, ...}]' | python -m scripts.training.planning.trace    # fills the cache

A model of two and of three layers (of more where not all are recomputed) runs forward and backward on FakeTensors,
which have shapes and no memory. Every storage is counted from its first use to its end. The most that is alive in each
phase grows linearly with the layers, so two sizes say what any number of layers takes: at 7B in seconds, and again at
once from the cache.

torch is imported only here. scripts/training/planning/activations.py starts this module and reads the cache.
"""

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from accelerate.utils import convert_outputs_to_fp32
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Qwen2Config, Qwen2ForCausalLM, modeling_utils

from scripts.common.cli import run
from scripts.common.files import write_json
from scripts.experiment.settings.record import parse_json
from scripts.training.model.attention import VARLEN
from scripts.training.planning.activations import PHASES, Pass, cache_file, sizes
from scripts.training.planning.liger_stand_ins import use_stand_ins
from scripts.training.planning.parameters import head_width

BLOCK = 512  # CUDA's allocator hands out multiples of this


class Ledger(TorchDispatchMode):
    """Bytes of all storages that operations make, from their first use to their end, and the most in each phase.

    Attributes:
        peaks: phase → [most bytes alive, of these bytes of logits].
    """

    def __init__(self, vocabulary: int, tokens: int):
        super().__init__()
        self.vocabulary, self.logits = vocabulary, tokens * vocabulary
        self.alive, self.alive_logits, self.phase = 0, 0, "forward"
        self.seen: dict[int, int] = {}
        self.peaks = {phase: [0, 0] for phase in PHASES}

    def ignore(self, tensors) -> None:
        """Leave storages out that exist already: weights, and gradients of earlier passes."""
        for tensor in tensors:
            self.seen[tensor.untyped_storage()._cdata] = 0

    def end(self, address: int, size: int, logits: int) -> None:
        self.alive -= size
        self.alive_logits -= logits
        self.seen.pop(address, None)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor)
        return result

    def count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata in self.seen or not (size := -(-storage.nbytes() // BLOCK) * BLOCK):
            return
        of_logits = tensor.numel() == self.logits and tensor.shape[-1] == self.vocabulary
        logits = size if of_logits else 0
        self.seen[storage._cdata] = size
        weakref.finalize(storage, self.end, storage._cdata, size, logits)
        self.alive += size
        self.alive_logits += logits
        if self.alive > self.peaks[self.phase][0]:
            self.peaks[self.phase] = [self.alive, self.alive_logits]

    @contextmanager
    def phases(self, model) -> Iterator[None]:
        """Within, the phase follows the pass: forward, loss, backward through the head, the last layer, the rest."""

        def enter(phase):
            self.phase = phase
            self.peaks[phase] = max(self.peaks[phase], [self.alive, self.alive_logits])

        def into_norm(_, inputs):
            enter("loss")
            if inputs[0].requires_grad:
                inputs[0].register_hook(lambda _: enter("last"))

        def into_last(_, inputs):
            if inputs and inputs[0].requires_grad and self.phase == "forward":
                inputs[0].register_hook(lambda _: enter("rest"))

        body = model.get_base_model().model if hasattr(model, "get_base_model") else model.model
        hooks = [body.norm.register_forward_pre_hook(into_norm), body.layers[-1].register_forward_pre_hook(into_last)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def make_fake(model: nn.Module) -> None:
    """Put a fake tensor of the CPU in place of each weight, tied ones once, and of each buffer of a model on `meta`."""
    fakes = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None and weight not in fakes:
                fakes[weight] = nn.Parameter(torch.empty(weight.shape, dtype=weight.dtype), weight.requires_grad)
            module._parameters[name] = None if weight is None else fakes[weight]
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else torch.empty(buffer.shape, dtype=buffer.dtype)


def held_elsewhere(**_) -> torch.autograd.graph.saved_tensors_hooks:
    """Replaces torch's `save_on_cpu`: a saved tensor leaves the ledger, and returns to it when it is read."""
    return torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: (tensor.shape, tensor.dtype), lambda saved: torch.empty(saved[0], dtype=saved[1])
    )


def model_of(spec: Pass, layers: int) -> nn.Module:
    """The model that the stage would train, with `layers` layers; on `meta`, as peft cannot add to fake tensors."""
    shape = spec.shape
    config = Qwen2Config(
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_key_value_heads,
        head_dim=head_width(shape),
        vocab_size=shape.vocab_size,
        tie_word_embeddings=shape.tie_word_embeddings,
        attn_implementation=VARLEN if spec.flash else "sdpa",
        dtype=spec.weights,
    )
    with torch.device("meta"):
        model = Qwen2ForCausalLM(config).to(getattr(torch, spec.weights))
        if spec.lora:
            from peft import LoraConfig, get_peft_model

            adapters = {"r": spec.lora.r, "lora_dropout": spec.lora.dropout, "target_modules": spec.lora.targets}
            model = get_peft_model(model, LoraConfig(**adapters, task_type="CAUSAL_LM"))
    model.train(spec.training)
    if spec.checkpointing and spec.training:
        modeling_utils.save_on_cpu = held_elsewhere
        model.activation_checkpointing_enable(every_n_layers=spec.every_n_layers, offload=spec.offloaded)
        if spec.lora:
            model.enable_input_require_grads()
    if spec.liger and spec.training:
        use_stand_ins(model)
    if spec.autocast:
        model.forward = convert_outputs_to_fp32(torch.autocast("cpu", torch.bfloat16)(model.forward))
    return model


def batch_of(spec: Pass) -> dict:
    """One packed batch; two documents in each row."""
    rows, length = spec.rows, spec.sequence_length
    tokens = {name: torch.zeros(rows, length, dtype=torch.int64) for name in ("input_ids", "position_ids", "labels")}
    if not spec.flash:
        return tokens
    offsets = torch.zeros(2 * rows + 1, dtype=torch.int32)
    bounds = {"cu_seq_lens_q": offsets, "cu_seq_lens_k": offsets}
    return tokens | bounds | dict.fromkeys(("max_length_q", "max_length_k"), length)


def one_pass(spec: Pass, layers: int) -> dict[str, list[int]]:
    """The peaks of one pass of a model with `layers` layers."""
    model = model_of(spec, layers)
    with FakeTensorMode(allow_non_fake_inputs=True):
        make_fake(model)
        if spec.accumulated and spec.training:
            for weight in model.parameters():
                weight.grad = torch.empty_like(weight) if weight.requires_grad else None
        batch = batch_of(spec)
        ledger = Ledger(spec.shape.vocab_size, spec.rows * spec.sequence_length)
        ledger.ignore(weight for weight in [*model.parameters(), *model.buffers()])
        ledger.ignore(weight.grad for weight in model.parameters() if weight.grad is not None)
        with ledger.phases(model), ledger:
            with nullcontext() if spec.training else torch.no_grad():
                loss = model(**batch, use_cache=False).loss
            if spec.training:
                ledger.phase = "head"
                loss.backward()
    return ledger.peaks


def main() -> None:
    for spec in parse_json(list[Pass], sys.stdin.read()):
        if not cache_file(spec).exists():
            write_json(cache_file(spec), {str(layers): one_pass(spec, layers) for layers in sizes(spec)})


if __name__ == "__main__":
    run(main)
