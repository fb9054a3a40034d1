"""`stagecraft release STAGE --push`: the files of the release reach the hub as they are, and no others."""

import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from huggingface_hub import constants

from scripts.common.errors import UserError
from scripts.report.commands.release import push_files

NAMES = ["README.md", "config.json", "model.safetensors"]


class Hub(BaseHTTPRequestHandler):
    """A stand-in for the hub, as far as an upload of small files asks it: it keeps what is committed."""

    def answer(self, record: dict, code: int = 200) -> None:
        content = json.dumps(record).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hub = self.server
        if self.headers["Authorization"] != "Bearer right":
            self.answer({"error": "Invalid username or password."}, 401)
        elif self.path == "/api/repos/create":
            hub.created.append(json.loads(body))
            self.answer({"url": f"{hub.address}/team/model", "id": "team/model"})
        elif self.path.endswith("/preupload/main"):
            files = [file["path"] for file in json.loads(body)["files"]]
            self.answer({"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in files]})
        elif self.path.startswith("/api/models/team/model/commit/main"):
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.answer({"commitUrl": f"{hub.address}/team/model/commit/1", "commitOid": "1", "hookOutput": ""})
        else:
            self.answer({"warnings": [], "errors": []})

    def do_GET(self):
        self.answer({"error": "not there"}, 404)

    def log_message(self, *words):
        pass


@pytest.fixture
def hub(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.address = f"http://127.0.0.1:{server.server_address[1]}"
        server.created, server.files = [], {}
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", "right")
        yield server
        server.shutdown()


@pytest.fixture
def folder(tmp_path):
    for name in [*NAMES, "manifest.json"]:
        (tmp_path / name).write_bytes(f"content of {name}".encode() * 9)
    return tmp_path


def test_exactly_the_listed_files_are_uploaded_into_a_private_repository(hub, folder):
    assert push_files(folder, NAMES, "team/model") == f"{hub.address}/team/model"
    assert hub.files == {name: (folder / name).read_bytes() for name in NAMES}
    assert hub.created == [{"name": "model", "organization": "team", "visibility": "private"}]


def test_what_the_hub_refuses_is_one_line(hub, folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(UserError, match=r"^--push team/model: not pushed: .*401.*`hf auth login`") as refused:
        push_files(folder, NAMES, "team/model")
    assert "\n" not in str(refused.value) and not hub.files
    with pytest.raises(UserError, match=r"^--push a b/c: not pushed: Repo id must"):
        push_files(folder, NAMES, "a b/c")


def test_a_hub_that_cannot_be_reached_is_one_line(folder, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    for offline, line in ((True, "HF_HUB_OFFLINE is set; unset it to push$"), (False, r".*refused")):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        with pytest.raises(UserError, match=f"^--push team/model: not pushed: {line}"):
            push_files(folder, NAMES, "team/model")
