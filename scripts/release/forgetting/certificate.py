"""The certificate that a source was forgotten: what was removed, and that no shard holds it.

evidence = collect(view, source, jobs)            # before: the documents, and that the search finds them
write_certificate(view, evidence)                 # after: that it finds none

Shards are searched for the names of the source's documents, and for lines of their text in the tokens. A line counts if
it has 40 characters or more between its white space and occurs in no document of any other source. Each piece of a
shard is decoded by itself, so a line that the end of a piece cuts is not seen.
"""

import datetime
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter
from tokenizers import Tokenizer

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, read_jsonl, sha256_file, write_json, write_jsonl
from scripts.corpus.formats.filter_writer import DOCUMENTS
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST, PACKED_SPLITS, SPLITS, raw_manifest, split_file
from scripts.release.forgetting.lineage import Lineage, examples_of, lineage
from scripts.sources.tables.source import Source
from scripts.tokens.packing.shards import Shards

LIST = "documents.jsonl.zst"


SHORTEST = 40  # characters; shorter lines, as `return result`, are everywhere
BATCH = 1024  # pieces that are decoded at once


@dataclass(frozen=True)
class SearchResult:
    """What a folder of shards holds of a source.

    Attributes:
        folder: of the shards.
        manifest: the sha256 of its manifest, which holds the hashes of its files.
        documents: of all sources.
        names: documents of the source, by their names.
        lines: pieces with a line that only the source has.
    """

    folder: str
    manifest: str
    documents: int
    names: int
    lines: int


def line_digests(text: str) -> Iterator[bytes]:
    """8 bytes of a hash of each line that counts."""
    for line in text.splitlines():
        if len(line := line.strip()) >= SHORTEST:
            yield hashlib.sha256(line.encode()).digest()[:8]


def own_lines(documents: Iterable[dict], others: Iterable[dict]) -> set[bytes]:
    """The digests of the lines of `documents` that occur in none of `others`; both have a `text` each."""
    lines = {digest for document in documents for digest in line_digests(document["text"])}
    for other in others:
        lines.difference_update(line_digests(other["text"]))
    return lines


def search(folder: Path, tokenizer: Tokenizer, source: str, lines: set[bytes]) -> SearchResult:
    """Search all splits of a folder of shards.

    Raises:
        UserError: files differ in size from their manifest.
    """
    documents = names = pieces = 0
    for split in PACKED_SPLITS:
        shards = Shards(folder, split)
        documents += len(shards.names)
        names += sum(name.startswith(f"{source}/") for name in shards.names)
        pieces += sum(not lines.isdisjoint(line_digests(text)) for text in texts(shards, tokenizer))
    return SearchResult(str(folder), sha256_file(folder / MANIFEST), documents, names, pieces)


def texts(shards: Shards, tokenizer: Tokenizer) -> Iterator[str]:
    """The text of each piece, control tokens included."""
    flat = shards.tokens.reshape(-1)
    starts = shards.pieces[:, 0].astype(np.int64) * shards.length + shards.pieces[:, 1]
    ends = starts + shards.pieces[:, 2]
    for first in range(0, len(starts), BATCH):
        chosen = zip(starts[first : first + BATCH], ends[first : first + BATCH], strict=True)
        yield from tokenizer.decode_batch(
            [flat[start:end].tolist() for start, end in chosen], skip_special_tokens=False
        )


class Evidence(BaseModel):
    """What is known before the source leaves; kept in `pending.json` until the certificate is written.

    Attributes:
        archive: sha256 of the archive's file and of its unpacked bytes, as its manifest has them.
        documents: of the source, as the filter kept them; their paths and hashes are in documents.jsonl.zst.
        also_elsewhere: those of them whose very text another source has too, where it stays.
        own_lines: lines of them that no other source has.
        before: what the search finds in the shards before.
        jobs: what has to run again.
        checkpoints: the work folders of the stages among these, which are removed.
    """

    model_config = ConfigDict(extra="forbid")

    source: Source
    archive: dict
    documents: int
    documents_sha256: str
    also_elsewhere: int
    own_lines: int
    lineage: Lineage
    before: list[SearchResult]
    jobs: list[str]
    checkpoints: list[str]


def documents_of(view: ExperimentView, source: str) -> Iterator[dict]:
    """The documents of a source that the filter kept."""
    return read_jsonl(view.layout.filtered(source) / DOCUMENTS)


def other_documents(view: ExperimentView, source: str) -> Iterator[dict]:
    """The texts that may stay: of all other sources, and of the datasets that are the user's own."""
    for name in view.sources:
        if name != source and (view.layout.filtered(name) / DOCUMENTS).is_file():
            yield from documents_of(view, name)
    for name in view.own_datasets:
        for path in (split_file(view.layout.dataset(name), split) for split in SPLITS):
            for example in read_jsonl(path) if path.is_file() else ():
                messages = example.get("messages") or []
                yield {"text": "\n".join([example.get("text") or "", *(message["content"] for message in messages)])}


def shard_folders(view: ExperimentView) -> list[Path]:
    """All folders of shards in the results, whether a stage of the experiment uses them or not."""
    places = (view.layout.shards("x", 1).parent, view.layout.mixture("x", 1).parent)
    return sorted(path.parent for place in places for path in place.glob("*/manifest.json"))


