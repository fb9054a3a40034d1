"""Choices by a hash: random, but the same in every run and on every machine."""

import hashlib


def text_digest(text: str) -> bytes:
    """The sha256 of a text, 32 bytes: what items are sorted by to choose some of them."""
    return hashlib.sha256(text.encode()).digest()


def fraction_of(digest: bytes) -> float:
    """A number in [0, 1) from the first 8 bytes of a digest."""
    return int.from_bytes(digest[:8]) / 2**64
