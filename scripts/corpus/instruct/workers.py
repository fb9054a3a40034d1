"""The chats about many documents, made by several processes, in the order of the documents.

for document, made in chats_about(documents, settings, seed=42, processes=2):
    made          # the chats, or why there is none
"""

import ctypes
import multiprocessing
import signal
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice

from scripts.corpus.instruct.tasks import examples_of
from scripts.experiment.settings.corpus import InstructDataset

BATCH = 2048  # documents in memory; fewer are not worth processes
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the kernel end this process when its parent ends, however it does: a worker waits for it forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def one(document: dict, settings: InstructDataset, seed: int) -> list[dict] | str:
    made = examples_of(document, settings, seed)
    return made if isinstance(made, str) else list(made)


def chats_about(
    documents: Iterator[dict], settings: InstructDataset, seed: int, processes: int = 1
) -> Iterator[tuple[dict, list[dict] | str]]:
    """Yield each document with the chats about it, or why there is none."""
    work = partial(one, settings=settings, seed=seed)
    first = list(islice(documents, BATCH))
    if processes == 1 or len(first) < BATCH:
        yield from ((document, work(document)) for document in chain(first, documents))
        return
    with multiprocessing.get_context("fork").Pool(processes, end_with_parent) as pool:
        while first:
            yield from zip(first, pool.map(work, first, chunksize=32), strict=True)
            first = list(islice(documents, BATCH))
