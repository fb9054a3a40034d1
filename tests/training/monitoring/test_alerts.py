"""scripts/training/monitoring/alerts.py: each threshold with planted figures; a webhook that answers, hangs or is not
there."""

import http.server
import json
import logging
import threading
import time
from pathlib import Path

import pytest

from scripts.experiment.machine_files import load_monitoring
from scripts.training.monitoring.alerts import Alerts, AlertThresholds, post_to_webhook

FINE = {"loss": 2.0, "grad_norm": 1.0}


def thresholds(tmp_path: Path, text: str = "alerts: {memory_gib: 45}") -> AlertThresholds:
    (tmp_path / "monitoring.yaml").write_text(text)
    monitoring = load_monitoring(tmp_path / "monitoring.yaml")
    return AlertThresholds(Alerts(tmp_path / "alerts.jsonl", "sft", monitoring), tmp_path / "metrics.jsonl")


def alerts_in(tmp_path: Path) -> list[dict]:
    path = tmp_path / "alerts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("planted", "kind", "limit", "says"),
    [
        ({"loss": 4.1}, "loss", 4.0, "loss 4.100 exceeds 4.000, twice the median"),
        ({"grad_norm": 101.0}, "grad_norm", 100, "gradient norm 101 exceeds 100"),
        ({"memory_reserved_gib": 45.2, "memory_allocated_gib": 40}, "memory", 45, "memory 45.2 GiB exceeds 45"),
        ({"memory_resident_gib": 50.0}, "memory", 45, "memory 50.0 GiB exceeds 45"),
        ({"gpu_temperature_c": 88.0}, "temperature", 87, "GPU at 88 °C exceeds 87"),
    ],
)
def test_a_figure_over_its_threshold_is_in_log_and_file(tmp_path, caplog, planted, kind, limit, says):
    watch = thresholds(tmp_path)
    for step in range(1, 8):
        watch.compare(step, FINE)
    assert alerts_in(tmp_path) == []
    with caplog.at_level(logging.WARNING):
        watch.compare(8, {**FINE, **planted})
    assert [(line["step"], line["kind"], line["limit"], line["text"]) for line in alerts_in(tmp_path)] == [
        (8, kind, limit, says)
    ]
    assert caplog.messages == [f"ALERT sft: step 8: {says}"]
    assert watch.alerts.last == f"step 8: {says}"


def test_without_a_threshold_no_amount_of_memory_is_an_alert(tmp_path):
    watch = thresholds(tmp_path, "alerts: {}")
    watch.compare(1, {**FINE, "memory_reserved_gib": 1e6})
    assert alerts_in(tmp_path) == []


def test_a_condition_that_lasts_alerts_once_and_again_after_a_fine_step(tmp_path):
    watch = thresholds(tmp_path)
    for step, norm in enumerate([101, 102, 103, 1, 104], 1):
        watch.compare(step, {**FINE, "grad_norm": norm})
    assert [line["step"] for line in alerts_in(tmp_path)] == [1, 5]


class Server:
    """An HTTP server on loopback whose handler is `answer(handler)`; `got` are the bodies of its requests."""

    def __init__(self, answer):
        self.got = got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                got.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
                answer(self)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def serve():
    servers = []

    def start(answer) -> Server:
        servers.append(Server(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.server.shutdown()
        server.server.server_close()


def fine(handler) -> None:
    handler.send_response(200)
    handler.end_headers()


def test_the_webhook_gets_the_alert_as_json(tmp_path, serve, caplog):
    server = serve(fine)
    watch = thresholds(tmp_path, f"webhook: {server.address}")
    with caplog.at_level(logging.WARNING):
        watch.compare(3, {**FINE, "grad_norm": 250.0})
    [(kind, body)] = server.got
    assert kind == "application/json"
    assert json.loads(body) == {
        "step": 3,
        "stage": "sft",
        "kind": "grad_norm",
        "value": 250.0,
        "limit": 100,
        "text": "gradient norm 250 exceeds 100",
    }
    assert len(caplog.messages) == 1


def test_a_secret_address_comes_from_the_environment_and_is_never_logged(tmp_path, serve, caplog, monkeypatch):
    server = serve(fine)
    monkeypatch.setenv("ALERT_HOOK", server.address)
    watch = thresholds(tmp_path, "webhook: $ALERT_HOOK")
    watch.compare(3, {**FINE, "grad_norm": 250.0})
    assert len(server.got) == 1
    monkeypatch.setenv("ALERT_HOOK", "http://127.0.0.1:1/secret-path")
    watch.compare(4, FINE)
    with caplog.at_level(logging.DEBUG):
        watch.compare(5, {**FINE, "grad_norm": 250.0})
    assert "the webhook failed" in caplog.text and "secret" not in caplog.text


def drips(handler) -> None:
    """Each byte comes soon enough for a timeout per read, the whole never."""
    handler.send_response(200)
    try:
        while True:
            handler.wfile.write(b"X-Wait: 1\r\n")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def refuses(handler) -> None:
    handler.send_response(500)
    handler.end_headers()


@pytest.mark.parametrize("answer", [lambda handler: time.sleep(3), drips, refuses])
def test_a_webhook_that_hangs_drips_or_fails_costs_its_seconds_and_a_log_line(serve, caplog, answer):
    server = serve(answer)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (post_to_webhook(server.address, {}, 0.3), done.set()), daemon=True)
    with caplog.at_level(logging.WARNING):
        thread.start()
        assert done.wait(2.5), "training would wait"
    assert "alerts: the webhook failed: " in caplog.text


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/", "http://no-such-host.invalid/", "$UNSET_VARIABLE"])
def test_a_webhook_that_is_not_there_is_a_log_line(caplog, address):
    with caplog.at_level(logging.WARNING):
        post_to_webhook(address, {}, 2)
    assert caplog.text.count("the webhook failed") == 1


def test_a_resumed_stage_keeps_its_losses(tmp_path):
    import types

    lines = [{"step": step, "loss": 1.0} for step in range(1, 9)] + [{"step": 8, "eval_loss": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    watch = thresholds(tmp_path)
    watch.on_train_begin(None, types.SimpleNamespace(is_world_process_zero=True), None)
    watch.compare(9, {**FINE, "loss": 2.5})
    assert [line["kind"] for line in alerts_in(tmp_path)] == ["loss"]
