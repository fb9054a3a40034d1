"""Examples that come from no repository: chats and texts in files of the user's own, or texts of a hub dataset.

`compose` calls this for the kinds `chat` and `text`; the command is that of scripts/corpus/compose.py without --splits:

    python -m scripts.corpus.compose --out results/corpus/compose/qa \\
        --settings '{"kind": "chat", "path": "data/chat/qa.jsonl", "validation": 0.02, "test": 0.02, "seed": 42}'

What can be read is in scripts/corpus/formats/records.py. A split is decided by a hash of the content, so an example
keeps it wherever it stands, and the same content twice is kept once. An example's id is the place of its record; ids
that records bring along are not used.
"""

import hashlib
import heapq
import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import jsonl_writer
from scripts.common.manifest import write_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats.records import content_hash, records
from scripts.corpus.split import SPLITS

KINDS = ("chat", "text")
ROLES = ("system", "user", "assistant")


def chat(record: object, where: str) -> tuple[list[dict], str | None]:
    """(a record's messages, the reason why they make no example or None).

    Raises:
        UserError: there are none, or one has a wrong role or no text.
    """
    messages = record.get("messages") if isinstance(record, dict) else None
    if not isinstance(messages, list):
        raise UserError(f"{where}: no `messages`; a record is {{'messages': [{{'role': ..., 'content': ...}}, ...]}}")
    for place, message in enumerate(messages, 1):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            role = message.get("role") if isinstance(message, dict) else message
            raise UserError(f"{where}: message {place}: role must be {', '.join(ROLES)}, not {str(role)[:40]!r}")
        if not isinstance(message.get("content"), str):
            raise UserError(f"{where}: message {place}: content must be text, not {message.get('content')!r:.40}")
    turns = [{"role": message["role"], "content": message["content"]} for message in messages]
    if not turns:
        return turns, "empty"
    answers = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    return turns, None if any(answer.strip() for answer in answers) else "no_answer"


def text(record: object, where: str, column: str) -> tuple[str, str | None]:
    """(a record's text, the reason why it makes no example or None).

    Raises:
        UserError: it has no such column, or no text in it.
    """
    if not isinstance(record, dict) or column not in record:
        there = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        raise UserError(f"{where}: no {column!r} in it; there: {there}; see `text_column`")
    value = record[column]
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: {column!r} must be text, not {type(value).__name__}")
    return value or "", None if value and value.strip() else "empty"


def contents(options: dict) -> Iterator[tuple[bytes, dict, str | None]]:
    """(content hash, example, why it is dropped or None) of each record; of equal contents the first is kept."""
    seen, size = set(), 0
    for source, name, record in records(options):
        where = f"{source}: {name.rpartition(':')[2]}"
        if options["kind"] == "chat":
            body, reason = chat(record, where)
            content = {"messages": body}
        else:
            body, reason = text(record, where, options["text_column"])
            content = {"text": body}
        try:
            digest = hashlib.sha256(json.dumps(body, ensure_ascii=False).encode()).digest()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which no UTF-8 holds
            raise UserError(f"{where}: holds characters that are no Unicode text; repair it") from error
        reason = reason or ("duplicate" if digest in seen else None)
        seen.add(digest)
        if reason is None and "max_megabytes" in options:
            size += len(body.encode())
            if size > options["max_megabytes"] * 1e6:
                logging.info(f"compose: stops at {source}, {name}: max_megabytes")
                return
        yield digest, {"id": name, "language": options["kind"], "source": source, **content}, reason


def split_by(digest: bytes, options: dict) -> str:
    """The split of a content hash: first the share of test, then that of validation."""
    place = int.from_bytes(digest[:8]) / 2**64
    if place < options["test"]:
        return "test"
    return "validation" if place < options["test"] + options["validation"] else "train"


def last_of_sample(options: dict) -> bytes:
    """The rank of the last content that `max_samples` lets through; a rank is a hash of content and seed."""
    ranks = (rank(digest, options) for digest, _, reason in contents(options) if reason is None)
    return max(heapq.nsmallest(options["max_samples"], ranks), default=b"")


def rank(digest: bytes, options: dict) -> bytes:
    return hashlib.sha256(f"{options['seed']}:".encode() + digest).digest()


def compose(options: dict, out: Path) -> dict:
    """Write the examples of an external dataset to one file per split in `out`; the manifest.

    Args:
        options: the dataset's settings (`corpus.compose.NAME`) and `seed`.

    Raises:
        UserError: the content is not that of `sha256`, something in it is malformed, or nothing is left to train on.
    """
    if "sha256" in options and (found := content_hash(Path(options["path"]))) != options["sha256"]:
        raise UserError(f"corpus.compose.{out.name}.sha256: the content of {options['path']} is {found}")
    last = last_of_sample(options) if "max_samples" in options else None
    made, dropped = Counter(), {split: Counter() for split in SPLITS}
    progress = Progress(f"compose {out.name}", "examples")
    with ExitStack() as stack:
        write = {split: stack.enter_context(jsonl_writer(out / f"{split}.jsonl.zst")) for split in SPLITS}
        for digest, example, reason in contents(options):
            split = split_by(digest, options)
            if reason is None and last is not None and rank(digest, options) > last:
                reason = "not_sampled"
            if reason:
                dropped[split][reason] += 1
                continue
            write[split](example)
            made[split] += 1
            progress.add()
        if not made["train"]:
            where = options.get("path") or options["hub"]
            raise UserError(f"{where}: no example left to train on; dropped: {dict(sum(dropped.values(), Counter()))}")
    progress.end()
    facts = {"kind": options["kind"], "examples": {split: made[split] for split in SPLITS}, "dropped": dropped}
    return write_manifest(out, [f"{split}.jsonl.zst" for split in SPLITS], **facts)
