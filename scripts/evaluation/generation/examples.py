"""The examples that suites take their prompts from, whatever the model: test examples, chats split into prompt and
reference, the cases of a file.

chats = pick_examples(Path("results/corpus/compose/instruct/test.jsonl.zst"), documents=200)
prompt, reference = split_chat(chats[0])
"""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import NAME, read_manifest
from scripts.common.text import is_target
from scripts.experiment.machine_files import read_yaml
from scripts.languages import syntaxes


class Infill(NamedTuple):
    """A prompt for fill-in-the-middle, in the order prefix, suffix, middle: what stands around the model's text."""

    prefix: str
    suffix: str


Prompt = str | Infill | list[dict]  # a text to continue, a text to fill in, a chat to answer with one more turn


class Case(NamedTuple):
    """A prompt for code, and the keywords that the code should have."""

    id: str
    language: str
    prompt: str
    keywords: list[str]


def test_hashes(datasets: Path, names: list[str], suite: str) -> dict[str, str]:
    """The sha256 of each dataset's test file. Raises UserError: a dataset does not exist."""
    hashes = {}
    for dataset in names:
        if not (datasets / dataset / NAME).is_file():
            known = ", ".join(sorted(path.parent.name for path in datasets.glob(f"*/{NAME}"))) or "none"
            raise UserError(f"evaluation.{suite}.datasets: no {dataset!r} in {datasets}; it has: {known}")
        hashes[dataset] = read_manifest(datasets / dataset)["files"]["test.jsonl.zst"]["sha256"]
    return hashes


def pick_examples(path: Path, documents: int, without: Sequence[str] | None = None) -> list[dict]:
    """At most `documents` examples of each language, those with the smallest sha256 of their id, sorted by id.
    `without`: ids of examples that are never picked."""
    kept = defaultdict(list)  # language → heap with the largest hash on top
    for number, record in enumerate(read_jsonl(path)):
        if record["id"] in (without or ()):
            continue
        heap = kept[record["language"]]
        item = (-int.from_bytes(hashlib.sha256(record["id"].encode()).digest()), number, record)
        if len(heap) < documents:
            heapq.heappush(heap, item)
        else:
            heapq.heappushpop(heap, item)
    records = [record for _, _, record in chain.from_iterable(kept.values())]
    return sorted(records, key=lambda record: record["id"])


def shortened(examples: list[dict], characters: int) -> list[dict]:
    """The examples with texts cut to whole lines of at most so many characters; chats stay whole."""
    cut = []
    for example in examples:
        text = example.get("text")
        if text is not None and len(text) > characters:
            last_line = text.rfind("\n", 0, characters) + 1
            example = example | {"text": text[: last_line or characters]}
        cut.append(example)
    return cut


def split_chat(chat: dict) -> tuple[list[dict], str]:
    """(prompt, reference): all messages before the last answer that is not empty and trained on, and that answer."""
    messages = chat["messages"]
    last = max(place for place, turn in enumerate(messages) if is_target(turn) and turn["content"].strip())
    return messages[:last], messages[last]["content"]


def solved_before(prompt: list[dict], solved: list[dict]) -> list[dict]:
    """A prompt with the turns of solved chats before its own, behind its system message."""
    system_turns = next((place for place, turn in enumerate(prompt) if turn["role"] != "system"), len(prompt))
    turns = []
    for chat in solved:
        for turn in with_answer(*split_chat(chat)):
            if turn["role"] != "system":
                turns.append(turn)
    return [*prompt[:system_turns], *turns, *prompt[system_turns:]]


def with_answer(prompt: list[dict], reference: str) -> list[dict]:
    return [*prompt, {"role": "assistant", "content": reference}]


def chat_text(messages: list[dict]) -> str:
    """All messages of a chat as one text."""
    return "\n".join(message["content"] for message in messages)


def text_of(example: dict) -> str:
    """The text of a training example."""
    if "messages" in example:
        return chat_text(example["messages"])
    return example["text"]


def read_cases(path: Path) -> list[Case]:
    """The cases of a file. Raises UserError: there is none, or one is incomplete or in a language without a grammar."""
    cases = []
    for name, case in read_yaml(path).items():
        if not isinstance(case, dict) or set(case) != {"language", "prompt", "keywords"}:
            raise UserError(f"{path}: {name}: a case must have `language`, `prompt` and `keywords`")
        if case["language"] not in syntaxes():
            raise UserError(f"{path}: {name}.language: no {case['language']!r} here; known: {', '.join(syntaxes())}")
        if not isinstance(case["prompt"], str):
            raise UserError(f"{path}: {name}.prompt: must be text, not {case['prompt']!r:.40}")
        words = case["keywords"]
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise UserError(f"{path}: {name}.keywords: must be a list of words, not {words!r:.40}")
        cases.append(Case(str(name), **case))
    if not cases:
        raise UserError(f"{path}: no cases in it")
    return cases
