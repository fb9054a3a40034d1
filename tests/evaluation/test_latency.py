"""scripts/evaluation/latency.py on a clock that is set by hand, and what gates make of its figures."""

import itertools
import json
import re
from pathlib import Path

import pynvml
import pytest
import torch
from transformers import GenerationConfig

from scripts.common.cli import UserError
from scripts.common.config import check, read_yaml
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation import latency as suite
from scripts.evaluation.gate import evaluate
from scripts.evaluation.latency import busy, grow, latency, off_target, synchronized
from scripts.evaluation.statistics import median_interval
from scripts.evaluation.subject import load
from scripts.evaluation.timings import figures, p95
from tests.evaluation.synthetic import build, dump, dump_lines, model_folder, sha

WANTED = {"device": "cpu", "prompt_tokens": 5, "new_tokens": 9, "warmup": 1, "runs": 3, "batches": [1, 2], "seed": 7}
MODELS = ["base", "pretrain", "sft"]


@pytest.fixture
def model(model_folder):
    return load(model_folder).model


class Clock:
    """Says what is planned: each run of each batch takes (to the first token, from there to the end); 100 s between."""

    def __init__(self, plan: list[tuple[float, float]]):
        self.times = itertools.accumulate(step for first, rest in plan for step in (100.0, first, rest))

    def __call__(self) -> float:
        return next(self.times)


def test_figures_are_those_of_the_clock_and_warming_up_is_none_of_them(model):
    plan = [(9, 9), (1, 4), (2, 2), (4, 8), (9, 9), (1, 1), (3, 3), (2, 2)]  # a warm-up and three runs, at 1 and at 2
    clock = Clock(plan)
    runs = grow(model, WANTED, clock)
    with pytest.raises(StopIteration):  # nothing else was timed
        clock()
    assert [(run["batch"], run["run"], run["first_token_seconds"], run["seconds"]) for run in runs] == [
        *((1, 1, 1, 5), (1, 2, 2, 4), (1, 3, 4, 12)),
        *((2, 1, 1, 2), (2, 2, 3, 6), (2, 3, 2, 4)),
    ]
    assert figures(runs, WANTED) == {
        "first_token_seconds": {"value": 2, "p95": 4},
        "answer_seconds": {"value": 5, "p95": 12},
        "tokens_per_second": {"value": 2, "p95": 1},  # 8 tokens in 4, 2 and 8 s
        "throughput": [
            {"batch": 1, "tokens_per_second": 9 / 5},
            {"batch": 2, "tokens_per_second": 18 / 4},
        ],
        "out_of_memory": None,
    }


def test_exactly_the_tokens_asked_for_are_written_whatever_would_end_or_sample(model, monkeypatch):
    written, generate = [], model.generate
    everything = list(range(model.config.vocab_size))
    model.config.eos_token_id = everything
    model.generation_config = GenerationConfig(eos_token_id=everything, do_sample=True, max_new_tokens=2)
    monkeypatch.setattr(model, "generate", lambda **given: written.append((given["input_ids"], generate(**given))))
    grow(model, {**WANTED, "batches": [1, 3]})
    assert [tuple(ids.shape) for _, ids in written] == [(1, 14)] * 4 + [(3, 14)] * 4
    asked, (_, alone), (_, together) = written[0][0], written[0], written[-1]
    assert torch.equal(together[0], alone[0])  # greedy, and a batch begins with the same prompt
    assert all(torch.equal(asked, ids) for ids, _ in written[:4])
    # by hand: the likeliest token, without cache
    with torch.no_grad():
        for place in range(5, 14):
            assert alone[0, place] == model(alone[:, :place]).logits[0, -1].argmax()


