"""scripts/training/planning/: the closed forms agree with transformers', torch's and DeepSpeed's own counts."""

import pytest

from scripts.experiment.model_folder import Shape, shape_of_folder
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.training import Lora
from scripts.training.planning.budget import Pass, pass_peak
from scripts.training.planning.parameters import (
    adapter_parameters,
    count_parameters,
    counts,
    embedding_parameters,
    passed_parameters,
)
from scripts.training.planning.states import model_states
from tests.training.test_plan import QWEN_7B, a40, stage

SMALL = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}


def full_training_memory(shape, machine, optimizer) -> tuple[float, float]:
    """(bytes per GPU without buckets, bytes per host), as DeepSpeed's estimators and the ZeRO paper count them."""
    states = model_states(shape, stage(optimizer=optimizer), machine)
    return sum(states[:4]), states.host


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_are_those_of_the_model_that_transformers_builds(tied):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = {
        "hidden_size": 96,
        "intermediate_size": 200,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "tie_word_embeddings": tied,
    }
    with torch.device("meta"):
        model = Qwen2ForCausalLM(Qwen2Config(**shape))
    assert count_parameters(Shape(**shape)) == sum(weight.numel() for weight in set(model.parameters()))


@pytest.mark.slow
def test_models_whose_heads_have_a_width_of_their_own_are_counted_as_transformers_does():
    import torch
    from transformers import MistralConfig, MistralForCausalLM, Qwen3Config, Qwen3ForCausalLM

    qwen3 = dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16)
    qwen3 |= dict(num_key_value_heads=8, head_dim=128, vocab_size=151936, tie_word_embeddings=True)
    nemo = dict(hidden_size=5120, intermediate_size=14336, num_hidden_layers=40, num_attention_heads=32)
    nemo |= dict(num_key_value_heads=8, head_dim=128, vocab_size=131072, tie_word_embeddings=False)
    for config, kind, billions in (
        (Qwen3Config(**qwen3), Qwen3ForCausalLM, 0.6),
        (MistralConfig(**nemo), MistralForCausalLM, 12.25),
    ):
        with torch.device("meta"):
            model = kind(config)
        shape = Shape.from_config(config.to_dict())
        real = sum(weight.numel() for weight in set(model.parameters()))
        assert count_parameters(shape) == pytest.approx(real, rel=1e-3)
        assert real / 1e9 == pytest.approx(billions, abs=0.01)
        lora = Lora(r=8, targets=["q_proj", "o_proj"])
        width = config.hidden_size + config.head_dim * config.num_attention_heads
        assert adapter_parameters(shape, lora) == 2 * 8 * width * config.num_hidden_layers


SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8)
OTHER_KINDS = {  # kind → its own sizes
    "starcoder2": SIZES,
    "phi": SIZES,
    "gemma3_text": {**SIZES, "head_dim": 16},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "qwen3_moe": {**SIZES, **EXPERTS},
    "mixtral": {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_model_that_is_there_is_counted_by_its_own_weights(tmp_path, kind):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = OTHER_KINDS[kind]
    tokens = {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **tokens))
    model.save_pretrained(tmp_path, max_shard_size="20KB")  # in several files, which an index names
    shape = shape_of_folder(tmp_path)
    assert count_parameters(shape) == model.num_parameters()
    counted = counts(shape, stage())
    assert counted.all == counted.trained == model.num_parameters() and counted.first_layer == 0
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert adapter_parameters(shape, Lora(r=4)) == adapted.get_nb_trainable_parameters()[0]


def shape_of_model(config) -> Shape | None:
    """The shape of the model that transformers makes of a config, with the sizes of its weights."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tensors = {name: list(weight.shape) for name, weight in model.named_parameters()}
    return Shape.from_config(config.to_dict(), tensors)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["starcoder2", "gemma2", "gemma3_text", "qwen3", "llama", "phi", "gpt2", "gemma3"])
def test_of_a_config_alone_the_parameters_are_those_of_the_model_that_transformers_makes(tmp_path, kind):
    """Also where config.json leaves out what is its class' default, as a tied head, or holds a text model within."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind)
    config.save_pretrained(tmp_path)  # which writes no defaults that are equal
    text = config.get_text_config(decoder=True)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(text)
    shape = shape_of_folder(tmp_path)
    assert count_parameters(shape) == sum(weight.numel() for weight in model.parameters())
    assert shape.tie_word_embeddings == bool(text.tie_word_embeddings)


# kind with transformers' default sizes → peak of a pass of 4096 tokens, by traces of its code on fake tensors with
# torch 2.13 and transformers 5.23: bytes with autocast on float32 weights, and with bfloat16 weights
TRACED = {
    "starcoder2": (8_754_939_904, 1_856_081_920),
    "phi": (4_393_484_288, 1_309_253_632),
    "gemma3_text": (11_008_941_056, 5_210_554_368),
    "gpt_neox": (47_211_053_056, 4_345_257_984),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRACED)
def test_the_closed_form_of_activations_holds_for_other_kinds_than_qwens(kind):
    from transformers import AutoConfig

    shape = shape_of_model(AutoConfig.for_model(kind))
    same = {
        "sequence_length": 4096,
        "rows": 1,
        "recomputed": shape.num_hidden_layers,
        "flash": True,
        "compiled": False,
        "chunked": True,
    }
    mixed, half = (
        pass_peak(Pass(shape, weights=weights, autocast=weights == "float32", **same), shape.num_hidden_layers)
        for weights in ("float32", "bfloat16")
    )
    assert (mixed.bytes, half.bytes) == pytest.approx(TRACED[kind], rel=0.06)


@pytest.mark.slow
def test_of_a_mixture_of_experts_all_weights_are_held_and_a_token_passes_some():
    """Mixtral 8x7B: 46.7 and 12.9 billion, as published (Jiang et al. 2024)."""
    from transformers import MixtralConfig

    config = MixtralConfig()
    shape = shape_of_model(config)
    assert count_parameters(shape) / 1e9 == pytest.approx(46.7, abs=0.05)
    assert (passed_parameters(shape) + embedding_parameters(shape)) / 1e9 == pytest.approx(12.9, abs=0.05)
    assert Shape.from_config(config.to_dict()) is None  # rather than a wrong one


def test_a_model_with_layers_of_several_sizes_has_no_shape_rather_than_a_wrong_one():
    config = {**SIZES, "vocab_size": 100}
    assert Shape.from_config(config) is not None
    gemma4 = ({"per_layer_config": {"5": {"head_dim": 512}}}, {"hidden_size_per_layer_input": 256})
    lists = ({"intermediate_size": [64, 32]}, {"num_key_value_heads": [2, 4]}, {"moe_num_experts": [8, 8]})
    for key in (*gemma4, *lists):
        assert Shape.from_config(config | key) is None
        assert Shape.from_config(config | key, {"model.layers.0.mlp.up_proj.weight": [64, 32]}) is None


def test_qwen_7b_has_its_published_number_of_parameters():
    assert round(count_parameters(QWEN_7B) / 1e9, 2) == 7.62


@pytest.mark.slow
@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (1, 8), (2, 4)])
@pytest.mark.parametrize("sharding", ["zero2", "zero3"])
def test_memory_agrees_with_deepspeeds_estimators(sharding, nodes, gpus, offload):
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    machine = a40(nodes=nodes, gpus=gpus, sharding=sharding, offload=offload)
    hosts = {"num_gpus_per_node": gpus, "num_nodes": nodes, "cpu_offload": offload, "additional_buffer_factor": 1}
    count = count_parameters(QWEN_7B)
    if sharding == "zero3":
        embedding = QWEN_7B.vocab_size * QWEN_7B.hidden_size
        host, gpu, _ = estimate_zero3_model_states_mem_needs(count, embedding, cpu_offload_params=False, **hosts)
    else:
        host, gpu = estimate_zero2_model_states_mem_needs(count, **hosts)
        if offload and nodes == 2:  # DeepSpeed's ZeRO-2 figure forgets that the states are divided among the hosts
            host = max(4 * gpus * count, host / nodes)
    assert full_training_memory(QWEN_7B, machine, "adamw") == pytest.approx((gpu, host), rel=1e-6)


def test_seven_billion_parameters_with_zero3_and_offload_take_what_the_design_says():
    states, host = full_training_memory(QWEN_7B, a40(sharding="zero3", offload=True), "adamw")
    assert (round(states / 2**30, 1), round(host / 2**30)) == (9.1, 113)


@pytest.mark.parametrize(("sharding", "per_parameter"), [("none", 16), ("zero2", 11)])
def test_model_states_per_parameter_follow_the_zero_papers_table(sharding, per_parameter):
    states, _ = full_training_memory(QWEN_7B, a40(sharding=sharding), "adamw")
    assert states == per_parameter * count_parameters(QWEN_7B)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_moments_are_the_bytes_of_the_optimizers_state_after_a_real_step(tmp_path, optimizer, tied):
    """Summed over the tensors that torch and bitsandbytes keep; the Trainer makes the optimizer, as for a stage."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

    from scripts.training.engine.muon import muon_factory
    from scripts.training.engine.stage_folder import state_bytes

    shape = {**SMALL, "vocab_size": 1000, "tie_word_embeddings": tied}
    model = Qwen2ForCausalLM(Qwen2Config(**shape))
    name = {"adamw_8bit": {"optim": "adamw_8bit"}}.get(optimizer, {})
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, **name)
    factory = None
    if optimizer == "muon":
        factory = muon_factory(stage(optimizer=optimizer, weight_decay=0.0), a40())
    made = Trainer(model, arguments, optimizer_cls_and_kwargs=factory).create_optimizer()
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    made.step()
    tensors = [
        value
        for state in made.state.values()
        for name, value in state.items()
        if torch.is_tensor(value) and name != "step" and not name.startswith("qmap")  # one table for all tensors
    ]
    assert sum(tensor.nbytes for tensor in tensors) == pytest.approx(state_bytes(model, optimizer), rel=1e-3)
    counted = counts(Shape(**shape), stage())  # the plan's, without a model
    assert state_bytes(model, optimizer) == OPTIMIZERS[optimizer].state_bytes(
        counted.trained, counted.matrices, counted.head
    )
