"""`stagecraft serve`: what a client gets is what the suites ask for, in OpenAI's forms, for many clients at once."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer

from scripts.common.errors import UserError
from scripts.evaluation.code_tasks.answers import Task, after_retrieved, prompt_of
from scripts.evaluation.generation.model import load
from scripts.evaluation.generation.retrieval import Pieces
from scripts.experiment.settings.corpus import Filter
from scripts.experiment.settings.suites import Generation, InPlace
from scripts.serving.assistant import Assistant, training_code
from scripts.serving.server import Server, check_port, named_file, read_key
from scripts.serving.watched import Watched
from scripts.sources.providers.git import NO_FILTER
from scripts.sources.providers.git_process import empty_repository
from tests import forked
from tests.evaluation.conftest import TEXTS


@pytest.fixture(scope="module")
def assistant(experiment, layout) -> Assistant:
    return Assistant(experiment, layout, "sft")


def talk(assistant: Assistant, conversation, key: str | None = None):
    """The result of an asynchronous conversation with a client of a server."""

    async def run():
        app = Server(assistant, key).app()
        async with TestClient(TestServer(app, handler_cancellation=True)) as client:
            return await conversation(client)

    return asyncio.run(run())


def post(assistant: Assistant, path: str, body: dict, **named) -> tuple[int, dict]:
    async def conversation(client):
        answer = await client.post(path, json=body, **named)
        return answer.status, await answer.json()

    return talk(assistant, conversation)


@pytest.mark.parametrize("form", ["fim", "plain"])
def test_the_served_greedy_text_is_the_suite_s_byte_for_byte(assistant, experiment, layout, form):
    """At places all over held-out files, after the code that is retrieved for them."""
    tasks = []
    for name, (language, text) in list(TEXTS.items())[1::2]:
        lines = text.splitlines(keepends=True)
        for row in range(0, len(lines), max(1, len(lines) // 3)):
            before, after = "".join(lines[:row]) + lines[row][:9], lines[row][9:] + "".join(lines[row + 1 :])
            tasks.append(Task(f"{name}:{row}", "line", language, "s", name.removeprefix("s/"), before, "", after))
    assert len(tasks) >= 30
    settings = InPlace(form=form, max_new_tokens=12)
    pieces = Pieces(training_code(experiment, layout), 2)
    prompts = []
    for task in tasks:
        retrieved = pieces.before(f"{task.source}/{task.path}", task.before)
        prompts.append(after_retrieved(retrieved, prompt_of(task, settings)))
    expected, _ = load(layout.model("sft")).generate(prompts, settings, 0)

    async def conversation(client):
        texts = []
        for task in tasks:
            body = {"prompt": task.before, "max_tokens": 12, "user": f"{task.source}/{task.path}"}
            if form == "fim":
                body["suffix"] = task.after
            answer = await client.post("/v1/completions", json=body)
            texts.append([(await answer.json())["choices"][0]["text"]])
        return texts

    assert talk(assistant, conversation) == expected
    assert any(pieces.before(f"s/{task.path}", task.before) for task in tasks)


def test_an_answer_has_openai_s_form_and_a_stream_says_the_same(assistant):
    body = {"prompt": "def f3(x):\n    ", "max_tokens": 20, "model": "sft-alone"}
    status, whole = post(assistant, "/v1/completions", body)
    assert status == 200 and whole["object"] == "text_completion" and whole["model"] == "sft-alone"
    choice = whole["choices"][0]
    assert choice["finish_reason"] in ("length", "stop") and whole["usage"]["completion_tokens"] >= 1

    async def streamed(client):
        answer = await client.post("/v1/completions", json={**body, "stream": True})
        return (await answer.text()).split("\n\n")

    lines = talk(assistant, streamed)
    assert lines[-2:] == ["data: [DONE]", ""]
    parts = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    assert "".join(part["choices"][0]["text"] for part in parts) == choice["text"]
    assert [part["choices"][0]["finish_reason"] for part in parts[-1:]] == [choice["finish_reason"]]


def test_a_stop_text_ends_an_answer_before_it_and_is_never_streamed(assistant):
    body = {"prompt": "def f3(x):\n    ", "max_tokens": 24}
    text = post(assistant, "/v1/completions", body)[1]["choices"][0]["text"]
    stop = text[5:7]
    stopped = post(assistant, "/v1/completions", {**body, "stop": [stop]})[1]["choices"][0]
    assert stopped == {**stopped, "text": text[: text.find(stop)], "finish_reason": "stop"}

    async def streamed(client):
        answer = await client.post("/v1/completions", json={**body, "stop": stop, "stream": True})
        return await answer.text()

    parts = [json.loads(line[6:]) for line in talk(assistant, streamed).split("\n\n")[:-2]]
    assert "".join(part["choices"][0]["text"] for part in parts) == stopped["text"]


def test_a_chat_is_answered_as_suite_qa_asks_it(assistant, layout):
    messages = [{"role": "user", "content": "What does f1 do?"}]
    expected, _ = load(layout.model("sft")).generate([messages], Generation(max_new_tokens=9), 0)
    status, answer = post(assistant, "/v1/chat/completions", {"messages": messages, "max_tokens": 9})
    assert status == 200 and answer["choices"][0]["message"] == {"role": "assistant", "content": expected[0][0]}
    parts = [{"role": "user", "content": [{"type": "text", "text": "What does f1 do?"}]}]
    assert (
        post(assistant, "/v1/chat/completions", {"messages": parts, "max_tokens": 9})[1]["choices"] == answer["choices"]
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/completions", {}, 400, "prompt: Field required"),
        ("/v1/completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens: "),
        ("/v1/completions", {"prompt": "a", "n": 2}, 400, "n: "),
        ("/v1/completions", {"prompt": ["a", "b"]}, 400, "prompt: one text"),
        ("/v1/completions", {"prompt": "a", "model": "other"}, 404, "no model 'other'"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages: "),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 20_000}]}, 400, "exceed the model's"),
        ("/v1/embeddings", {}, 404, "Not Found: POST /v1/embeddings"),
        ("/v1/completions", {"prompt": "x" * (5 << 20)}, 413, "Request Entity Too Large"),
    ],
)
def test_a_bad_request_gets_openai_s_error(assistant, path, body, status, says):
    found, answer = post(assistant, path, body)
    assert found == status and set(answer["error"]) == {"message", "type", "param", "code"}
    assert says in answer["error"]["message"] and "xxxx" not in answer["error"]["message"]


def test_fifty_clients_at_once_lose_nothing_and_are_answered_in_the_order_in_which_they_came(assistant, monkeypatch):
    came, answered = [], []
    at, write = assistant.at, assistant.write

    def noted_at(text, *arguments):
        prompt, pieces = at(text, *arguments)
        came.append(prompt)
        return prompt, pieces

    def noted_write(prompt, *arguments):
        answered.append(prompt)
        return write(prompt, *arguments)

    monkeypatch.setattr(assistant, "at", noted_at)
    monkeypatch.setattr(assistant, "write", noted_write)

    async def conversation(client):
        async def one(number: int) -> str:
            body = {"prompt": f"x{number} = ", "max_tokens": 2, "model": "sft-alone"}
            answer = await (await client.post("/v1/completions", json=body)).json()
            return answer["choices"][0]["text"]

        return await asyncio.gather(*map(one, range(50)))

    texts = talk(assistant, conversation)
    assert answered == came and len(came) == 50
    alone, _ = assistant.loaded.generate([f"x{number} = " for number in range(50)], Generation(max_new_tokens=2), 0)
    assert texts == [text for [text] in alone]


def test_a_client_that_goes_away_ends_its_answer(assistant, monkeypatch):
    ended = []
    write = assistant.write

    def watched(*arguments):
        written = write(*arguments)
        ended.append(written.tokens)
        return written

    monkeypatch.setattr(assistant, "write", watched)

    async def conversation(client):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.post("/v1/completions", json={"prompt": "x = ", "max_tokens": 3000, "temperature": 2})
        answer = await client.post("/v1/completions", json={"prompt": "x = ", "max_tokens": 1})
        return answer.status

    assert talk(assistant, conversation) == 200
    assert ended[0] < 3000 and len(ended) == 2


def test_with_a_key_others_are_refused(assistant, tmp_path):
    async def conversation(client):
        found = []
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer ü"},
            {"Authorization": f"Bearer {key}"},
        ):
            answer = await client.get("/v1/models", headers=headers)
            found.append((answer.status, (await answer.json()).get("error", {}).get("code")))
        return found

    key = "k" * 20
    refused = (401, "invalid_api_key")
    assert talk(assistant, conversation, key) == [refused, refused, refused, (200, None)]
    (tmp_path / "key").write_text(f"{key}\n")
    assert read_key("0.0.0.0", tmp_path / "key") == key and read_key("127.0.0.1", None) is None
    loopbacks = [(socket.AF_INET, "127.0.0.1")]
    with suppress(OSError):  # a container may have no IPv6
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        loopbacks.append((socket.AF_INET6, "::1"))
    for family, host in loopbacks:
        taken = socket.create_server((host, 0), family=family)
        with taken, pytest.raises(UserError, match=r"--port \d+: Address already in use.*; give another one"):
            check_port(host, taken.getsockname()[1])
        check_port(host, 0)
    for port in (-1, 65536):
        with pytest.raises(UserError, match=f"--port {port}: must be from 0 to 65535"):
            check_port("127.0.0.1", port)
    with pytest.raises(UserError, match=r"--host 192\.0\.2\.1: no address of this machine; give one, as 127\.0\.0\.1"):
        check_port("192.0.2.1", 0)
    with pytest.raises(UserError, match=r"--host 0\.0\.0\.0: others could use the model; give --key-file"):
        read_key("0.0.0.0", None)
    (tmp_path / "key").write_text("short")
    with pytest.raises(UserError, match="must hold a key of at least 16 characters"):
        read_key("0.0.0.0", tmp_path / "key")


@pytest.mark.parametrize(
    ("text", "user", "expected"),
    [
        ("# src/a.py\nx", None, "src/a.py"),
        ("// Path: web/app.ts\nx", None, "web/app.ts"),
        ("/* main.c */\n", None, "main.c"),
        ("# a comment. Nothing else\n", None, ""),
        ("x = 1\n", "s/a.py", "s/a.py"),
        ("x = 1\n", "somebody", ""),
    ],
)
def test_a_client_names_the_file_by_a_comment_or_the_field_user(text, user, expected):
    assert named_file(text, user) == expected


def test_code_as_it_is_now_is_retrieved_within_a_look_and_ignored_files_stay_out(experiment, layout, tmp_path):
    clone = tmp_path / "tool"
    clone.mkdir()
    subprocess.run(["git", "init", "--quiet", clone], check=True)
    code = "".join(f"def zebra_{number}(stripe):\n    return stripe + {number}\n\n\n" for number in range(6))
    (clone / "zebra.py").write_text(code + 'password = "Xw9CrZqCs"\n')
    (clone / "large.py").write_text("zebra = 1\n" * 120_000)  # more than the filter reads
    (clone / ".gitignore").write_text("ignored.py\n")
    (clone / "ignored.py").write_text(code.replace("zebra", "zebra_ignored"))
    watched = Watched(clone, Filter(), empty_repository(tmp_path / "git", NO_FILTER))
    assistant = Assistant(experiment, layout, "sft")
    assert watched.look() and not watched.look()
    assistant.also_retrieve(watched.documents.values())
    _, found = assistant.at("def zebra_9(stripe):\n    ", "", "src/other.py")
    assert {piece.id for piece in found} == {"tool/zebra.py"} and set(watched.documents) == {"zebra.py"}
    assert "Xw9CrZqCs" not in "".join(piece.text for piece in assistant.pieces.pieces)
    (clone / "zebra.py").write_text(code.replace("zebra", "giraffe"))
    assert watched.look()
    assistant.also_retrieve(watched.documents.values())
    assert assistant.at("def zebra_9(stripe):\n", "", "a.py")[1][-1].text.startswith("def giraffe_")
    (clone / "zebra.py").unlink()
    assert watched.look() and watched.documents == {}


@pytest.mark.slow
def test_the_command_serves_real_clients_and_ends_at_once(experiment, layout, tmp_path):
    """By openai's own client and by `llm`, where they are installed; Ctrl-C ends it within a second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = (
        "import sys; from pathlib import Path; from tests.evaluation.synthetic import make_experiment\n"
        "from scripts.experiment.layout import Layout; from scripts.serving.assistant import Assistant\n"
        "from scripts.serving.server import serve\n"
        "experiment = make_experiment([], {'evaluation.perplexity.retrieval': {'datasets': ['code']}})\n"
        "layout = Layout(Path(sys.argv[1]))\n"
        "serve(Assistant(experiment, layout, 'sft'), '127.0.0.1', int(sys.argv[2]), None, layout.served, ['at PORT'])\n"
    )
    server = subprocess.Popen(
        [forked.python(), "-c", code, str(layout.results), str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout.readline() == f"at {port}\n" and json.loads(layout.served.read_text())["port"] == port

        async def ask() -> dict:
            async with ClientSession() as session:
                body = {"prompt": "def f3(x):\n", "max_tokens": 4}
                answer = await session.post(f"http://127.0.0.1:{port}/v1/completions", json=body)
                return await answer.json()

        text = asyncio.run(ask())["choices"][0]["text"]
        client = "import openai, sys; c = openai.OpenAI(base_url=sys.argv[1], api_key='none')\n"
        client += (
            "print(c.completions.create(model='sft', prompt='def f3(x):\\n', max_tokens=4).choices[0].text, end='')"
        )
        has_openai = subprocess.run([sys.executable, "-c", "import openai"], capture_output=True, check=False)
        if has_openai.returncode == 0:
            line = [sys.executable, "-c", client, f"http://127.0.0.1:{port}/v1"]
            assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == text
        began = time.monotonic()
        server.send_signal(2)
        server.wait(timeout=20)
        assert time.monotonic() - began < 20 and not layout.served.exists()
    finally:
        server.kill()
        server.wait()
    if has_openai.returncode:
        pytest.skip("the package openai is not installed: answered to another client alone")


def test_a_released_gguf_file_begins_as_the_model_does(experiment, layout, assistant, tmp_path):
    """By llama.cpp itself, at the place inside a word too, whose end the first tokens must spell."""
    pytest.importorskip("xllamacpp")
    from scripts.release.gguf_file import write_gguf

    file = tmp_path / "own.gguf"
    folder = tmp_path / "model"  # as a stage saves it, with its ends
    shutil.copytree(layout.model("sft"), folder)
    ends = {"eos_token_id": assistant.encoder.end, "pad_token_id": assistant.encoder.pad}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    write_gguf(folder, file, "f16")
    quick = Assistant(experiment, layout, "sft", gguf=file)
    for prompt in ("def f3(x):\n    ", "def f3(x):\n    ret", [{"role": "user", "content": "What does f1 do?"}]):
        exact, text = (each.write(prompt, Generation(max_new_tokens=12)).text for each in (assistant, quick))
        assert text and text[0] == exact[0]  # later a random model in float16 goes other ways
    with pytest.raises(UserError, match=r"--gguf .*none\.gguf: no such file"):
        Assistant(experiment, layout, "sft", gguf=tmp_path / "none.gguf")
