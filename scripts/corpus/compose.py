"""Make one dataset from the split documents: code, or chats about code.

    python -m scripts.corpus.compose --splits results/corpus/split --seed 42 --out results/corpus/compose/code \\
        --settings '{"kind": "code", "fim_rate": 0.5}'
    python -m scripts.corpus.compose --splits results/corpus/split --seed 42 --out results/corpus/compose/instruct \\
        --settings '{"kind": "instruct", "language": "zh"}'

Datasets of kind `chat` and `text` come from the user's own files and take no --splits:
scripts/corpus/formats/own_datasets.py.

Instruction tasks are balanced by their weights. Code is written as it is: fill-in-the-middle is made by `pack`, which
knows what fits in a row, at the rates that this manifest names. `filter` drops training documents alone.
"""

import multiprocessing
import signal
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import jsonl_writer, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.options import parser
from scripts.common.process import end_with_parent
from scripts.common.progress import Progress
from scripts.common.text import text_digest
from scripts.corpus.formats import own_datasets
from scripts.corpus.instruct.tasks import examples_of
from scripts.experiment.layout import SPLITS, split_file
from scripts.experiment.settings.corpus import (
    CodeDataset,
    Dataset,
    InstructDataset,
    OwnDataset,
    SourceDataset,
)
from scripts.experiment.settings.record import parse_json


def rank_of(example: dict, seed: int) -> bytes:
    """What the examples of a task are sorted by."""
    return text_digest(f"{seed}:{example['id']}")


def task_of(example: dict) -> str:
    return example.get("task", "analysis")


def balance_tasks(
    examples: Iterator[dict], weights: dict[str, float], all_required: bool, seed: int, out: Path, dropped: Counter
) -> Iterator[dict]:
    """Yield examples so that the tasks' numbers are in proportion to their weights; the scarcest task keeps all.

    All examples are first written to a temporary file in `out`, as the shares depend on their number.

    Args:
        all_required: whether a task without examples is an error; if not, it is ignored.
        dropped: counts the others, as `task_share`.
    """
    out.mkdir(parents=True, exist_ok=True)
    ranks, last = defaultdict(list), {}
    with tempfile.TemporaryDirectory(dir=out) as folder:
        all_examples = Path(folder) / "all.jsonl.zst"
        with jsonl_writer(all_examples) as write:
            for example in examples:
                write(example)
                ranks[task_of(example)].append(rank_of(example, seed))
        missing = [task for task in weights if task not in ranks]
        if all_required and missing:
            raise UserError(
                f"corpus.compose.{out.name}.tasks.{missing[0]}: no document gives an example of it; leave it out"
            )
        shares = {task: Fraction(str(weight)) for task, weight in weights.items() if task in ranks}
        unit = min((len(ranks[task]) / share for task, share in shares.items()), default=Fraction(0))
        for task, share in shares.items():
            last[task] = sorted(ranks[task])[max(1, int(share * unit)) - 1]
        for example in read_jsonl(all_examples):
            if rank_of(example, seed) > last[task_of(example)]:
                dropped["task_share"] += 1
            else:
                yield example


FEW = 2048  # documents; for fewer, starting processes takes longer than it saves
CHUNK = 32  # documents that a process takes at once
BATCH = 4 * CHUNK  # documents for each process, of which two batches are in memory


