"""Make one dataset from the split documents: code, or code-analysis chats.

    python -m scripts.corpus.compose --splits results/corpus/split --seed 42 --out results/corpus/compose/code \\
        --settings '{"kind": "code", "fim_rate": 0.5}'
    python -m scripts.corpus.compose --splits results/corpus/split --seed 42 --out results/corpus/compose/instruct \\
        --settings '{"kind": "instruct", "language": "zh"}'

Datasets of kind `chat` and `text` come from the user's own files and take no --splits:
scripts/corpus/formats/own_datasets.py.

Code is written as it is. Fill-in-the-middle is made by `pack`, which knows what fits in a row, by the rates that the
manifest hands on.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.common.cli import UserError, parser, run
from scripts.common.files import jsonl_writer, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.corpus.formats import own_datasets
from scripts.corpus.instruct.chat import messages
from scripts.corpus.instruct.facts import facts_of
from scripts.experiment.layout import SPLITS, split_file
from scripts.experiment.settings.corpus import CodeDataset, Dataset, InstructDataset, OwnDataset
from scripts.experiment.settings.record import parse_json


def instruct_example(document: dict, settings: InstructDataset) -> dict | str:
    """A chat about a document, or the reason why it is left out: too_long, unparsed, no_facts."""
    text, language = document["text"], document["language"]
    if len(text) > settings.max_characters:
        return "too_long"
    facts = facts_of(text, document["path"], language)
    if facts is None:
        return "unparsed"
    if not (facts.types or facts.functions or facts.imports or facts.sentence):
        return "no_facts"
    return {"messages": messages(text, facts, language, settings.language, settings.system)}


def examples(documents: Iterator[dict], settings: CodeDataset | InstructDataset, dropped: Counter) -> Iterator[dict]:
    """Yield the examples of a split; documents that are left out are counted by reason in `dropped`."""
    for document in documents:
        if isinstance(settings, CodeDataset):
            content = {"text": document["text"]}
        else:
            content = instruct_example(document, settings)
        if isinstance(content, str):
            dropped[content] += 1
        else:
            name = f"{document['source']}/{document['path']}"
            yield {"id": name, "language": document["language"], "source": document["source"], **content}


def compose(folder: Path, settings: CodeDataset | InstructDataset, seed: int, out: Path) -> dict:
    """Write the examples of all splits in `folder` to `out`; returns the manifest.

    Raises:
        UserError: the documents differ from their manifest.
    """
    counts = read_manifest(folder)["documents"]
    written, dropped = Counter(), {split: Counter() for split in SPLITS}
    progress = Progress(f"compose {out.name}", "examples", sum(counts.values()))
    for split in SPLITS:
        documents = read_jsonl(split_file(folder, split))
        with jsonl_writer(split_file(out, split)) as write:
            for example in examples(documents, settings, dropped[split]):
                write(example)
                written[split] += 1
                progress.add()
    progress.end()
    facts = {"kind": settings.kind, "examples": {split: written[split] for split in SPLITS}, "dropped": dropped}
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
    arguments.add_argument("--out", type=Path, required=True, help="folder for a file per split")
    given = arguments.parse_args()
    if isinstance(given.settings, OwnDataset):
        own_datasets.compose(given.settings, given.seed, given.out)
    elif given.splits:
        compose(given.splits, given.settings, given.seed, given.out)
    else:
        raise UserError("--splits: required for the kinds code and instruct")


if __name__ == "__main__":
    run(main)
