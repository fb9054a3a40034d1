"""scripts/evaluation/suites/latency.py on a clock that is set by hand."""

import itertools

import pytest
import torch
from transformers import GenerationConfig

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.generation.model import load
from scripts.evaluation.results.intervals import median_interval
from scripts.evaluation.suites import latency as suite
from scripts.evaluation.suites.latency import Settings as Latency
from scripts.evaluation.suites.latency import figures, latency, time_runs
from scripts.experiment.settings.record import to_dict

SETTINGS = Latency(device="cpu", prompt_tokens=5, new_tokens=9)
SEED = 7


def changed(**changes) -> Latency:
    return SETTINGS.model_copy(update=changes)


@pytest.fixture(autouse=True)
def three_runs(monkeypatch):
    monkeypatch.setattr(suite, "RUNS", 3)


@pytest.fixture
def model(model_folder):
    return load(model_folder).model


def test_exactly_new_tokens_are_generated_whatever_would_end_or_sample(model, monkeypatch):
    written, generate = [], model.generate
    everything = list(range(model.config.vocab_size))
    model.config.eos_token_id = everything
    model.generation_config = GenerationConfig(eos_token_id=everything, do_sample=True, max_new_tokens=2)
    monkeypatch.setattr(model, "generate", lambda **inputs: written.append((inputs["input_ids"], generate(**inputs))))
    time_runs(model, SETTINGS, SEED)
    assert [tuple(ids.shape) for _, ids in written] == [(1, 14)] * 5
    prompt, (_, alone) = written[0][0], written[0]
    assert all(torch.equal(prompt, ids) for ids, _ in written)
    # by hand: the likeliest token, without cache
    with torch.no_grad():
        for position in range(5, 14):
            assert alone[0, position] == model(alone[:, :position]).logits[0, -1].argmax()


def test_no_memory_and_too_few_positions_are_one_line_errors(model, monkeypatch):
    with pytest.raises(UserError, match=r"prompt_tokens and new_tokens are 4105, more than the model's 4096 positions"):
        time_runs(model, changed(prompt_tokens=4096), SEED)
    monkeypatch.setattr(model, "generate", lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError()))
    with pytest.raises(UserError, match="no memory for a prompt of 5 tokens and its answer"):
        time_runs(model, SETTINGS, SEED)


def test_on_other_hardware_than_the_target_nothing_is_loaded_or_timed(model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "load", None)
    result = latency(model_folder, changed(device="A40"), SEED, tmp_path)
    assert result["not_applicable"] == "models run on cpu here, the target is A40"
    assert result["figures"] is None
    assert list(read_jsonl(tmp_path / "items.jsonl.zst")) == []
    assert result == read_json(tmp_path / "scores.json")


def test_on_the_target_hardware_both_files_agree_and_name_the_conditions(model_folder, tmp_path):
    result = latency(model_folder, SETTINGS, SEED, tmp_path)
    assert result == read_json(tmp_path / "scores.json")
    runs = list(read_jsonl(tmp_path / "items.jsonl.zst"))
    assert result["figures"] == figures(runs, SETTINGS.new_tokens)
    assert all(0 < run["first_token_seconds"] < run["seconds"] for run in runs)
    assert (result["device"], result["not_applicable"], result["settings"]) == (
        "cpu",
        None,
        to_dict(SETTINGS) | {"seed": 7},
    )
    assert result["engine"]["name"] == "transformers"
    conditions = result["conditions"]
    assert (conditions["dtype"], conditions["attention"], conditions["threads"]) == ("float32", "sdpa", 1)


@pytest.mark.parametrize(("device", "expected"), [("cuda:1", ["cuda:1", "time"]), ("cpu", ["time"])])
def test_a_gpu_has_finished_its_work_before_the_clock_is_read(monkeypatch, device, expected):
    order = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda card: order.append(str(card)))
    monkeypatch.setattr(suite.time, "perf_counter", lambda: order.append("time"))
    suite.now(torch.device(device))
    assert order == expected


@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_median_interval_covers_as_often_as_it_says_and_is_the_narrowest_of_its_kind(count, confidence):
    """All equally likely ways in which draws fall on the two sides of a true median of 0."""
    covered = narrower = 0
    for signs in itertools.product((-1, 1), repeat=count):
        values = [sign * (index + 1.5) for index, sign in enumerate(signs)]
        interval, ordered = median_interval(values, confidence), sorted(values)
        low = 0 if interval is None else ordered.index(interval[0]) + 1  # one place further in
        covered += interval is not None and interval[0] < 0 < interval[1]
        narrower += low < count - 1 - low and ordered[low] < 0 < ordered[-1 - low]
    assert interval is None or covered / 2**count >= confidence
    assert narrower / 2**count < confidence


def test_median_interval_has_the_ranks_of_the_tables():
    for count, ranks in ((5, None), (6, [1, 6]), (10, [2, 9]), (15, [4, 12]), (20, [6, 15]), (50, [18, 33])):
        assert median_interval([*range(count, 0, -1)], 0.95) == ranks
    assert median_interval([*range(1, 101)], 0.95) == [40, 61]
