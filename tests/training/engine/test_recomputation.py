"""`gradient_checkpointing` of the machine file: all layers are recomputed, the loss stays the same."""

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from scripts.tokens.packing.shards import Shards
from scripts.training.engine.trainer import Rows, StageTrainer
from scripts.training.model.attention import stack
from scripts.training.planning.resolved_stage import resolve_stage
from scripts.training.train import training_arguments
from tests.training.conftest import SHAPE, VOCABULARY, machine, stage


def test_all_layers_are_recomputed_and_the_loss_is_the_same(tmp_path, shards):
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
        loss = StageTrainer(model=model, args=arguments, train_dataset=rows, data_collator=stack).train().training_loss
        return [layer.gradient_checkpointing for layer in model.model.layers], loss

    none, plain = trained(False)
    all_layers, losses_all = trained(True)
    assert (none, all_layers) == ([False] * 3, [True] * 3)
    assert losses_all == pytest.approx(plain, abs=1e-6)