def test_prompts_follow_the_seed(model):
    first, again, other = (suite.prompts(2, {**WANTED, "seed": seed}, 320) for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == (2, 5)
    assert torch.equal(suite.prompts(1, WANTED, 320), first[:1])


def test_memory_ends_the_growth_and_half_a_batch_is_not_told(model, monkeypatch):
    rows, generate = [], model.generate

    def short(**given):
        rows.append(len(given["input_ids"]))
        if rows.count(2) == 3:  # after the warm-up and a run
            raise torch.OutOfMemoryError
        return generate(**given)

    monkeypatch.setattr(model, "generate", short)
    wanted = {**WANTED, "batches": [1, 2, 4]}
    runs = grow(model, wanted)
    assert [run["batch"] for run in runs] == [1, 1, 1]
    assert rows == [1, 1, 1, 1, 2, 2, 2]
    told = figures(runs, wanted)
    assert (told["out_of_memory"], len(told["throughput"])) == (2, 1)


def test_no_memory_for_one_row_and_too_few_positions_are_one_line(model, monkeypatch):
    with pytest.raises(UserError, match=r"prompt_tokens and new_tokens are 4105, more than the model's 4096 positions"):
        grow(model, {**WANTED, "prompt_tokens": 4096})
    monkeypatch.setattr(model, "generate", lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError()))
    with pytest.raises(UserError, match="no memory for one prompt of 5 tokens and its answer"):
        grow(model, WANTED)


@pytest.mark.parametrize(
    ("device", "fitting", "others"),
    [
        ("cpu", ["cpu", "CPU"], ["gpu", "A40"]),
        ("NVIDIA A40", ["gpu", "A40", "a40", "NVIDIA A40"], ["cpu", "A4", "A400", "RTX 4090", "."]),
        ("NVIDIA RTX A4000", ["A4000", "RTX A4000"], ["A40"]),
        ("NVIDIA GeForce RTX 4090", ["gpu", "rtx 4090"], ["cpu", "4090 D", "409"]),
    ],
)
def test_target_hardware_is_a_kind_or_words_of_a_name(device, fitting, others):
    assert [off_target(device, target) for target in fitting] == [None] * len(fitting)
    for target in others:
        assert off_target(device, target) == f"models run on {device} here, the target is {target}"


def test_off_the_target_nothing_is_loaded_or_timed(model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "load", None)
    said = latency(model_folder, {**WANTED, "device": "A40"}, tmp_path)
    assert said["not_applicable"] == "models run on cpu here, the target is A40"
    assert said["figures"] is None
    assert list(read_jsonl(tmp_path / "items.jsonl.zst")) == []
    assert said == read_json(tmp_path / "scores.json")


def test_on_the_target_both_files_say_the_same_and_under_what_conditions(model_folder, tmp_path):
    said = latency(model_folder, WANTED, tmp_path)
    assert said == read_json(tmp_path / "scores.json")
    runs = list(read_jsonl(tmp_path / "items.jsonl.zst"))
    assert said["figures"] == figures(runs, WANTED)
    assert all(0 < run["first_token_seconds"] < run["seconds"] for run in runs)
    assert (said["device"], said["not_applicable"], said["settings"]) == ("cpu", None, WANTED)
    assert said["engine"]["name"] == "transformers"
    found = said["conditions"]
    assert (found["dtype"], found["attention"], found["threads"]) == ("float32", "sdpa", 1)
    assert set(found["load"]) == {"load_per_core"}


def test_load_tells_what_the_card_tells(monkeypatch):
    def hidden(_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", hidden)
    monkeypatch.setattr(torch.cuda, "device_memory_used", lambda _: 3 * 2**30)
    monkeypatch.setattr("os.getloadavg", lambda: (6.0, 1.0, 1.0))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert busy() == {"load_per_core": 1.5, "gpu_utilisation": None, "gpu_memory_gib": 3.0}


@pytest.mark.parametrize(("device", "told"), [("cuda:1", ["cuda:1", "time"]), ("cpu", ["time"])])
def test_a_gpu_has_done_its_work_before_the_clock_is_read(monkeypatch, device, told):
    order = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda card: order.append(str(card)))
    assert synchronized(lambda: order.append("time") or 3.0, torch.device(device))() == 3.0
    assert order == told


