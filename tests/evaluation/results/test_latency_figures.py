"""Gates on figures of latency, and which files of the suite are refused."""

import json
import re
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.evaluation.gate import evaluate
from scripts.experiment.settings.experiment import Experiment
from tests.evaluation.synthetic import build, dump, dump_lines, model_folder, sha

MODELS = ["base", "pretrain", "sft"]
# what runs take in all, ten of them: the median's interval is from the second to the ninth
SECONDS = {"base": [8.0] * 10, "pretrain": [1.5, 1.6, *[1.8] * 4, *[2.2] * 4], "sft": [1.0, 1.1, *[1.3] * 7, 9.0]}
SETTINGS = {"device": "A40", "prompt_tokens": 512, "new_tokens": 512}


def write_timed(results: Path, model: str, seconds: list[float]) -> None:
    """A model's two files, by hand; those of a machine off the target where there are no runs."""
    folder, measured = results / "evaluation/latency" / model, None
    runs = [{"first_token_seconds": 0.5, "seconds": taken} for taken in seconds]
    if runs:
        middle = sum(sorted(seconds)[4:6]) / 2
        rates = sorted(511 / (taken - 0.5) for taken in seconds)
        measured = {
            "first_token_seconds": {"value": 0.5},
            "answer_seconds": {"value": middle},
            "tokens_per_second": {"value": sum(rates[4:6]) / 2},
        }
    dump_lines(folder / "items.jsonl.zst", runs)
    outcome = {"figures": measured, "not_applicable": None if runs else "models run on cpu here, the target is A40"}
    made = sha((model_folder(results.parent, model) / "manifest.json").read_text())
    facts = {"model_sha256": made, "device": "NVIDIA A40", "conditions": {"dtype": "bfloat16"}}
    dump(folder / "scores.json", {**facts, **outcome, "settings": SETTINGS | {"seed": 42}})


def made(root: Path, gates: list[dict]) -> Experiment:
    """An experiment with latency."""
    experiment = build(root, gates, changes={"evaluation.latency": SETTINGS})
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
    assert [result["outcome"] for result in evaluation["gates"]] == [planted["name"] for planted in gates]
    assert evaluation["gates"][0] == {
        **{"name": "met", "model": "sft", "metric": "answer_seconds", "value": 1.3, "interval": [1.1, 1.3]},
        **{"dataset": None, "language": None, "against": None, "side": "below", "bound": 2, "outcome": "met"},
        **{"seeds": None, "documents": None},
    }
    latency = evaluation["latency"]["sft"]
    assert latency["answer_seconds"] == {"value": 1.3, "interval": [1.1, 1.3]}
    assert evaluation["scoring"]["sft"]["latency"]["conditions"] == {"dtype": "bfloat16"}
    assert all("latency" not in scores for scores in evaluation["scores"].values())


def test_on_other_hardware_than_the_target_a_gate_is_not_measured(tmp_path):
    gates = [gate("fast", "sft", below=2), gate("slow", "sft", above=2)]
    experiment = made(tmp_path, gates)
    write_timed(tmp_path / "results", "sft", [])
    evaluation = evaluate(experiment, tmp_path / "results")
    assert evaluation["latency"]["sft"] == {"not_applicable": "models run on cpu here, the target is A40"}
    assert [(result["value"], result["interval"], result["outcome"]) for result in evaluation["gates"]] == [
        (None, None, "not measured"),
        (None, None, "not measured"),
    ]
    assert evaluation["verdict"] == "not measured"


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


def content(name: str, data: bytes):
    return lambda folder: (folder / name).write_bytes(data)


MISTAKES = {
    "scores.json: not JSON": content("scores.json", b""),
    "scores.json: 'settings' is missing": content("scores.json", b"{}"),
    "scores.json: timed with other settings: device cpu, must be A40; ": edited(settings={"device": "cpu"}),
    "scores.json: does not agree with the 10 runs": edited(figures={"answer_seconds": {"value": 0.1}}),
    "in items.jsonl.zst; delete the folder": edited(not_applicable="I would rather not"),  # though there are runs
    "scores.json: scored with model": edited(model_sha256=sha("other")),
    "items.jsonl.zst: line 1": content("items.jsonl.zst", b"\x00\xff" * 100),
    "with the 0 runs in items.jsonl.zst": runs_as(lambda runs: []),
    "with the 2 runs in items.jsonl.zst": runs_as(lambda runs: [runs[0], {"seconds": 2}]),
    "with the 9 runs in items.jsonl.zst": runs_as(lambda runs: runs[:-1]),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_files_that_are_malformed_or_do_not_belong_together_are_one_line_errors(tmp_path, line):
    experiment = made(tmp_path, [])
    MISTAKES[line](tmp_path / "results/evaluation/latency/sft")
    with pytest.raises(UserError, match=re.escape(line)) as refused:
        evaluate(experiment, tmp_path / "results")
    assert "latency/sft/" in str(refused.value)
    assert "\n" not in str(refused.value)


REFUSED = {
    "evaluation.latency.new_token: unknown key; did you mean `new_tokens`?": ({"new_token": 3}, {}),
    "evaluation.gate.gates.0.dataset: not with `metric: answer_seconds`, which needs no dataset": (
        {},
        {"dataset": "code"},
    ),
    "evaluation.gate.gates.0.model: no 'sfd' here; known: base, pretrain, sft": ({}, {"model": "sfd"}),
}
