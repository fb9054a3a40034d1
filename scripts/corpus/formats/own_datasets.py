"""Datasets of the user's own: chats and texts from files or from a hub dataset.

`compose` calls this for the kinds `chat` and `text`; the command is that of scripts/corpus/compose.py without --splits:

    python -m scripts.corpus.compose --seed 42 --out results/corpus/compose/qa \\
        --settings '{"kind": "chat", "path": "data/chat/qa.jsonl"}'

scripts/corpus/formats/record_readers.py says which files are read, chat_forms.py which forms of chats. The split
follows from a hash of a chat's group or, so that no question is in two splits, of its first question, and of a text's
content; so an example keeps its split wherever it is in the files. Exact duplicates are removed. A record that is no
chat to train on is left out and counted by reason, and the first one of each reason is shown; a file that cannot be
read is an error. An example's id is its place (`file:line`); ids within the records are ignored.
"""

import hashlib
import heapq
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import jsonl_writer
from scripts.common.manifest import write_manifest
from scripts.common.progress import Progress
from scripts.common.text import is_target, text_digest
from scripts.corpus.formats.chat_forms import (
    WITHOUT_TOOLS,
    BadRecord,
    check_tools_and_media,
    messages_in,
    role_of,
    untrained_key,
)
from scripts.corpus.formats.filter_writer import split_of
from scripts.corpus.formats.record_readers import content_hash, files_of, format_of, json_lines, records
from scripts.experiment.layout import SPLITS, split_file
from scripts.experiment.settings.corpus import ChatDataset, TextDataset

ROLES = ("system", "user", "assistant")
THINKING = ("reason", "think", "thought")  # how keys begin that hold thinking beside the content
TEXTS = ("text", "input_text", "output_text")  # types of parts of a content
PARTS = ("train_detail", "training_detail")  # which parts of an answer are trained on
FIRST = 1000  # chats of each file that are looked at before the first job


def chat_of(
    record: object, record_place: str, columns: Mapping[str, str] | None = None
) -> tuple[list[dict], str | None]:
    """(the messages of a record, the reason why it is dropped or None). `columns`: of the settings."""
    if isinstance(record, BadRecord):
        raise record
    turns = []
    for number, message in enumerate(messages_in(record, record_place, columns), 1):
        place = f"{record_place}: message {number}"
        role = role_of(message if isinstance(message, dict) else {"role": message})
        if role in ("tool", "function", "ipython"):
            raise BadRecord("tools", f"{place}: role {role}: {WITHOUT_TOOLS}")
        if isinstance(message, dict):
            check_tools_and_media(message, place)
            check_other_keys(message, role, place)
        if role not in ROLES:
            raise BadRecord("role", f"{place}: role must be {', '.join(ROLES)}, not {str(role)[:40]!r}")
        turn = {"role": role, "content": content_of(message.get("content"), place)}
        if role == "assistant" and untrained_key(message):
            turn["weight"] = 0  # seen, but no target
        turns.append(turn)
    if not turns:
        return turns, "empty"
    spoken = [turn for turn in turns if turn["role"] != "system"]
    answers = [turn["content"].strip() for turn in spoken if turn["role"] == "assistant"]
    questions = [turn["content"].strip() for turn in spoken if turn["role"] == "user"]
    if not answers or not all(answers):  # an empty answer would teach to stop at once
        return turns, "no_answer"
    # an empty question, or nothing at all before an answer, would teach to answer what was not asked
    if not questions or not all(questions) or spoken[0]["role"] == "assistant":
        return turns, "no_question"
    if not any(map(is_target, spoken)):
        raise BadRecord("untrained_answer", f"{record_place}: all of its answers are marked as not to be trained on")
    return turns, None


def chat_with_group(record: object, record_place: str, columns: Mapping[str, str]) -> tuple[dict, str | None]:
    """As `chat_of`, with the messages as `{"messages": ...}`, and the value in the field `columns.group` as `group`.
    Raises BadRecord: see `chat_of`; or the field is named, and the record has no value there."""
    messages, reason = chat_of(record, record_place, columns)
    if "group" not in columns:
        return {"messages": messages}, reason
    value = record.get(columns["group"])
    if value in (None, ""):
        raise BadRecord("no_group", f"{record_place}: nothing in the field {columns['group']!r} of `columns.group`")
    return {"messages": messages, "group": json.dumps(value, default=str)}, reason


