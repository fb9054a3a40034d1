"""Gates on figures of latency."""

from pathlib import Path

from scripts.evaluation.gate import evaluate
from scripts.evaluation.suites.latency import figures
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
        measured = figures(runs, 512)
    dump_lines(folder / "items.jsonl.zst", runs)
    outcome = {"figures": measured, "not_applicable": None if runs else "models run on cpu here, the target is A40"}
    made = sha((model_folder(results.parent, model) / "manifest.json").read_text())
    facts = {"model_sha256": made, "device": "NVIDIA A40", "conditions": {"dtype": "bfloat16"}}
    dump(folder / "scores.json", {**facts, **outcome, "settings": SETTINGS | {"seed": 42}})


def made(root: Path, gates: list[dict], changes: dict[str, object] | None = None) -> Experiment:
    """An experiment with latency."""
    experiment = build(root, gates, changes={"evaluation.latency": SETTINGS} | (changes or {}))
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


def test_the_interval_is_at_the_experiments_confidence(tmp_path):
    experiment = made(tmp_path, [gate("at 80%", "pretrain", below=2.3)], {"evaluation.gate.confidence": 0.8})
    found = evaluate(experiment, tmp_path / "results")
    # from the third to the eighth of ten runs: 1 - 2 * (1 + 10 + 45) / 2**10 = 89%, and the fourth to the seventh 66%
    assert found["latency"]["pretrain"]["answer_seconds"] == {"value": 1.8, "interval": [1.8, 2.2]}
    assert found["gates"][0]["interval"] == [1.8, 2.2]


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