@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_median_interval_covers_as_often_as_it_says_and_is_the_narrowest_of_its_kind(count, confidence):
    """All equally likely ways in which draws fall on the two sides of a true median of 0."""
    covered = narrower = 0
    for signs in itertools.product((-1, 1), repeat=count):
        values = [sign * (place + 1.5) for place, sign in enumerate(signs)]
        found, ordered = median_interval(values, confidence), sorted(values)
        low = 0 if found is None else ordered.index(found[0]) + 1  # one place further in
        covered += found is not None and found[0] < 0 < found[1]
        narrower += low < count - 1 - low and ordered[low] < 0 < ordered[-1 - low]
    assert found is None or covered / 2**count >= confidence
    assert narrower / 2**count < confidence


def test_median_interval_has_the_ranks_of_the_tables():
    for count, ranks in ((5, None), (6, [1, 6]), (10, [2, 9]), (15, [4, 12]), (20, [6, 15]), (50, [18, 33])):
        assert median_interval([*range(count, 0, -1)], 0.95) == ranks
    assert median_interval([*range(1, 101)], 0.95) == [40, 61]


def test_p95_is_what_95_of_100_runs_are_no_worse_than():
    values = [*range(1, 101)]
    assert (p95("answer_seconds", values), p95("tokens_per_second", values)) == (95, 6)
    assert (p95("answer_seconds", [*range(20)]), p95("answer_seconds", [*range(21)])) == (18, 19)
    assert p95("answer_seconds", [3, 1, 2]) == 3


# what runs of batch 1 take in all, ten of them: the median's interval is from the second to the ninth
SECONDS = {"base": [8.0] * 10, "pretrain": [1.5, 1.6, *[1.8] * 4, *[2.2] * 4], "sft": [1.0, 1.1, *[1.3] * 7, 9.0]}
ASKED = {"device": "A40", "prompt_tokens": 512, "new_tokens": 512, "warmup": 2, "runs": 10, "batches": [1, 2]}


def write_timed(results: Path, model: str, seconds: list[float]) -> None:
    """A model's two files, by hand; those of a machine off the target where there are no runs."""
    folder, told = results / "evaluation/latency" / model, None
    runs = [
        {"batch": batch, "run": run, "first_token_seconds": 0.5, "seconds": taken * batch**0.5}
        for batch in (1, 2)
        for run, taken in enumerate(seconds, 1)
    ]
    if runs:
        middle = sum(sorted(seconds)[4:6]) / 2
        rates = sorted(511 / (taken - 0.5) for taken in seconds)
        told = {
            "first_token_seconds": {"value": 0.5, "p95": 0.5},
            "answer_seconds": {"value": middle, "p95": max(seconds)},
            "tokens_per_second": {"value": sum(rates[4:6]) / 2, "p95": rates[0]},
            "throughput": [
                {"batch": 1, "tokens_per_second": 512 / middle},
                {"batch": 2, "tokens_per_second": 1024 / (sum(sorted(taken * 2**0.5 for taken in seconds)[4:6]) / 2)},
            ],
            "out_of_memory": None,
        }
    dump_lines(folder / "items.jsonl.zst", runs)
    said = {"figures": told, "not_applicable": None if runs else "models run on cpu here, the target is A40"}
    made = sha((model_folder(results.parent, model) / "manifest.json").read_text())
    facts = {"model_sha256": made, "device": "NVIDIA A40", "conditions": {"dtype": "bfloat16"}}
    dump(folder / "scores.json", {**facts, **said, "settings": ASKED | {"seed": 42}})


def made(root: Path, gates: list[dict]) -> dict:
    """An experiment with latency."""
    experiment = build(root, gates)
    experiment["evaluation"]["latency"] = ASKED
    for model, seconds in SECONDS.items():
        write_timed(root / "results", model, seconds)
    return experiment


def gate(name: str, model: str, metric: str = "answer_seconds", **side) -> dict:
    return {"name": name, "model": model, "language": "all", "metric": metric, **side}


