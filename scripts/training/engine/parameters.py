"""The trained parameters of a model, by what an optimizer does with them."""

from torch import nn
from transformers.trainer_pt_utils import get_parameter_names

# transformers' rule: no weight decay on biases and norms
UNDECAYED = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]


def full_shape(parameter: nn.Parameter) -> tuple[int, ...]:
    """The shape of the whole tensor; under ZeRO-3 each process holds a flat shard of it."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))


def split_parameters(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The trained parameters: `muon` (matrices of the hidden layers), `decayed` and `undecayed` (AdamW)."""
    vocabulary = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    decayed = set(get_parameter_names(model, [nn.LayerNorm], UNDECAYED))
    parts = {"muon": [], "decayed": [], "undecayed": []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            hidden = len(full_shape(parameter)) == 2 and not any(parameter is weight for weight in vocabulary)
            if hidden:
                parts["muon"].append(parameter)
            else:
                parts["decayed" if name in decayed else "undecayed"].append(parameter)
    return parts


def first_layer_with_gradients(model: nn.Module, layers: list[nn.Module]) -> int:
    """The number of the first layer that gradients reach: those before it keep nothing that could be recomputed."""
    if any(parameter.requires_grad for parameter in model.get_input_embeddings().parameters()):
        return 0
    for number, layer in enumerate(layers):
        if any(parameter.requires_grad for parameter in layer.parameters()):
            return number
    return len(layers)
