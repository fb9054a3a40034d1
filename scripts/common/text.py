"""Format text: enumerations, durations, code blocks of Markdown; tell Han (Chinese) characters and answers of chats."""

import hashlib
import re


def text_digest(text: str) -> bytes:
    """The sha256 of a text, 32 bytes: what items are sorted by to choose some of them."""
    return hashlib.sha256(text.encode()).digest()


def fraction_of(digest: bytes) -> float:
    """A number in [0, 1) from the first 8 bytes of a digest."""
    return int.from_bytes(digest[:8]) / 2**64


CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")


def enumeration(names: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    minutes = int(seconds // 60)
    if minutes >= 1440:
        return f"{minutes // 1440} d {minutes % 1440 // 60} h"
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    if minutes:
        return f"{minutes} min"
    return f"{seconds:.0f} s"


def code_block(text: str, language: str = "") -> str:
    """`text` as a Markdown code block whose fence is longer than any run of backticks in it."""
    runs = re.findall("`+", text) if "`" in text else []  # most code has none, and `in` is faster
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def is_target(turn: dict) -> bool:
    """Whether a turn of a chat is an answer to train on and to score; one with `weight: 0` is only seen."""
    return turn["role"] == "assistant" and turn.get("weight") != 0
