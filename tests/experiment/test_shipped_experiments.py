"""The experiments, smoke sizes and profiles of this repository."""

from pathlib import Path

import pytest

from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_dict

SHIPPED = [Path("config/config.yaml"), *sorted(Path("config/experiments").glob("*.yaml"))]
EXPERIMENTS = [*SHIPPED, *sorted(Path("config/smoke").glob("*.yaml"))]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=str)
def test_shipped_experiments_are_valid_and_name_their_command(path):
    load_experiment(read_yaml(path), str(path))
    assert "#     snakemake --profile" in path.read_text()


def test_the_default_and_the_flagship_keep_their_results_apart():
    """`make eval`, then the command of profile a40 in the same checkout."""
    default, flagship = Path("config/config.yaml"), Path("config/experiments/qwen2.5-7b-code.yaml")
    assert load_experiment(read_yaml(default)).results == "results/own-code"
    assert load_experiment(read_yaml(flagship)).results == "results"
    assert "results/own-code/eval.json" in Path("Makefile").read_text()


PROFILES = sorted(path.parent for path in Path("profiles").glob("*/config.yaml") if path.parent.name != "default")


@pytest.mark.parametrize("path", SHIPPED, ids=str)
def test_a_smoke_size_changes_sizes_only(path):
    """Whatever of a stage is not a size is what the experiment says: else the smoke run would show nothing of it."""
    smoke = Path("config/smoke") / path.name
    if path.name == "config.yaml":  # it is small itself
        assert not smoke.exists()
        return
    full, tiny = (to_dict(load_experiment(read_yaml(file))) for file in (path, smoke))
    assert tiny["results"] == f"results/smoke/{path.stem}"
    sizes = {
        "sequence_length",
        "global_batch_size",
        "steps",
        "epochs",
        "max_samples",
        "learning_rate",
        "early_stopping",
    }
    sizes |= {"warmup_steps", "eval_steps", "eval_rows"}
    assert set(tiny["training"]["train"]) == set(full["training"]["train"])
    for name, stage in full["training"]["train"].items():
        tiny_stage = tiny["training"]["train"][name]
        assert {key for key in stage.keys() | tiny_stage.keys() if stage.get(key) != tiny_stage.get(key)} <= sizes
        assert ("early_stopping" in stage) == ("early_stopping" in tiny_stage)
    # generated code needs bubblewrap, and a smoke run only what `make env` brings
    gates = [gate for gate in full["evaluation"]["gate"]["gates"] if gate["metric"] != "pass@1"]
    assert tiny["evaluation"]["gate"]["gates"] == gates
    dataset_kinds = [
        {name: data["kind"] for name, data in experiment["corpus"]["compose"].items()} for experiment in (full, tiny)
    ]
    assert dataset_kinds[0] == dataset_kinds[1]
