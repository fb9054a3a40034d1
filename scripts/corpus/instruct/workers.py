"""Make the chats about many documents in several processes, in the order of the documents.

for document, made in chats_about(documents, settings, seed=42, processes=2):
    made          # the list of chats, or the reason why there is none
"""

import ctypes
import multiprocessing
import signal
from collections.abc import Iterator
from functools import partial
from itertools import islice

from scripts.corpus.instruct.tasks import examples_of
from scripts.experiment.settings.corpus import InstructDataset

FEW = 2048  # documents; for fewer, starting processes takes longer than it saves
CHUNK = 32  # documents that a process takes at once
BATCH = 4 * CHUNK  # documents for each process, of which two batches are in memory
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, even by `kill -9`: a worker would wait for it forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent ends the workers
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def chats_of(document: dict, settings: InstructDataset, seed: int) -> list[dict] | str:
    """As `examples_of`, but a list, which can be sent to another process."""
    chats = examples_of(document, settings, seed)
    return chats if isinstance(chats, str) else list(chats)


def chats_about(
    documents: Iterator[dict], settings: InstructDataset, seed: int, processes: int = 1
) -> Iterator[tuple[dict, list[dict] | str]]:
    """Yield each document with the chats about it, or the reason why there is none."""
    work = partial(chats_of, settings=settings, seed=seed)
    if processes == 1:
        yield from ((document, work(document)) for document in documents)
        return
    with multiprocessing.get_context("fork").Pool(processes, end_with_parent) as pool:
        batch = list(islice(documents, BATCH * processes))
        chats = pool.map_async(work, batch, CHUNK)
        while batch:  # one batch is in work while the one before it is written
            following = list(islice(documents, BATCH * processes))
            next_chats = pool.map_async(work, following, CHUNK)
            yield from zip(batch, chats.get(), strict=True)
            batch, chats = following, next_chats