def check_other_keys(message: dict, role: object, place: str) -> None:
    """Refuse a message with a key that says what would not be done here."""
    for key, value in message.items():
        if value and key.lower().startswith(THINKING):
            raise BadRecord("thinking", f"{place}: `{key}` is not trained on; remove it, or write it into `content`")
        weighted = key in ("weight", "loss_scale") and isinstance(value, int | float) and value not in (0, 1)
        if role == "assistant" and (weighted or (key in PARTS and value)):
            raise BadRecord(
                "untrained_answer", f"{place}: `{key}`: an answer is trained on as a whole, or (`weight: 0`) not at all"
            )
    if message.get("channel") not in (None, "final"):
        raise BadRecord("thinking", f"{place}: `channel: {message['channel']}` is not trained on; leave it out")


def content_of(content: object, place: str) -> str:
    """A message's text: a string, or a list of parts of type text, which are joined. Raises BadRecord: it is something
    else, or a part is, as an image."""
    if isinstance(content, list):
        for number, part in enumerate(content, 1):
            known = isinstance(part, dict) and part.get("type") in TEXTS and isinstance(part.get("text"), str)
            if not known:
                kind = part.get("type") if isinstance(part, dict) else part
                raise BadRecord(
                    "no_text", f"{place}: content part {number} must be of type text, not {str(kind)[:40]!r}"
                )
        return "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise BadRecord("no_text", f"{place}: content must be text, not {content!r:.40}")
    return content


def check_first_chats(settings: ChatDataset | TextDataset) -> None:
    """Check the first chats of each .jsonl file, before any job; `compose` checks them all. Raises BadRecord: none of
    them is a chat; it is the first one's."""
    if not isinstance(settings, ChatDataset) or not settings.path:
        return
    for path in files_of(Path(settings.path)):
        if format_of(path) in (".jsonl", ".jsonl.gz"):
            first_bad = None
            for line, record in islice(json_lines(path, keep_bad=True), FIRST):
                try:
                    chat_with_group(record, f"{path}: {line}", settings.columns)
                except BadRecord as error:
                    first_bad = first_bad or error
                else:
                    break
            else:
                if first_bad:
                    raise first_bad


def text_of(record: object, record_place: str, column: str) -> tuple[str, str | None]:
    """(the text of a record, the reason why it is dropped or None). Raises UserError: the record has no such column, or
    the column holds no text."""
    if not isinstance(record, dict) or column not in record:
        present = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        raise UserError(f"{record_place}: no column or field {column!r}; it has: {present}; see `text_column`")
    value = record[column]
    if value is not None and not isinstance(value, str):
        raise UserError(f"{record_place}: {column!r} must be text, not {type(value).__name__}")
    return value or "", None if value and value.strip() else "empty"


def contents(settings: ChatDataset | TextDataset) -> Iterator[tuple[bytes, dict, str | None]]:
    """(content hash, example, why it is dropped or None) of each record; the first of exact duplicates is kept.

    Of a record that is no chat the example is its `problem`, as a line.
    """
    seen, size = set(), 0
    for source, name, record in records(settings):
        record_place = f"{source}: {name.rpartition(':')[2]}"
        if isinstance(settings, ChatDataset):
            try:
                content, reason = chat_with_group(record, record_place, settings.columns)
            except BadRecord as error:
                yield hashlib.sha256(record_place.encode()).digest(), {"problem": str(error)}, error.reason
                continue
            body = content["messages"]
        else:
            body, reason = text_of(record, record_place, settings.text_column)
            content = {"text": body}
        try:
            digest = hashlib.sha256(json.dumps(body, ensure_ascii=False).encode()).digest()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which UTF-8 cannot hold
            raise UserError(f"{record_place}: holds characters that are not valid Unicode text; repair it") from error
        reason = reason or ("duplicate" if digest in seen else None)
        seen.add(digest)
        if reason is None and isinstance(settings, TextDataset) and settings.max_megabytes is not None:
            size += len(body.encode())
            if size > settings.max_megabytes * 1e6:
                logging.info(f"compose: {settings.max_megabytes:g} MB (max_megabytes) reached at {source}, {name}")
                return
        yield digest, {"id": name, "language": settings.kind, "source": source, **content}, reason