def test_planted_gates_come_out_as_planted(tmp_path):
    gates = [
        gate("met", "sft", below=2),
        gate("met, not secured", "pretrain", below=2),
        gate("not met, not secured", "pretrain", below=1.7),
        gate("not met", "base", below=2),
        gate("met", "base", "first_token_seconds", below=0.51),
        gate("met", "sft", "tokens_per_second", above=256),
    ]
    evaluation = evaluate(made(tmp_path, gates), tmp_path / "results")
    assert [found["outcome"] for found in evaluation["gates"]] == [planted["name"] for planted in gates]
    assert evaluation["gates"][0] == {
        **{"name": "met", "model": "sft", "metric": "answer_seconds", "value": 1.3, "interval": [1.1, 1.3]},
        **{"dataset": None, "language": None, "against": None, "side": "below", "bound": 2, "outcome": "met"},
    }
    found = evaluation["latency"]["sft"]
    assert found["answer_seconds"] == {"value": 1.3, "interval": [1.1, 1.3], "p95": 9.0}
    assert [row["batch"] for row in found["throughput"]] == [1, 2]
    assert evaluation["scoring"]["sft"]["latency"]["conditions"] == {"dtype": "bfloat16"}
    assert all("latency" not in scores for scores in evaluation["scores"].values())


def test_off_the_target_a_gate_is_not_measured_never_met_or_unmet(tmp_path):
    gates = [gate("fast", "sft", below=2), gate("slow", "sft", above=2)]
    experiment = made(tmp_path, gates)
    write_timed(tmp_path / "results", "sft", [])
    evaluation = evaluate(experiment, tmp_path / "results")
    assert evaluation["latency"]["sft"] == {"not_applicable": "models run on cpu here, the target is A40"}
    assert [(found["value"], found["interval"], found["outcome"]) for found in evaluation["gates"]] == [
        (None, None, "not measured"),
        (None, None, "not measured"),
    ]
    assert evaluation["verdict"] == "not measured"


def test_without_the_suite_eval_json_has_none_of_it(tmp_path):
    assert evaluate(build(tmp_path, []), tmp_path / "results")["latency"] is None


def edited(**changes):
    """A mistake in sft's scores.json."""

    def edit(folder: Path) -> None:
        dump(folder / "scores.json", {**json.loads((folder / "scores.json").read_text()), **changes})

    return edit


def runs_as(change):
    """A mistake in sft's runs: what `change` makes of their list."""

    def edit(folder: Path) -> None:
        path = folder / "items.jsonl.zst"
        dump_lines(path, change(list(read_jsonl(path))))

    return edit


def run_with(number: int, **changes):
    """A mistake in one of sft's runs, numbered from 1."""
    return runs_as(lambda runs: [run | changes if place == number else run for place, run in enumerate(runs, 1)])


def content(name: str, data: bytes):
    return lambda folder: (folder / name).write_bytes(data)


