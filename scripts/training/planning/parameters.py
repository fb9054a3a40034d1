"""How many parameters a Qwen2 model of a given shape has, by closed forms; no model is built."""

from scripts.experiment.settings.training import Lora, Shape


def key_width(shape: Shape) -> int:
    """The outputs of a layer's key projection, and of its value projection."""
    return shape.hidden_size // shape.num_attention_heads * shape.num_key_value_heads


def matrix_parameters(shape: Shape) -> int:
    """The parameters of all layers' matrices: attention and SwiGLU."""
    width, inner = shape.hidden_size, shape.intermediate_size
    return shape.num_hidden_layers * (2 * width * width + 2 * width * key_width(shape) + 3 * width * inner)


def layer_parameters(shape: Shape) -> int:
    """The parameters of all layers: matrices, q/k/v biases and RMS norms."""
    vectors = shape.hidden_size + 2 * key_width(shape) + 2 * shape.hidden_size
    return matrix_parameters(shape) + shape.num_hidden_layers * vectors


def head_parameters(shape: Shape) -> int:
    """The parameters of a head that is not also the embedding."""
    return 0 if shape.tie_word_embeddings else shape.vocab_size * shape.hidden_size


def embedding_parameters(shape: Shape) -> int:
    """The parameters outside the layers: embedding, head and last norm."""
    return shape.vocab_size * shape.hidden_size + head_parameters(shape) + shape.hidden_size


def count_parameters(shape: Shape) -> int:
    """The number of parameters of a Qwen2 model; `shape.vocab_size` must be known."""
    return layer_parameters(shape) + embedding_parameters(shape)


def adapter_parameters(shape: Shape, lora: Lora) -> int:
    """The parameters of LoRA adapters: r · (inputs + outputs) for each target in each layer."""
    width, inner, keys = shape.hidden_size, shape.intermediate_size, key_width(shape)
    sides = {"q_proj": 2 * width, "k_proj": width + keys, "v_proj": width + keys, "o_proj": 2 * width}
    sides |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), width + inner)
    return shape.num_hidden_layers * lora.r * sum(sides.get(target, 0) for target in lora.targets)