def split_identity(example: dict, digest: bytes) -> bytes:
    """A hash by which an example's split is chosen: of a chat's group, or of its first question, so that no question is
    asked in training and in test, whatever its case and spaces; else of its content."""
    if "group" in example:
        return text_digest(example["group"])
    for turn in example.get("messages", ()):
        if turn["role"] == "user":
            return text_digest(" ".join(turn["content"].casefold().split()))
    return digest


def sampling_rank(digest: bytes, seed: int) -> bytes:
    """A hash of content and seed; `max_samples` keeps the contents with the smallest ones."""
    return hashlib.sha256(f"{seed}:".encode() + digest).digest()


def highest_sampled_rank(settings: ChatDataset, seed: int) -> bytes:
    """The largest rank among the `max_samples` contents that are kept."""
    ranks = (sampling_rank(digest, seed) for digest, _, reason in contents(settings) if reason is None)
    return max(heapq.nsmallest(settings.max_samples, ranks), default=b"")


def compose(settings: ChatDataset | TextDataset, seed: int, out: Path) -> dict:
    """Write the examples of a dataset to one file per split in `out`; returns the manifest.

    Raises:
        UserError: the content has another hash than `sha256`, a file cannot be read, a text is malformed, or no example
            is left for training.
    """
    if settings.sha256 is not None and (actual := content_hash(Path(settings.path))) != settings.sha256:
        key = f"corpus.compose.{out.name}.sha256"
        raise UserError(f"{key}: the sha256 of {settings.path} is {actual}; restore the files, or correct the setting")
    sampled = isinstance(settings, ChatDataset) and settings.max_samples is not None
    highest = None
    if sampled:
        highest = highest_sampled_rank(settings, seed)
    tested, held_out = [], set()
    if settings.test_path:
        for digest, example, reason in contents(settings.model_copy(update={"path": settings.test_path})):
            if reason is None:
                tested.append(example)
                held_out.add(split_identity(example, digest))
        if not tested:
            raise UserError(f"corpus.compose.{out.name}.test_path: {settings.test_path}: no example to score in it")
        settings = settings.model_copy(update={"test": 0})
    written, untrained, dropped = Counter(), Counter(), {split: Counter() for split in SPLITS}
    progress = Progress(f"compose {out.name}", "examples")
    with ExitStack() as stack:
        write = {split: stack.enter_context(jsonl_writer(split_file(out, split))) for split in SPLITS}
        for example in tested:
            write["test"](example)
            written["test"] += 1
        for digest, example, reason in contents(settings):
            identity = split_identity(example, digest)
            split = split_of(identity, settings)
            if identity in held_out:
                reason = "in_test_path"
            if reason is None and sampled and sampling_rank(digest, seed) > highest:
                reason = "not_sampled"
            if reason:
                if "problem" in example and not any(counts[reason] for counts in dropped.values()):
                    logging.warning(f"warning: left out, and counted as {reason}: {example['problem']}")
                dropped[split][reason] += 1
                continue
            write[split](example)
            written[split] += 1
            untrained[split] += sum(turn.get("weight") == 0 for turn in example.get("messages", ()))
            progress.add()
        if not written["train"]:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sum(dropped.values(), Counter()).items())
            origin = settings.path or settings.hub
            raise UserError(f"{origin}: no example left to train on; dropped: {reasons or 'none'}")
    progress.end()
    facts = {"kind": settings.kind, "examples": {split: written[split] for split in SPLITS}, "dropped": dropped}
    if untrained.total():
        facts["untrained_answers"] = untrained
    return write_manifest(out, [split_file(out, split).name for split in SPLITS], **facts)
