"""Stand-ins for Liger's kernels in a trace: they keep alive what the Triton kernels do, and compute nothing.

Triton does not run on fake tensors. Each stand-in makes the outputs of the kernel that it stands for and saves the same
tensors for the backward pass: RMS norm its input and one number per row, SwiGLU its two inputs, the fused loss the
gradients of its input and of the head's weight, with the logits of one chunk at a time (liger-kernel 0.8.5).
"""

import types

import torch
from torch import nn
from transformers.modeling_outputs import CausalLMOutputWithPast


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(context, states, weight):
        rows = torch.empty(states.shape[:-1], dtype=torch.float32, device=states.device)
        context.save_for_backward(states, weight, rows)
        return torch.empty_like(states)

    @staticmethod
    def backward(context, gradient):
        states, weight, _ = context.saved_tensors
        return torch.empty_like(states), torch.empty_like(weight)


class SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(context, gate, up):
        context.save_for_backward(gate, up)
        return torch.empty_like(gate)

    @staticmethod
    def backward(context, gradient):
        return context.saved_tensors  # the kernel writes the gradients over its inputs


class FusedLoss(torch.autograd.Function):
    """Linear head and cross-entropy, chunk by chunk: as many chunks as the vocabulary is wider than the states."""

    @staticmethod
    def forward(context, states, weight):
        rows, width = states.shape
        chunks = -(-weight.shape[0] // width)
        size = 1 << max(0, -(-rows // chunks) - 1).bit_length()
        of_states = torch.empty_like(states)
        of_weight = torch.empty_like(weight) if weight.requires_grad else None
        for _ in range(min(2, -(-rows // size))):
            chunk = torch.empty(min(size, rows), weight.shape[0], dtype=states.dtype)
            wide = chunk.float()
            del chunk, wide
        if of_weight is not None:  # a chunk's product, before it is added
            product = torch.empty_like(weight)
            del product
        context.save_for_backward(*[tensor for tensor in (of_states, of_weight) if tensor is not None])
        context.trained = of_weight is not None
        return states.new_zeros((), dtype=torch.float32)

    @staticmethod
    def backward(context, gradient):
        saved = context.saved_tensors
        return saved[0], saved[1] if context.trained else None


def fused_forward(model, input_ids=None, labels=None, **arguments):
    states = model.model(input_ids=input_ids, **arguments).last_hidden_state
    loss = FusedLoss.apply(states.reshape(-1, states.shape[-1]), model.lm_head.weight)
    return CausalLMOutputWithPast(loss=loss)


def use_stand_ins(model: nn.Module) -> None:
    """Replace norms, SwiGLU and loss of a Qwen2 model, also below peft's adapters."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    inner.forward = types.MethodType(fused_forward, inner)
    for module in inner.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = types.MethodType(lambda self, states: RmsNorm.apply(states, self.weight), module)
        elif type(module).__name__.endswith("MLP"):
            module.forward = types.MethodType(
                lambda self, states: self.down_proj(SwiGlu.apply(self.gate_proj(states), self.up_proj(states))), module
            )
