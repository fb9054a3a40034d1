"""`stagecraft plan` before any data or model exists."""

from pathlib import Path

import pytest
import yaml
from rich.console import Console

from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.training.planning import overview

SHAPE = {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize(("shape", "key"), [(None, "training.base.shape"), (SHAPE, "training.base.shape.vocab_size")])
def test_a_plan_without_memory_says_which_key_it_lacks(tmp_path, shape, key):
    experiment = read_yaml(Path("config/experiments/qwen2.5-7b-code.yaml"))
    experiment["training"]["base"]["shape"] = shape
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(experiment))
    [stage] = overview.plans_of("profiles/a40", path, assumed_rows=6400).stages
    assert "gpu_gib" not in stage.plan
    assert stage.plan["warnings"] == [f"{key}: not given; without it nothing says whether sft fits its memory"]


def printed(stages) -> str:
    console = Console(width=150)
    with console.capture() as capture:
        console.print(overview.overview_table(stages, Path("m.yaml")))
    return capture.get()


def test_a_batch_that_follows_from_the_data_is_planned_without_any_and_for_as_many_rows_as_are_told(tmp_path):
    """The plan of `global_batch_size: auto` ended in a traceback before there was data."""
    muon = tmp_path / "muon.yaml"
    shipped = Path("config/experiments/cpt-muon.yaml").read_text()
    muon.write_text(shipped.replace("data/text", str(tmp_path / "absent")))  # a user may have put texts into data/text
    [unknown] = overview.plans_of("profiles/a800", muon).stages
    assert "auto" in printed([unknown])
    [line] = unknown.plan["warnings"]
    assert line.startswith("pretrain: steps and hours follow from the data")
    assert "`stagecraft plan --rows 20000`" in line
    [stage_plan] = overview.plans_of("profiles/a800", muon, assumed_rows=100_000).stages
    assert (stage_plan.plan["global_batch_size"], stage_plan.plan["steps"], stage_plan.rows.validation) == (
        96,
        1042,
        1020,
    )
    assert "of the rows asked for" in printed([stage_plan])


@pytest.mark.parametrize("key", ["gpu_memory_gib", "gpu_tflops"])
def test_a_figure_that_the_machine_file_lacks_is_named_with_what_is_missing(key):
    machine = load_machine(Path("config/machines/a40.yaml"))
    assert overview.machine_warnings(machine) == []
    [line] = overview.machine_warnings(machine.model_copy(update={key: None}))
    assert line.startswith(f"machine: {key}: not given; without it nothing says")


HEADERS = {  # experiment → profile, rows that its head names
    "cpt-muon": ("a800", 100_000),
    "lora-qa": ("rtx4090", 5000),
    "qwen2.5-7b-code": ("a40", 6701),
    "qwen2.5-7b-code-dual": ("a40-dual", 6701),
    "two-stage-nope": ("a800", None),  # its steps are given
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_head_of_a_shipped_experiment_says_what_its_plan_says(name, monkeypatch):
    profile, rows = HEADERS[name]
    path = Path(f"config/experiments/{name}.yaml")
    head = path.read_text(encoding="utf-8").partition("\nexperiment:")[0]
    for stage in overview.plans_of(f"profiles/{profile}", path, assumed_rows=rows).stages:
        assert f"{stage.plan['gpu_gib']:.1f}" in head, stage.name
        assert f"{stage.plan['steps']:,}" in head and f"{stage.plan['hours']:.1f}".removesuffix(".0") in head
