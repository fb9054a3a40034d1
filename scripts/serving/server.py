"""`stagecraft serve`: a trained model over HTTP with OpenAI's interface, for editors.

    stagecraft serve own --experiment mine
    curl http://127.0.0.1:8012/v1/completions -d '{"prompt": "def area(width):\\n", "max_tokens": 32}'

/v1/models, /v1/completions (with `suffix` the middle is filled in, where the base can) and /v1/chat/completions,
streamed or not. A prompt is what the suites ask (assistant.py): code is retrieved for it, by the file that its first
comment or the field `user` names, and its end is healed. Model STAGE-alone retrieves nothing; chats never do, as in
suite qa. Requests are answered one after the other, in the order in which they came; one whose client goes away ends.
"""

import asyncio
import contextlib
import errno
import hmac
import json
import logging
import re
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from aiohttp import web
from pydantic import ValidationError

from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.evaluation.generation.examples import Prompt
from scripts.experiment.settings.suites import Generation
from scripts.serving.assistant import Assistant, Written
from scripts.serving.openai_forms import (
    CHAT,
    COMPLETION,
    ChatRequest,
    CompletionRequest,
    Refused,
    Request,
    Shape,
    usage,
)

LOOPBACK = "127.0.0.1"
MOST_BYTES = 4 << 20  # of a request
MOST_WAITING = 128  # requests; more are refused
ALONE = "-alone"  # behind a model's name: without retrieved code
NAMED_FILE = re.compile(r"\s*(?:#|//|--|;|%|/\*|<!--|\"\"\")\s*(?:[Pp]ath|[Ff]ile(?:name)?)?:?\s*([\w./@+-]*\w\.\w+)\s*(?:\*/|-->)?\s*$")  # fmt: skip  # noqa: E501


def named_file(text: str, user: str | None) -> str:
    """The file that a client says a text is of: in the field `user`, or in a comment on its first line; else empty."""
    if user and re.fullmatch(r"[\w./@+-]+\.\w+", user):
        return user
    found = NAMED_FILE.match(text.partition("\n")[0])
    return found[1] if found else ""


