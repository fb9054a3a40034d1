"""One dataset out of the split documents: plain or fill-in-the-middle code, or code-analysis chats.

    python -m scripts.corpus.compose --splits results/corpus/split --out results/corpus/compose/code \\
        --settings '{"kind": "code", "fim_rate": 0.5, "seed": 42}'
    python -m scripts.corpus.compose --splits results/corpus/split --out results/corpus/compose/instruct \\
        --settings '{"kind": "instruct", "language": "zh", "max_characters": 50000, "seed": 42}'

Datasets of kind `chat` and `text` come from no repository and take no --splits: scripts/corpus/formats/external.py.

Fill-in-the-middle follows Bavarian et al. (arXiv 2207.14255): two split points, uniform over the characters. `pack`
puts prefix, suffix and middle in the order and between the tokens of Qwen2.5-Coder. Only `train` is changed so.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import jsonl_writer, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats import external
from scripts.corpus.instruct.chat import messages
from scripts.corpus.instruct.facts import facts_of
from scripts.corpus.split import SPLITS


def code(document: dict, split: str, options: dict) -> dict:
    """A document's content as an example: its text, or, for `fim_rate` of the training documents, its three parts."""
    text = document["text"]
    digest = hashlib.sha256(f"{options['seed']}:{document['sha256']}".encode()).digest()
    draw, first, second = (int.from_bytes(digest[at : at + 8]) for at in (0, 8, 16))
    if split != "train" or draw / 2**64 >= options["fim_rate"]:
        return {"text": text}
    # the remainder of 64 uniform bits is uniform to one part in 2^44 for a text of 2^20 characters
    start, end = sorted(point % (len(text) + 1) for point in (first, second))
    return {"prefix": text[:start], "suffix": text[end:], "middle": text[start:end]}


def instruct(document: dict, options: dict) -> dict | str:
    """A document's content as a chat, or the reason why it makes none: too_long, unparsed, no_facts."""
    text, language = document["text"], document["language"]
    if len(text) > options["max_characters"]:
        return "too_long"
    facts = facts_of(text, document["path"], language)
    if facts is None:
        return "unparsed"
    if not (facts.types or facts.functions or facts.imports or facts.sentence):
        return "no_facts"
    return {"messages": messages(text, facts, language, options["language"], options.get("system"))}


def examples(documents: Iterator[dict], split: str, options: dict, dropped: Counter) -> Iterator[dict]:
    """Yield the examples of a split; what makes none is counted in `dropped` by its reason."""
    for document in documents:
        content = code(document, split, options) if options["kind"] == "code" else instruct(document, options)
        if isinstance(content, str):
            dropped[content] += 1
        else:
            name = f"{document['source']}/{document['path']}"
            yield {"id": name, "language": document["language"], "source": document["source"], **content}


def compose(folder: Path, options: dict, out: Path) -> dict:
    """Write the examples of all splits in `folder` to `out`; the manifest.

    Args:
        options: the dataset's settings (`corpus.compose.NAME`) and `seed`.

    Raises:
        UserError: the documents are not what their manifest says.
    """
    counts = read_manifest(folder)["documents"]
    made, dropped = Counter(), {split: Counter() for split in SPLITS}
    progress = Progress(f"compose {out.name}", "examples", sum(counts.values()))
    for split in SPLITS:
        with jsonl_writer(out / f"{split}.jsonl.zst") as write:
            for example in examples(read_jsonl(folder / f"{split}.jsonl.zst"), split, options, dropped[split]):
                write(example)
                made[split] += 1
                progress.add()
    progress.end()
    facts = {"kind": options["kind"], "examples": {split: made[split] for split in SPLITS}, "dropped": dropped}
    return write_manifest(out, [f"{split}.jsonl.zst" for split in SPLITS], **facts)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--splits", type=Path, help="corpus/split; not for the kinds chat and text")
    arguments.add_argument("--settings", type=settings, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    if given.settings.get("kind") in external.KINDS:
        external.compose(given.settings, given.out)
    elif given.splits:
        compose(given.splits, given.settings, given.out)
    else:
        raise UserError("--splits: required for the kinds code and instruct")


if __name__ == "__main__":
    run(main)