def search_all(view: ExperimentView, source: str) -> tuple[set[bytes], list[SearchResult]]:
    """(the lines that only the source has, what each folder of shards holds of it)."""
    lines = own_lines(documents_of(view, source), other_documents(view, source))
    folders = shard_folders(view)
    if not folders:
        return lines, []
    tokenizer = Tokenizer.from_file(str(view.layout.tokenizer / "tokenizer.json"))
    return lines, [search(folder, tokenizer, source, lines) for folder in folders]


def collect(view: ExperimentView, source: Source, jobs: list[str]) -> Evidence:
    """What is known of a source while it is still there; its list of documents is written.

    Raises:
        UserError: it was not filtered here.
    """
    if not (view.layout.filtered(source.name) / DOCUMENTS).is_file():
        folder = view.layout.filtered(source.name)
        raise UserError(
            f"{folder}: missing, so it is unknown what would be removed; run `snakemake --profile NAME data` first"
        )
    path = view.layout.forgotten(source.name) / LIST
    elsewhere = {document["sha256"] for document in other_documents(view, source.name) if "sha256" in document}
    listed = [{"path": document["path"], "sha256": document["sha256"]} for document in documents_of(view, source.name)]
    write_jsonl(path, listed)
    lines, before = search_all(view, source.name)
    archive = read_json(raw_manifest(source.raw_name)) if raw_manifest(source.raw_name).is_file() else {}
    stages = [job.split(" ")[1] for job in jobs if job.startswith("train")]
    return Evidence(
        source=source,
        archive={"file": f"{source.raw_name}.tar.zst", **archive},
        documents=len(listed),
        documents_sha256=sha256_file(path),
        also_elsewhere=sum(document["sha256"] in elsewhere for document in listed),
        own_lines=len(lines),
        lineage=lineage(view, source.name),
        before=before,
        jobs=jobs,
        checkpoints=sorted(str(folder) for stage in stages for folder in view.layout.work(stage).glob("*")),
    )


def check_gone(view: ExperimentView, source: str) -> list[SearchResult]:
    """Search everything that was made again; what the shards hold, which is nothing.

    Raises:
        UserError: a dataset or a folder of shards still holds the source.
    """
    for name in view.datasets:
        if name not in view.own_datasets and (counts := examples_of(view.layout.dataset(name), source)):
            raise UserError(f"{view.layout.dataset(name)}: still holds {source}: {counts}; not certified")
    in_use = {*map(str, view.rows.packed()), *map(str, view.rows.mixed())}
    _, after = search_all(view, source)
    for rows in after:
        if rows.names or rows.lines:
            remedy = "" if rows.folder in in_use else "; no stage uses it: remove it and run this again"
            raise UserError(
                f"{rows.folder}: still holds {source}: {rows.names} documents by name, {rows.lines} pieces by their "
                f"text; not certified{remedy}"
            )
    return after


def write_certificate(view: ExperimentView, evidence: Evidence, after: list[SearchResult], remains: list[str]) -> Path:
    """Write certificate.json and certificate.md; returns the path of the latter.

    Args:
        after: what `check_gone` found.
        remains: where copies of the source may still lie.
    """
    folder = view.layout.forgotten(evidence.source.name)
    content = {
        "experiment": view.experiment.experiment,
        "forgotten_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **evidence.model_dump(mode="json"),
        "after": TypeAdapter(list[SearchResult]).dump_python(after, mode="json"),
        "remains": remains,
        "evaluation_sha256": sha256_file(view.layout.evaluation) if view.layout.evaluation.is_file() else None,
    }
    write_json(folder / "certificate.json", content)
    digest = hashlib.sha256((folder / "certificate.json").read_bytes()).hexdigest()
    path = folder / "certificate.md"
    with atomic(path) as temporary:
        temporary.write_text(markdown(content, digest))
    return path


def markdown(content: dict, digest: str) -> str:
    """The certificate for people."""
    source, archive = content["source"], content["archive"]
    lines = [
        f"# {source['name']} is not in experiment {content['experiment']} any more",
        "",
        f"{content['forgotten_at']}. The same as JSON: `certificate.json`, sha256 `{digest}`.",
        "",
        f"- Source: {source['kind']} `{source['location']}`, pin `{source['pin']}`, licence {source['licence']}.",
        f"- Removed archive: `{archive['file']}`, sha256 `{archive.get('sha256', 'not known')}`.",
        f"- Documents that left: {content['documents']:,}, listed with their hashes in `{LIST}` (sha256"
        f" `{content['documents_sha256']}`).",
        f"- Of these, {content['also_elsewhere']:,} have the same text in another source, where they stay.",
        "",
        "## What held it",
        "",
        *(f"- {line}" for line in Lineage(**content["lineage"]).lines()),
        "",
        "## The search in the shards",
        "",
        f"By the names of documents, and by {content['own_lines']:,} lines of 40 characters or more that no other"
        " source has. Each piece was decoded; lines that the end of a piece cuts are not seen.",
        "",
        "| folder | | documents of all sources | documents of it, by name | pieces with a line of it | manifest |",
        "|---|---|---|---|---|---|",
    ]
    for label in ("before", "after"):
        for rows in content[label]:
            cells = f"{rows['documents']:,} | {rows['names']:,} | {rows['lines']:,} | `{rows['manifest'][:16]}`"
            lines.append(f"| {rows['folder']} | {label} | {cells} |")
    lines += ["", "## Made again", "", ", ".join(content["jobs"]) + ".", "", "## Where copies may still lie", ""]
    return "\n".join([*lines, *(f"- {line}" for line in content["remains"])]) + "\n"
