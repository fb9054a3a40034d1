"""Nested calls in both directions between the process with the tests and the process with the candidate.

    peer = RpcPeer(reading=3, writing=4)
    peer.request("run", {"value": 3})     # in the process with the tests
    peer.serve_all(server)                # in the other one

Part of the programs in the sandboxes, like object_graph.py.
"""

import json
import operator
import os
import threading

from scripts.judge.repositories.object_graph import Table, Unreadable
from scripts.judge.repositories.object_writer import Unsendable
from scripts.judge.repositories.policy import Policy

FAULTS = ("compile error", "import error", "unsendable", "refused", "unreadable")  # what one side may say of itself
LONGEST = 64 << 20  # bytes of one message


class Fault(BaseException):
    """The two processes cannot go on; no test may catch it."""


class RpcPeer(Policy):
    """One end of the two pipes.

    Attributes:
        fault: why nothing that this process still does counts, in words; empty if all is well.
        calls: how many requests were answered.
    """

    def __init__(self, reading: int, writing: int):
        super().__init__()
        self.reader, self.writer = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)
        self.lock, self.depth, self.table = threading.RLock(), 0, None
        self.fault, self.calls = "", 0

    def stop(self, reason: str):
        self.fault = self.fault or reason
        raise Fault(reason)

    def send(self, message: dict) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while data:
                data = data[self.writer.write(data) :]
        except BrokenPipeError:
            self.receive()  # why it ended, if it said so
            self.stop("gone")

    def receive(self) -> dict:
        line = self.reader.readline(LONGEST)
        if not line.endswith(b"\n"):
            self.stop("gone")
        try:
            message = json.loads(line)
            kind = message["kind"]
        except Exception:
            self.stop("unreadable: no message")
        if kind == "fault":
            reason = str(message.get("value"))[:1000]
            self.stop(reason if reason.startswith(FAULTS) else f"the other side says: {reason}")
        return message

    def answer(self, kind: str, value: object) -> None:
        """Send a value in the table of this call."""
        try:
            written = self.table.write(value)
        except (Unsendable, RecursionError) as error:
            self.send({"kind": "fault", "value": f"unsendable: {error}"})
            self.stop(f"unsendable: {error}")
        self.send({"kind": kind, **written})

    def read(self, message: dict) -> object:
        try:
            return self.table.read(message)
        except Unreadable as error:
            reason = f"refused: {error}"
        except BaseException as error:
            reason = f"unreadable: {type(error).__name__}: {error}"
        self.send({"kind": "fault", "value": reason})
        return self.stop(reason)

    def request(self, verb: str, *parts) -> object:
        """What the other side gives back; what it raises is raised."""
        with self.lock:
            if self.fault:
                raise Fault(self.fault)
            self.table = self.table if self.depth else Table(self)
            self.depth += 1
            try:
                self.answer(verb, list(parts))
                kind, value = self.replies()
            finally:
                self.depth -= 1
        if kind == "error":
            raise value
        return value

    def replies(self) -> tuple[str, object]:
        """The reply to a request; requests of the other side that come before it are served."""
        while True:
            message = self.receive()
            kind, value = message["kind"], self.read(message)
            if kind in ("value", "error"):
                self.calls += 1
                other = kind == "error" and not isinstance(value, BaseException)
                return kind, RuntimeError("an exception of a class that is only there") if other else value
            self.serve(kind, value)

    def serve(self, verb: str, parts: list) -> None:
        """Do what the other side asks for, and reply."""
        self.depth += 1
        kind = "value"
        try:
            value = self.perform(verb, parts)
        except Fault:
            raise
        except BaseException as error:
            kind, value = "error", error
        self.answer(kind, value)
        self.depth -= 1

    def perform(self, verb: str, parts: list) -> object:
        if not isinstance(parts, list) or not parts or id(parts[0]) not in self.numbers:
            self.stop("unreadable: a request for what the other side was not given")
        value, *rest = parts
        if verb == "call":
            arguments, named_arguments = rest
            return value(*arguments, **named_arguments)
        if verb == "next":
            return next(value)
        if verb in ("send", "throw", "close"):
            return getattr(value, verb)(*rest)
        if verb == "get" and self.shows(value, *rest):
            return getattr(value, *rest)
        if verb in ("iter", "len", "item"):
            return {"iter": iter, "len": len, "item": operator.getitem}[verb](value, *rest)
        return self.stop(f"unreadable: no verb {verb!r:.50}")

    def shows(self, value: object, name: str) -> bool:
        """Whether the other side may have an attribute of an object that it has a handle of."""
        return True

    def serve_all(self) -> None:
        """Serve requests until the other side is gone."""
        while True:
            self.table, self.depth = Table(self), 0
            message = self.receive()
            self.serve(message["kind"], self.read(message))
