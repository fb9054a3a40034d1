"""A time limit on a block of code, whatever it waits for."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.common.errors import UserError


@contextmanager
def time_limit(seconds: float, message: str) -> Iterator[None]:
    """End the block after `seconds`; only in the main thread, as signals are. Raises UserError: with `message`, when
    the time is over."""

    def expired(*_) -> None:
        raise UserError(message)

    previous = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