MISTAKES = {
    "scores.json: not JSON": content("scores.json", b""),
    "scores.json: 'settings' is missing": content("scores.json", b"{}"),
    "scores.json: list indices must be": content("scores.json", b"[]"),
    "scores.json: timed with {'device': 'cpu'}, not with": edited(settings={"device": "cpu"}),
    "scores.json: does not say what the 20 runs": edited(figures={"answer_seconds": {"value": 0.1, "p95": 0.1}}),
    "come to; delete the folder": edited(not_applicable="I would rather not"),  # though there are runs
    "scores.json: of a model": edited(model_sha256=sha("other")),
    "items.jsonl.zst: line 1": content("items.jsonl.zst", b"\x00\xff" * 100),
    "what the 0 runs in items.jsonl.zst": runs_as(lambda runs: []),
    "line 3: no timed run, first_token_seconds 0.5, seconds 0.2": run_with(3, seconds=0.2),
    "line 4: no timed run, first_token_seconds 0.0": run_with(4, first_token_seconds=0.0),
    "line 5: no timed run, '<' not supported": run_with(5, seconds=None),
    "line 2: no timed run, 'batch'": runs_as(lambda runs: [runs[0], {"first_token_seconds": 1, "seconds": 2}]),
    "line 1: no timed run, list indices": runs_as(lambda runs: [["no", "run"]]),
    "not 10 runs of each of the batches [1, 2]": runs_as(lambda runs: runs[:-1]),
    "not 10 runs of each": run_with(11, batch=4),
    "10 runs of each": run_with(2, run=1),  # there twice
    "does not say what the 20": runs_as(lambda runs: [run | {"seconds": 2 * run["seconds"]} for run in runs]),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_files_that_are_malformed_or_do_not_belong_together_are_one_line(tmp_path, line):
    experiment = made(tmp_path, [])
    MISTAKES[line](tmp_path / "results/evaluation/latency/sft")
    with pytest.raises(UserError, match=re.escape(line)) as refused:
        evaluate(experiment, tmp_path / "results")
    assert "latency/sft/" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_were_cut_short_are_one_line(tmp_path):
    experiment, folder = made(tmp_path, []), tmp_path / "results/evaluation/latency/base"
    path = folder / "items.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"latency/base/items\.jsonl\.zst: line"):
        evaluate(experiment, tmp_path / "results")


FAST = {"name": "fast", "model": "sft", "metric": "answer_seconds", "below": 2}
REFUSED = {
    "evaluation.latency.batches: must grow from 1, the batch of an answer; not [2, 4]": ({"batches": [2, 4]}, {}),
    "evaluation.latency.batches: must grow from 1, the batch of an answer; not [1, 4, 2]": ({"batches": [1, 4, 2]}, {}),
    "evaluation.latency.batches: must grow from 1, the batch of an answer; not [1, 2, 2]": ({"batches": [1, 2, 2]}, {}),
    "evaluation.latency.new_token: unknown key; did you mean `new_tokens`?": ({"new_token": 3}, {}),
    "evaluation.latency.new_tokens: 1 is less than the minimum of 2": ({"new_tokens": 1}, {}),
    "evaluation.latency.device: '' should be non-empty": ({"device": ""}, {}),
    "evaluation.gate.gates.0.dataset: not with `metric: answer_seconds`, which a model has by itself": (
        {},
        {"dataset": "code"},
    ),
    "evaluation.gate.gates.0.against: not with `metric: answer_seconds`, which a model has by itself": (
        {},
        {"against": "base"},
    ),
    "evaluation.gate.gates.0.language: not with `metric: answer_seconds`, which a model has by itself": (
        {},
        {"language": "go"},
    ),
    "evaluation.gate.gates.0.model: no 'sfd' here; known: base, pretrain, sft": ({}, {"model": "sfd"}),
}


@pytest.mark.parametrize("line", REFUSED)
def test_settings_that_do_not_agree_are_one_line(line):
    config, (settings, more) = read_yaml(Path("config/config.yaml")), REFUSED[line]
    config["evaluation"] |= {"latency": settings, "gate": {"gates": [{**FAST, **more}]}}
    with pytest.raises(UserError) as error:
        check(config, "x.yaml")
    assert str(error.value) == f"x.yaml: {line}"


def test_a_gate_may_be_on_the_base_and_needs_the_suite():
    config = read_yaml(Path("config/config.yaml"))
    config["evaluation"]["gate"] = {"gates": [{**FAST, "model": "base"}]}
    with pytest.raises(UserError, match=r"gates\.0\.metric: no 'answer_seconds' here; known: perplexity"):
        check(config)
    config["evaluation"]["latency"] = {}
    found = check(config)["evaluation"]["latency"]
    defaults = {"prompt_tokens": 512, "new_tokens": 512, "warmup": 2, "runs": 10, "batches": [1, 2, 4, 8, 16]}
    assert found == {"device": "gpu", **defaults}
