"""scripts/experiment/experiment_view.py: what the rules derive from an experiment."""

import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from scripts.common.errors import UserError
from scripts.experiment.checks import check_dataset_sources
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_dict, to_json
from scripts.sources.tables.sources_table import read_sources


def dag(file: str, edit=None) -> ExperimentView:
    config = read_yaml(Path(file)) | {"results": "results"}
    if edit:
        edit(config)
    experiment = load_experiment(config, file)
    sources = read_sources(Path(experiment.sources)) if experiment.sources else []
    return ExperimentView(experiment, {source.name: source for source in sources}, Layout(Path(experiment.results)))


def names(paths) -> list[str]:
    return [str(path) for path in paths]


def test_from_scratch_the_tokenizer_is_learned_from_the_split_corpus_and_the_shape_has_its_vocabulary():
    flow = dag("config/examples/from-scratch.yaml")
    assert flow.scratch and names(flow.tokenizer_texts) == ["results/corpus/split"]
    assert flow.shape.vocab_size == 4096 and flow.base_settings["shape"]["hidden_size"] == flow.shape.hidden_size
    assert str(flow.shards("pretrain")) == "results/tokens/pack/code-512"
    assert flow.trained_on == ["code", "instruct"]
    assert flow.models == ["base", "pretrain", "sft"] and flow.own_datasets == []


@pytest.mark.parametrize("name", ["experiments/qwen2.5-7b-code", "experiments/lora-qa", "examples/from-scratch"])
def test_datasets_in_another_order_and_defaults_that_are_written_out_are_the_same_settings_for_each_suite(name):
    flow = dag(f"config/{name}.yaml")
    suites = {suite: to_json(settings) for suite, settings in flow.suites.items()}

    def reorder(config):
        config["corpus"]["compose"] = dict(reversed(config["corpus"]["compose"].items()))

    def write_out(config):
        for suite in suites:
            config["evaluation"][suite] = to_dict(flow.experiment)["evaluation"][suite]

    for edit in (reorder, write_out):
        other = dag(f"config/{name}.yaml", edit)
        assert {suite: to_json(settings) for suite, settings in other.suites.items()} == suites


def test_a_stage_on_a_mixture_trains_on_its_datasets_which_are_packed_at_the_stages_length():
    def edit(config):
        parts = {"code": {"weight": 1}, "instruct": {"weight": 4, "max_epochs": 3}}
        config["tokens"]["mix"] = {"both": {"parts": parts}}
        config["training"]["train"]["sft"]["data"] = "both"

    flow = dag("config/examples/from-scratch.yaml", edit)
    assert str(flow.shards("sft")) == "results/tokens/mix/both-1024" and flow.trained_on == ["code", "instruct"]
    assert names(flow.rows.folders()) == ["results/tokens/pack/code-512", "results/tokens/mix/both-1024"]
    assert names(flow.rows.packed()) == [
        f"results/tokens/pack/{name}" for name in ("code-512", "code-1024", "instruct-1024")
    ]
    assert names(flow.rows.mixed()) == ["results/tokens/mix/both-1024"]


def test_with_a_real_base_the_tokenizer_is_the_bases_and_the_shape_is_only_the_plans():
    flow = dag("config/experiments/lora-qa.yaml")
    assert not flow.scratch and names(flow.tokenizer_texts) == ["results/training/base"]
    assert "shape" not in flow.base_settings and flow.shape.hidden_size == 3584
    assert flow.sources == {} and flow.own_datasets == ["python", "systems"]


