"""The forms of OpenAI's interface: what a request may hold, what an error says, how an answer is written down."""

from collections.abc import Callable
from typing import Any, NamedTuple

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from scripts.experiment.settings.suites import Generation
from scripts.serving.assistant import Written


class Request(BaseModel):
    """The fields that completions and chats have in common; others of OpenAI's are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = ""
    max_tokens: int | None = Field(None, ge=1, le=8192)
    max_completion_tokens: int | None = Field(None, ge=1, le=8192)
    temperature: float | None = Field(0, ge=0, le=2)
    top_p: float | None = Field(1, gt=0, le=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool = False
    n: int | None = Field(1, ge=1, le=1)
    user: str | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in given if text)

    def generation(self, default: int) -> Generation:
        tokens = self.max_completion_tokens or self.max_tokens or default
        return Generation(max_new_tokens=tokens, temperature=self.temperature or 0, top_p=self.top_p or 1)


class CompletionRequest(Request):
    prompt: str | list[str]
    suffix: str | None = None


class Turn(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[dict[str, Any]]

    def message(self) -> dict[str, str]:
        content = self.content
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content)
        role = {"developer": "system"}.get(self.role, self.role)
        return {"role": role, "content": content}


class ChatRequest(Request):
    messages: list[Turn] = Field(min_length=1)


class Refused(Exception):
    """A request that cannot be answered, with OpenAI's words for why."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None):
        self.status, self.message, self.code, self.param = status, message, code, param

    def response(self) -> web.Response:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return web.json_response({"error": error}, status=self.status)


class Shape(NamedTuple):
    """How an answer is written down: for completions or for chats."""

    name: str
    prefix: str
    choice: Callable[[str, bool], dict]  # (text, whether it is a part of a stream) → what holds it


def text_choice(text: str, part: bool) -> dict:
    return {"text": text, "logprobs": None}


def chat_choice(text: str, part: bool) -> dict:
    return {"delta" if part else "message": {"role": "assistant", "content": text}}


COMPLETION = Shape("text_completion", "cmpl", text_choice)
CHAT = Shape("chat.completion", "chatcmpl", chat_choice)


def usage(written: Written) -> dict:
    total = written.prompt_tokens + written.tokens
    return {"prompt_tokens": written.prompt_tokens, "completion_tokens": written.tokens, "total_tokens": total}