class Server:
    """Answers requests with one model. `key`: what clients must send; None for all who reach the address."""

    def __init__(self, assistant: Assistant, key: str | None = None):
        self.assistant, self.key = assistant, key
        self.turn, self.waiting, self.closing = asyncio.Lock(), 0, threading.Event()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES, middlewares=[self.checked])
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/completions", self.completions)
        app.router.add_post("/v1/chat/completions", self.chats)
        app.on_shutdown.append(self.close)
        return app

    async def close(self, app: web.Application) -> None:
        self.closing.set()

    @web.middleware
    async def checked(self, request: web.Request, handler: Callable) -> web.StreamResponse:
        """The answer to a request, or what is wrong with it in OpenAI's form."""
        try:
            if self.key is not None:
                given = request.headers.get("Authorization", "").removeprefix("Bearer ")
                if not hmac.compare_digest(given.encode(), self.key.encode()):
                    raise Refused(401, "wrong or missing API key", "invalid_api_key")
            return await handler(request)
        except Refused as refused:
            return refused.response()
        except web.HTTPException as error:
            return Refused(error.status, f"{error.reason}: {request.method} {request.path}").response()
        except UserError as error:  # as a prompt that is too long, of which no more than the reason is said
            code = "context_length_exceeded" if "positions" in str(error) else None
            return Refused(400, str(error).rpartition(": ")[2], code, "messages").response()

    async def models(self, request: web.Request) -> web.Response:
        name = self.assistant.name
        data = [
            {"id": model, "object": "model", "created": 0, "owned_by": "stagecraft"} for model in (name, name + ALONE)
        ]
        return web.json_response({"object": "list", "data": data})

    async def read(self, request: web.Request, kind: type[Request]) -> Request:
        try:
            given = kind.model_validate_json(await request.read())
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise Refused(400, f"{place or 'body'}: {first['msg']}", param=place or None) from error
        if given.model not in ("", self.assistant.name, self.assistant.name + ALONE):
            raise Refused(404, f"no model {given.model!r}; /v1/models lists what is here", "model_not_found", "model")
        return given

    async def completions(self, request: web.Request) -> web.StreamResponse:
        given = await self.read(request, CompletionRequest)
        if isinstance(given.prompt, list) and len(given.prompt) != 1:
            raise Refused(400, "prompt: one text; send several requests for several", param="prompt")
        text = given.prompt if isinstance(given.prompt, str) else given.prompt[0]
        path = named_file(text, given.user)
        prompt, _ = self.assistant.at(text, given.suffix or "", path, not given.model.endswith(ALONE))
        return await self.answer(request, given, prompt, given.generation(64), COMPLETION)

    async def chats(self, request: web.Request) -> web.StreamResponse:
        given = await self.read(request, ChatRequest)
        messages = [turn.message() for turn in given.messages]
        return await self.answer(request, given, messages, given.generation(512), CHAT)

    async def answer(
        self, request: web.Request, given: Request, prompt: Prompt, settings: Generation, shape: Shape
    ) -> web.StreamResponse:
        """Answer when it is this request's turn."""
        if self.waiting >= MOST_WAITING:
            raise Refused(429, f"{MOST_WAITING} requests are waiting; try again later", "rate_limit_exceeded")
        self.waiting += 1
        try:
            async with self.turn:
                if given.stream:
                    return await self.stream(request, given, prompt, settings, shape)
                written = [part async for part in self.parts(prompt, settings, given)][-1]
                return web.json_response(self.whole(given, written, shape))
        finally:
            self.waiting -= 1

    async def parts(self, prompt: Prompt, settings: Generation, given: Request) -> AsyncIterator[str | Written]:
        """The text so far, after each token, and at last what was written. The model computes in a thread, which ends
        at its next token where nobody listens any more."""
        loop, queue, left = asyncio.get_running_loop(), asyncio.Queue(), threading.Event()

        def told(text: str) -> bool:
            loop.call_soon_threadsafe(queue.put_nowait, text)
            return left.is_set() or self.closing.is_set()

        def write() -> Written:
            return self.assistant.write(prompt, settings, given.seed or 0, given.stops, told)

        job = loop.run_in_executor(None, write)
        job.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (text := await queue.get()) is not None:
                yield text
            yield await job
        finally:
            left.set()
            with contextlib.suppress(asyncio.CancelledError, UserError):
                await asyncio.shield(job)  # the model serves one at a time

    def head(self, given: Request, shape: Shape, part: bool) -> dict:
        kind = shape.name + ".chunk" * (part and shape is CHAT)
        name = given.model or self.assistant.name
        return {"id": f"{shape.prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}

    def whole(self, given: Request, written: Written, shape: Shape) -> dict:
        choice = {"index": 0, "finish_reason": written.reason, **shape.choice(written.text, False)}
        return {**self.head(given, shape, False), "choices": [choice], "usage": usage(written)}

    async def stream(
        self, request: web.Request, given: Request, prompt: Prompt, settings: Generation, shape: Shape
    ) -> web.StreamResponse:
        """Send the text as it grows, as server-sent events."""
        parts, head, sent = self.parts(prompt, settings, given), self.head(given, shape, True), ""
        # a text that may be the beginning of a stop text, and half of a character, wait for the next token
        held = max([len(stop) - 1 for stop in given.stops], default=0)
        first = await anext(parts)  # what is wrong with a prompt is said before the stream begins
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)

        async def send(text: str, reason: str | None) -> None:
            choice = {"index": 0, "finish_reason": reason, **shape.choice(text, True)}
            await response.write(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode())

        async with contextlib.aclosing(parts):
            text: str | Written = first
            while not isinstance(text, Written):
                shown = text.rstrip("\N{REPLACEMENT CHARACTER}")
                shown = shown[: len(shown) - held]
                if len(shown) > len(sent) and not any(stop in text for stop in given.stops):
                    await send(shown[len(sent) :], None)
                    sent = shown
                text = await anext(parts)
        await send(text.text[len(sent) :], text.reason)
        await response.write(b"data: [DONE]\n\n")
        return response


def read_key(host: str, key_file: Path | None) -> str | None:
    """The key in a file. Raises UserError: another than this machine could ask, and there is no key."""
    if key_file is None:
        if host not in (LOOPBACK, "localhost", "::1"):
            raise UserError(f"--host {host}: others could use the model; give --key-file FILE with a key for them")
        return None
    key = key_file.read_text().strip() if key_file.is_file() else ""
    if len(key) < 16:
        raise UserError(f"--key-file {key_file}: must hold a key of at least 16 characters (`openssl rand -hex 20`)")
    return key


def check_port(host: str, port: int) -> None:
    """Check that an address is this machine's and free, before a model is loaded. Raises UserError: it is not."""
    if not 0 <= port < 1 << 16:
        raise UserError(f"--port {port}: must be from 0 to 65535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise UserError(f"--host {host}: no address of this machine; give one, as {LOOPBACK}") from error
        raise UserError(f"--port {port}: {error.strerror or error}; give another one, or 0 for a free one") from error


def serve(assistant: Assistant, host: str, port: int, key: str | None, note: Path, lines: list[str]) -> None:
    """Serve until Ctrl-C.

    Args:
        key: what clients must send; see `read_key`.
        note: the file that says where the server is, for `stagecraft try`.
        lines: what is printed once it listens.

    Raises:
        UserError: the port is taken.
    """
    logging.getLogger().setLevel(logging.WARNING)  # a line for each request would tell what users do

    async def run() -> None:
        runner = web.AppRunner(Server(assistant, key).app(), handler_cancellation=True, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, shutdown_timeout=0.5).start()
        except OSError as error:
            raise UserError(f"--port {port}: {error.strerror or error}; give another one") from error
        at = runner.addresses[0][1]
        write_json(note, {"port": at, "model": assistant.name})
        print("\n".join(lines).replace("PORT", str(at)), flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            note.unlink(missing_ok=True)
            await runner.cleanup()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
