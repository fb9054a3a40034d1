"""The experiments, smoke sizes and profiles of this repository."""

from pathlib import Path

import pytest

from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.experiment.settings.record import to_dict

SHIPPED = [Path("config/config.yaml"), *sorted(Path("config/experiments").glob("*.yaml"))]
EXPERIMENTS = [*SHIPPED, *sorted(Path("config/smoke").glob("*.yaml"))]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=str)
def test_shipped_experiments_are_valid_and_name_their_command(path):
    load_experiment(read_yaml(path), str(path))
    assert "#     snakemake --profile" in path.read_text()


PROFILES = sorted(path.parent for path in Path("profiles").glob("*/config.yaml") if path.parent.name != "default")


def test_keys_of_all_profiles_are_given_once():
    shared = set(read_yaml(Path("profiles/default/config.yaml")))
    assert {"max-checksum-file-size", "rerun-triggers", "rerun-incomplete", "retries", "show-failed-logs"} <= shared
    for path in PROFILES:
        assert not shared & set(read_yaml(path / "config.yaml")), f"{path}: profiles/default wins over these keys"


@pytest.mark.parametrize("path", PROFILES, ids=str)
def test_each_profile_names_an_experiment_and_a_machine_that_exist(path):
    profile = read_yaml(path / "config.yaml")
    assert Path(profile["configfile"]).is_file()
    load_machine(Path(f"config/machines/{profile['default-resources']['machine']}.yaml"))
    assert Path(path.name).resolve() == path.resolve(), f"`snakemake --profile {path.name}` needs the link {path.name}"


def test_the_dual_experiment_differs_from_the_first_only_in_the_settings_that_it_names():
    single, dual = (
        to_dict(load_experiment(read_yaml(Path(f"config/experiments/qwen2.5-7b-code{name}.yaml"))))
        for name in ("", "-dual")
    )
    changed = {"global_batch": 32, "scheduler": "cosine", "keep_best": True}
    assert dual["training"]["train"]["sft"] == single["training"]["train"]["sft"] | changed
    assert {key for key in single if single[key] != dual[key]} == {"experiment", "monitoring", "training", "evaluation"}
    assert dual["evaluation"]["perplexity"] == single["evaluation"]["perplexity"]


@pytest.mark.parametrize("path", SHIPPED, ids=str)
def test_a_smoke_size_changes_sizes_only(path):
    """Whatever of a stage is not a size is what the experiment says: else the smoke run would show nothing of it."""
    smoke = Path("config/smoke") / path.name
    if path.name == "config.yaml":  # it is small itself
        assert not smoke.exists()
        return
    full, tiny = (to_dict(load_experiment(read_yaml(file))) for file in (path, smoke))
    assert tiny["results"] == f"results/smoke/{path.stem}"
    sizes = {"sequence_length", "global_batch", "steps", "epochs", "max_samples", "learning_rate", "early_stopping"}
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
