"""`make plan` before anything is there."""

import pytest
import yaml

from scripts.experiment.machine_files import read_yaml
from scripts.training.planning import overview

SHAPE = {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize(("shape", "key"), [(None, "training.base.shape"), (SHAPE, "training.base.shape.vocab_size")])
def test_a_plan_without_memory_says_which_key_it_lacks(tmp_path, shape, key):
    experiment = read_yaml(overview.Path("config/experiments/qwen2.5-7b-code.yaml"))
    experiment["training"]["base"]["shape"] = shape
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(experiment))
    [stage] = overview.plans_of("profiles/a40", path).stages
    assert "gpu_gib" not in stage.plan
    assert stage.plan["warnings"] == [f"{key}: not given; without it nothing says whether sft fits its memory"]