def begin_worker() -> None:
    """Leave Ctrl-C to the parent, which ends the workers; and end with it, as a worker would wait for it forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)


def chats_of(document: dict, settings: InstructDataset, seed: int) -> list[dict] | str:
    """As `examples_of`, but a list, which can be sent to another process."""
    chats = examples_of(document, settings, seed)
    if isinstance(chats, str):
        return chats
    return list(chats)


def chats_about(
    documents: Iterator[dict], settings: InstructDataset, seed: int, processes: int = 1
) -> Iterator[tuple[dict, list[dict] | str]]:
    """Yield each document with the chats about it, or the reason why there is none."""
    work = partial(chats_of, settings=settings, seed=seed)
    if processes == 1:
        yield from ((document, work(document)) for document in documents)
        return
    with multiprocessing.get_context("fork").Pool(processes, begin_worker) as pool:
        batch = list(islice(documents, BATCH * processes))
        chats = pool.map_async(work, batch, CHUNK)
        while batch:  # one batch is in work while the one before it is written
            following = list(islice(documents, BATCH * processes))
            next_chats = pool.map_async(work, following, CHUNK)
            yield from zip(batch, chats.get(), strict=True)
            batch, chats = following, next_chats


def of_sources(documents: Iterator[dict], names: list[str] | None, dropped: Counter) -> Iterator[dict]:
    """Yield the documents of these sources, of all if `names` is None; the others are counted in `dropped`."""
    for document in documents:
        if names and document["source"] not in names:
            dropped["other_source"] += 1
        else:
            yield document


def examples(
    documents: Iterator[dict], settings: SourceDataset, seed: int, processes: int, dropped: Counter
) -> Iterator[dict]:
    """Yield the examples of some documents; those that are left out are counted by reason in `dropped`."""
    if isinstance(settings, CodeDataset):
        for document in documents:
            yield {**place_of(document), "text": document["text"]}
        return
    for document, chats in chats_about(documents, settings, seed, processes):
        if isinstance(chats, str):
            dropped[chats] += 1
            continue
        place = place_of(document)
        for chat in chats:
            yield place | {"id": place["id"] + chat.pop("name"), **chat}


def place_of(document: dict) -> dict:
    """The keys of an example that name its document: id, language, source, licence."""
    facts = {key: document[key] for key in ("language", "source", "licence") if key in document}
    return {"id": f"{document['source']}/{document['path']}", **facts}


def compose(folder: Path, settings: SourceDataset, seed: int, out: Path, processes: int = 1) -> dict:
    """Write the examples of all splits in `folder` to `out`; returns the manifest. Raises UserError: the documents
    differ from their manifest; or see `balance_tasks`."""
    counts = read_manifest(folder)["documents"]
    tasks = {split: Counter() for split in SPLITS}
    written, dropped = Counter(), {split: Counter() for split in SPLITS}
    progress = Progress(f"compose {out.name}", "documents", sum(counts.values()))
    for split in SPLITS:
        # counted as they are read: how many examples come out of them is not known before
        documents = progress.over(read_jsonl(split_file(folder, split)))
        documents = of_sources(documents, settings.sources, dropped[split])
        composed = examples(documents, settings, seed, processes if counts[split] >= FEW else 1, dropped[split])
        if isinstance(settings, InstructDataset) and len(settings.tasks) > 1:
            composed = balance_tasks(composed, settings.tasks, split == "train", seed, out, dropped[split])
        with jsonl_writer(split_file(out, split)) as write:
            for example in composed:
                write(example)
                written[split] += 1
                tasks[split][example.get("task", "analysis")] += 1
    progress.end()
    facts = {"kind": settings.kind, "examples": {split: written[split] for split in SPLITS}, "dropped": dropped}
    if isinstance(settings, InstructDataset) and len(settings.tasks) > 1:
        facts["tasks"] = tasks
    if isinstance(settings, CodeDataset):
        facts["fim"] = {"rate": settings.fim_rate, "spm_rate": settings.spm_rate, "seed": seed}
    return write_manifest(out, [split_file(out, split).name for split in SPLITS], **facts)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--splits", type=Path, help="corpus/split; not for the kinds chat and text")
    arguments.add_argument(
        "--settings", type=lambda text: parse_json(Dataset, text), required=True, help="corpus.compose.NAME, as JSON"
    )
    arguments.add_argument("--seed", type=int, required=True, help="the experiment's seed")
    arguments.add_argument("--threads", type=int, default=1, help="processes that parse; the output is the same")
    arguments.add_argument("--out", type=Path, required=True, help="folder for a file per split")
    args = arguments.parse_args()
    if isinstance(args.settings, OwnDataset):
        own_datasets.compose(args.settings, args.seed, args.out)
    elif args.splits:
        compose(args.splits, args.settings, args.seed, args.out, args.threads)
    else:
        raise UserError("--splits: required for the kinds code and instruct")


if __name__ == "__main__":
    run(main)
