"""What every script shares at its command line: one-line errors for users, plain log lines, progress with ETA.

A script ends with `if __name__ == "__main__": run(main)`. Settings come as JSON, as the rule's params hold them:

    python -m scripts.corpus.filter --settings '{"min_lines": 10}' ...
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable


class UserError(Exception):
    """A user's mistake, told in one line: the key or file, what is wrong, what would be right."""


def run(main: Callable[[], None]) -> None:
    """Call `main`; a UserError becomes one line on stderr and exit code 1, a bug keeps its traceback."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")


def parser(doc: str) -> argparse.ArgumentParser:
    """An argument parser whose help is the module's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def settings(text: str) -> dict:
    """The type of `--settings`: a JSON object.

    Raises:
        argparse.ArgumentTypeError: the text is not a JSON object.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, not {type(value).__name__}")
    return value


class Progress:
    """Logs `label: done/total unit, rate, ETA` at most every `every` seconds, and once at the end.

    Args:
        label: what is being worked on, e.g. "filter ripgrep".
        unit: what is counted, e.g. "files".
        total: how many there will be; None where that is not known.
    """

    def __init__(self, label: str, unit: str, total: int | None = None, every: float = 5.0):
        self.label, self.unit, self.total, self.every = label, unit, total, every
        self.done = 0
        self.start = self.told = time.monotonic()

    def add(self, count: int = 1) -> None:
        self.done += count
        if time.monotonic() - self.told >= self.every:
            self.told = time.monotonic()
            logging.info(self.line())

    def line(self) -> str:
        rate = self.done / max(time.monotonic() - self.start, 1e-9)
        of = f"/{self.total:,}" if self.total else ""
        eta = f", ETA {max(self.total - self.done, 0) / rate:.0f} s" if self.total and rate else ""
        return f"{self.label}: {self.done:,}{of} {self.unit}, {rate:,.0f}/s{eta}"

    def end(self) -> None:
        logging.info(f"{self.label}: {self.done:,} {self.unit} in {time.monotonic() - self.start:.1f} s")
