"""`gradient_checkpointing` of the machine file: so many layers are recomputed, the loss stays the same."""

from itertools import pairwise

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from scripts.experiment.model_folder import REQUIRED, Shape
from scripts.tokens.packing.shards import Shards
from scripts.training.engine.callbacks import RecomputedLayers
from scripts.training.engine.trainer import Rows, StageTrainer
from scripts.training.model.attention import stack
from scripts.training.planning.budget import Pass, layer_bytes
from scripts.training.planning.parameters import counts, layers_with_gradients
from scripts.training.planning.resolved_stage import resolve_stage
from scripts.training.train import training_arguments
from tests.training.conftest import SHAPE, VOCABULARY, machine, stage


def test_as_many_layers_as_said_are_recomputed_and_the_loss_is_the_same(tmp_path, shards):
    def trained(checkpointing) -> tuple[list[bool], float]:
        settings, here = (
            stage(steps=2, warmup_steps=1, global_batch_size=2),
            machine(gradient_checkpointing=checkpointing),
        )
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(Qwen2Config(**SHAPE | {"num_hidden_layers": 3}, vocab_size=VOCABULARY))
        arguments = training_arguments(resolve_stage("tiny", settings, here, None, None), 0, tmp_path, validate=False)
        arguments.save_strategy = "no"
        rows = Rows(Shards(shards, "train"))
        trainer = StageTrainer(model=model, args=arguments, train_dataset=rows, data_collator=stack)
        trainer.add_callback(RecomputedLayers(here))
        loss = trainer.train().training_loss
        return [layer.gradient_checkpointing for layer in model.model.layers], loss

    none, plain = trained(False)
    for given, recomputed in ((True, [True] * 3), (1, [True, False, False]), (2, [True, True, False])):
        layers, loss = trained(given)
        assert (none, layers) == ([False] * 3, recomputed)
        assert loss == pytest.approx(plain, abs=1e-6)


def kept_bytes(recomputed: int, frozen: int = 0) -> int:
    """Bytes that autograd keeps of a forward pass in float32, each storage once, without the weights'. `frozen`: layers
    that are not trained, the first ones, with the embedding."""
    torch.manual_seed(0)
    config = Qwen2Config(**SHAPE | {"num_hidden_layers": 4}, vocab_size=VOCABULARY, use_cache=False)
    model = Qwen2ForCausalLM(config).train()
    if frozen:
        model.requires_grad_(False)
        model.model.layers[frozen:].requires_grad_(True)
    model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    RecomputedLayers(machine(gradient_checkpointing=recomputed or 1)).on_train_begin(None, None, None, model=model)
    if not recomputed:
        for layer in model.model.layers:
            layer.gradient_checkpointing = False
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    storages = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = (storage.nbytes(), tensor)  # alive, so that no other takes its place
        return tensor

    ids = torch.randint(0, VOCABULARY, (2, 32))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids)
    return sum(size for size, _ in storages.values())


def test_each_recomputed_layer_frees_as_much_as_the_plan_says():
    """The plan's bytes of a layer less its input, beside what autograd keeps."""
    measured = [kept_bytes(count) for count in range(5)]
    steps = [before - after for before, after in pairwise(measured)]
    shape = Shape(**{name: SHAPE[name] for name in REQUIRED} | {"num_hidden_layers": 4}, vocab_size=VOCABULARY)
    spec = {
        "sequence_length": 32,
        "rows": 2,
        "flash": False,
        "compiled": False,
        "weights": "float32",
        "autocast": False,
    }
    layer = layer_bytes(Pass(shape, recomputed=0, **spec)) - 2 * 32 * 4 * shape.hidden_size
    assert max(steps) == pytest.approx(min(steps), rel=0.05)  # each as much
    assert sum(steps) / 4 == pytest.approx(layer, rel=0.1)  # of so small a layer; traces of large ones are within 6%


def test_of_a_stage_that_trains_the_last_layers_those_are_recomputed():
    """Layers before the first trained one keep nothing: to recompute them would free nothing, and the plan says so."""
    measured = [kept_bytes(count, frozen=2) for count in range(4)]
    first, second, third = (before - after for before, after in pairwise(measured))
    assert first == pytest.approx(second, rel=0.05) and first > 0 and third == 0
    settings = stage(trainable=["model.layers.2.*", "model.layers.3.*"])
    shape = Shape(**{name: SHAPE[name] for name in REQUIRED} | {"num_hidden_layers": 4}, vocab_size=VOCABULARY)
    assert layers_with_gradients(shape, counts(shape, settings)) == 2
