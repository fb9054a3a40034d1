"""Log the progress of a long loop: items done, rate, time left."""

import logging
import time
from collections.abc import Iterable, Iterator


class Progress:
    """Logs `label: done/total unit, rate, ETA` at most every `every` seconds, and a sum at the end.

    Args:
        label: what is being worked on, e.g. "filter ripgrep".
        unit: what is counted, e.g. "files".
        total: how many there will be; None where that is not known.
    """

    def __init__(self, label: str, unit: str, total: int | None = None, every: float = 5.0):
        self.label, self.unit, self.total, self.every = label, unit, total, every
        self.done = 0
        self.start = self.logged = time.monotonic()

    def add(self, count: int = 1) -> None:
        self.done += count
        if time.monotonic() - self.logged >= self.every:
            self.logged = time.monotonic()
            logging.info(self.line())

    def over(self, items: Iterable) -> Iterator:
        """Yield each, and count it when the next one is asked for."""
        for item in items:
            yield item
            self.add()

    def line(self) -> str:
        rate = self.done / max(time.monotonic() - self.start, 1e-9)
        of = f"/{self.total:,}" if self.total else ""
        eta = ""
        if self.total and rate:
            eta = f", ETA {max(self.total - self.done, 0) / rate:.0f} s"
        speed = f"{rate:,.0f}/s"
        if 0 < rate < 1:
            speed = f"{1 / rate:.1f} s each"
        return f"{self.label}: {self.done:,}{of} {self.unit}, {speed}{eta}"

    def end(self) -> None:
        logging.info(f"{self.label}: {self.done:,} {self.unit} in {time.monotonic() - self.start:.1f} s")
