"""scripts/training/monitoring/measurements.py: what a stage's summary says of its log."""

from types import SimpleNamespace

import orjson

from scripts.training.monitoring.measurements import MetricLog, summarize_metrics


def test_a_summary_has_the_median_norm_and_the_peak_memory_and_none_for_what_was_not_logged(tmp_path):
    path = tmp_path / "metrics.jsonl"
    steps = [
        {"step": 1, "loss": 3.0, "grad_norm": 9.0, "memory_reserved_gib": 40.5},
        {"step": 2, "loss": 2.0, "grad_norm": float("nan"), "memory_reserved_gib": 41.5},  # written as null
        {"step": 2, "eval_loss": 2.5},
        {"step": 3, "loss": 2.0, "grad_norm": 1.0, "memory_reserved_gib": 30.0},  # resumed: its peak began anew
        {"step": 4, "loss": 1.0, "grad_norm": 2.0, "memory_reserved_gib": 31.0},
    ]
    path.write_bytes(b"".join(orjson.dumps(step, option=orjson.OPT_APPEND_NEWLINE) for step in steps))
    assert summarize_metrics(path) == {"gradient_norm": 2.0, "memory_gib": 41.5}
    on_a_cpu = [{"step": 1, "loss": 3.0, "memory_resident_gib": 1.5}, {"step": 1, "eval_loss": 2.5}]
    path.write_bytes(b"".join(orjson.dumps(step, option=orjson.OPT_APPEND_NEWLINE) for step in on_a_cpu))
    assert summarize_metrics(path) == {"gradient_norm": None, "memory_gib": None}


def test_an_evaluation_that_a_killed_run_has_logged_is_not_logged_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    state = SimpleNamespace(is_world_process_zero=True, global_step=16, max_steps=16)
    for loss in (2.5, 2.5, 2.25, 2.25):  # at the last step, at the end, of the best weights, and so once more
        MetricLog(path, "sft", 8).on_log(None, state, None, {"eval_loss": loss})
    assert [orjson.loads(line)["eval_loss"] for line in path.read_bytes().splitlines()] == [2.5, 2.25]