def test_a_base_is_identified_by_its_content_not_by_its_path_or_the_files_beside_it(tmp_path, monkeypatch):
    def write(folder, value):
        save_file({"a": np.array([value])}, folder / "model.safetensors")

    def model(folder):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        write(folder, 1)
        return folder

    def settings(folder, **more):
        base = {"model": str(folder), **more}
        return dag(file, lambda config: config["training"].update(base=base)).base_settings

    file = str(Path("config/experiments/two-stage-nope.yaml").absolute())
    monkeypatch.chdir(tmp_path)
    first, second = model(tmp_path / "here"), model(tmp_path / "there")
    expected = settings(first)
    (second / "README.md").write_text("read me")
    assert settings(second) == expected == settings(second, sha256=expected["sha256"])
    with pytest.raises(UserError, match=f"training.base.sha256: the content of .*there has [0-9a-f]*, not {'0' * 64}"):
        settings(second, sha256="0" * 64)
    state = (second / "model.safetensors").stat()
    write(second, 2)
    os.utime(second / "model.safetensors", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert settings(second) != expected == settings(first)  # same size and time, other content


def test_of_equal_documents_the_one_of_a_source_with_high_priority_comes_first():
    flow = dag("config/examples/from-scratch.yaml")
    order = [flow.sources[name].priority for name in flow.source_order]
    assert order == sorted(order, key=lambda priority: priority != "high")
    assert sorted(flow.source_order[:6]) == flow.source_order[:6]


def test_a_pinned_benchmark_is_read_where_rule_problems_puts_it_and_is_fetched_by_its_own_path():
    def pinned(host):
        pin = {"git": f"https://{host}/b", "commit": "0" * 40, "path": "data/deep/HumanEval.jsonl"}
        return lambda config: config["evaluation"].update(code={"benchmarks": [pin]})

    flow, mirror = (
        dag("config/examples/from-scratch.yaml", pinned(host)) for host in ("example.org", "mirror.example.org")
    )
    assert flow.suites["code"] == mirror.suites["code"]
    assert flow.prompt_files("code") == ["results/evaluation/problems/HumanEval.jsonl"]
    assert flow.prompts["code"] == {"benchmarks": [{"path": "results/evaluation/problems/HumanEval.jsonl"}]}
    assert flow.pinned["HumanEval.jsonl"].path == "data/deep/HumanEval.jsonl"


def test_a_split_by_time_needs_the_history_of_every_source_and_git_for_it():
    after = {"by": "time", "after": "2025-01-01"}
    flow = dag("config/examples/from-scratch.yaml")
    assert flow.dated_sources == []
    flow = dag("config/examples/from-scratch.yaml", lambda config: config["corpus"].update(split=after))
    with pytest.raises(UserError, match=r"needs sources of kind git, but \w+ is of kind sdist"):
        _ = flow.dated_sources
    rows = {name: source.model_copy(update={"kind": "git"}) for name, source in flow.sources.items()}
    flow = ExperimentView(flow.experiment, rows, flow.layout)
    assert flow.dated_sources == list(rows)


def test_a_dataset_names_sources_of_the_table():
    def edit(*sources):
        return lambda config: config["corpus"]["compose"]["code"].update(sources=list(sources))

    flow = dag("config/examples/from-scratch.yaml", edit("ruff", "hugo"))
    check_dataset_sources(flow.experiment, flow.sources)
    flow = dag("config/examples/from-scratch.yaml", edit("ruff", "tokio"))
    with pytest.raises(UserError, match=r"^corpus\.compose\.code\.sources\.1: no 'tokio' here; known: .*ruff"):
        check_dataset_sources(flow.experiment, flow.sources)
    many = dict.fromkeys((f"repository-{number}" for number in range(10_000)), flow.sources["ruff"])
    with pytest.raises(UserError, match=r"no 'ruff' here; known: 10,000 others, such as repository-0") as refused:
        check_dataset_sources(flow.experiment, many)
    assert len(str(refused.value)) < 200
    with pytest.raises(UserError, match="ruff occurs twice"):
        dag("config/examples/from-scratch.yaml", edit("ruff", "ruff"))


def test_documents_are_decontaminated_against_the_files_that_are_scored_or_those_that_are_named(tmp_path):
    def edit(settings, **evaluation):
        def change(config):
            config["corpus"]["filter"] = {"decontaminate": settings}
            config["evaluation"].update(evaluation)

        return change

    assert dag("config/examples/from-scratch.yaml").decontaminated == []
    code = {"benchmarks": [{"path": "data/HumanEval.jsonl.gz", "git": "https://example.org/x", "commit": "0" * 40}]}
    flow = dag("config/examples/from-scratch.yaml", edit(True, code=code, keywords={}))
    assert flow.decontaminated == ["results/evaluation/problems/HumanEval.jsonl.gz", "config/cases/keywords.yaml"]
    with pytest.raises(UserError, match=r"decontaminate: give files, as neither"):
        _ = dag("config/examples/from-scratch.yaml", edit(True, keywords=None)).decontaminated
    with pytest.raises(UserError, match=r"decontaminate: none\.jsonl: no such file"):
        _ = dag("config/examples/from-scratch.yaml", edit(["none.jsonl"])).decontaminated
    (tmp_path / "b.jsonl").write_text("{}")
    named = [str(tmp_path / "b.jsonl")]
    assert dag("config/examples/from-scratch.yaml", edit(named, code=code)).decontaminated == named
