"""Filter the archives of sources: keep files that are text, in a configured language, and of good quality.

    python -m scripts.corpus.filter --settings '{"min_lines": 10}' --code 3f0c9a41d2b86e75 \\
        --sources '{"name": "zstd", "archive": "data/raw/zstd-9d1bc2b4a1f0.tar.zst", "licence": ""}' ... \\
        --filtered results/corpus/filter --shard results/corpus/filter/_0

Settings that are left out have their defaults. A file is dropped for the first of these reasons that applies:
extension, folder, size, encoding, binary, bidirectional, replacement, mojibake, too_short, too_long, few_lines,
long_line, mean_line, alphanumeric, generated, encoded_data, licence or licence_unknown (with `licences`),
contaminated (with `decontaminate` and --benchmarks), redaction (without its secrets it would no
longer parse). Every regular file of the archive is either kept or listed in the rejects; links are skipped.
Members that `fetch` left out of the archive (duplicates, names that are not UTF-8, links that leave the tree)
are in the rejects too, with the reason odd_member.

Secrets and personal data are replaced by placeholders unless `secrets: keep` is set; the manifest counts them by kind.
A document's licence is that of its header, else that of a licence file in a folder around it, else that of its source.
Documents are in the order of the archive, which is sorted by path.

Each source has a folder below --filtered. In it `made_from.json` says from what it was made: the code, the settings,
its archive's content, its licence and the benchmarks. Up to 512 sources a job has one source. The jobs of more have a
shard of them; a source whose folder was made from the same and is whole is kept as it is. So a changed pin filters that
source alone, and after a failure or a kill the next try goes on. The shard's manifest lists the files of all its
sources.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file
from scripts.common.manifest import NAME, renew, write_shard_manifest
from scripts.common.options import command
from scripts.common.progress import Progress
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, FilterWriter, funnel
from scripts.corpus.formats.tar_reader import members
from scripts.corpus.heuristics.encodings import code_cells, decode_detected
from scripts.corpus.heuristics.header_language import header_language
from scripts.corpus.heuristics.paths import FolderLicences, check_path
from scripts.corpus.heuristics.quality import Dropped, check_characters, check_quality, decode
from scripts.corpus.secrets.replace import SecretReplacer
from scripts.experiment.layout import Layout
from scripts.experiment.settings.corpus import Filter
from scripts.experiment.settings.record import to_json
from scripts.languages import BY_CONTENT
from scripts.licences.expressions import UNKNOWN, permissive
from scripts.licences.recognition import header_licence, tagged_licence

WORDS = 10  # of a sequence that a document must not share with a problem of a benchmark
BATCH = 1 << 19  # bytes of documents whose secrets are replaced together
LITTLE = 0.05  # of a source's bytes; a warning says if less is kept
NOTEBOOK = 1 << 25  # bytes of a notebook that are read, pictures included
LONGEST_RUN = 200  # characters of an overlap with a benchmark that the rejects show


def extension_of(path: str) -> str:
    """The extension with its dot, "" if there is none; a file named `.py` is hidden and has no extension."""
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""


def language_of(path: str, content: memoryview | None, settings: Filter) -> str | None:
    """The language of a file, None if its extension is not configured; a header too large to be read counts as C."""
    known, extension = settings.language_by_ending, extension_of(path)
    # a whole name, as Makefile, has no dot in front
    language = (
        known.get(extension) or known.get(extension.lower()) or known.get(path[path.rfind("/") + 1 :].lstrip("."))
    )
    if language == BY_CONTENT:
        if content is None:
            return "c"
        return header_language(bytes(content))
    return language


def within_limit(path: str, size: int, content: memoryview | None, settings: Filter) -> memoryview | None:
    """The content of a file, or None where it is too large; of a notebook it is the code that counts, later."""
    if size >= settings.max_bytes and extension_of(path) != ".ipynb":
        return None
    return content


def accept(
    path: str, language: str | None, size: int, content: memoryview | None, settings: Filter
) -> tuple[bytes, str, str | None]:
    """The (UTF-8 bytes, text, encoding that it was converted from) of a file that passes all filters.

    Args:
        language: that of the file's extension; None if the extension is not configured.
        content: None if the file is larger than what is read.

    Raises:
        Dropped: a filter rejects the file.
    """
    if language is None:
        raise Dropped("extension", extension_of(path))
    check_path(path, settings.unread_folders)
    if content is None:
        raise Dropped("size", f"{size} bytes")
    raw, text, encoding = decode_or_convert(bytes(content), settings.encodings)
    if language == "jupyter":  # pictures and outputs do not count
        text = code_cells(text)
        raw = text.encode()
        if len(raw) >= settings.max_bytes:
            raise Dropped("size", f"{len(raw)} bytes of code")
    check_characters(raw, text)
    check_quality(raw, text, settings)
    return raw, text, encoding


def decode_or_convert(content: bytes, encodings: list[str]) -> tuple[bytes, str, str | None]:
    """A file's content as (UTF-8 bytes, text, encoding that it was converted from, None for UTF-8)."""
    try:
        return *decode(content), None
    except Dropped as drop:
        if not encodings:
            raise
        try:
            encoding, text = decode_detected(content, encodings)
        except ValueError as error:
            raise Dropped(drop.reason, f"{drop.detail}; {error}") from error
        return text.encode(), text, encoding


def contamination_check(settings: Filter, benchmarks: Sequence[Path]) -> Callable[[str], None]:
    """A function that raises Dropped where a text shares a run of words with a problem of the benchmarks."""
    if not settings.decontaminate:
        return lambda text: None
    # imported here: the compiled kernel takes longer to import than a typical source to filter
    from scripts.corpus.similarity.overlaps import OverlapSearch, read_problems

    if not benchmarks:
        raise UserError("--benchmarks: required with `decontaminate`")
    search = OverlapSearch(read_problems(benchmarks), WORDS)

    def check(text: str) -> None:
        overlap = search.longest_overlap(text)
        if overlap:
            problem, words = overlap
            run = " ".join(words)[:LONGEST_RUN]
            raise Dropped("contaminated", f"{problem.id} of {problem.dataset}: {len(words)} words: {run}")

    return check


ATTRIBUTES = {"linguist-generated": "generated", "linguist-vendored": "folder"}  # → the reason of the reject


def licence_of(raw: bytes, path: str, licence: str, folders: FolderLicences, settings: Filter) -> str:
    """The licence of a file, by the nearest statement: a file of this name and `.license`, its own header or tag, what
    REUSE's tables say, a licence file in a folder around it, its source.

    Args:
        licence: of the source by the sources table; if NOASSERTION, the archive's own licence file says it.

    Raises:
        Dropped: `licence_unknown`, or `licence` where it is known and not allowed.
    """
    if licence.upper() == UNKNOWN and folders.root:
        licence = folders.root
    declared = folders.declared
    own = declared.beside.get(path) or header_licence(raw) or tagged_licence(raw)
    expression = own or declared.licence(path) or folders.below_root(path) or licence
    if settings.licences is not None and not permissive(expression, {name.lower() for name in settings.licences}):
        raise Dropped("licence_unknown" if expression.upper() == UNKNOWN else "licence", expression)
    return expression


def keep_all(documents: list[tuple[dict, bytes]], secrets: SecretReplacer | None, result: FilterWriter) -> None:
    """Keep documents, each with its UTF-8, their secrets replaced first.

    Between other steps the tables of the expressions for secrets would leave the processor's cache.
    """
    clean = []
    for document, raw in documents:
        try:
            clean.append((document, secrets.replace(document, raw) if secrets else raw))
        except Dropped as drop:
            place = [document[key] for key in ("path", "source", "language")]
            result.drop(*place, drop.reason, drop.detail, len(raw))
    for document, raw in clean:
        result.keep(document | {"sha256": hashlib.sha256(raw).hexdigest()}, len(raw))


def filter_archive(
    archive: Path,
    source: str,
    settings: Filter,
    result: FilterWriter,
    benchmarks: Sequence[Path] = (),
    licence: str = "NOASSERTION",
) -> None:
    """Filter every file of `archive` and pass it to `result`.

    Args:
        archive: a tar.zst file; the .json file beside it holds the sha256 of the unpacked bytes.
        benchmarks: files of problems that no document may share text with, for `settings.decontaminate`.
        licence: of the source, an SPDX expression; if empty, documents without a licence of their own have none.

    Raises:
        UserError: the archive is missing, damaged, or differs from its .json file.
    """
    manifest = read_json(archive.with_name(archive.name.removesuffix(".tar.zst") + ".json"))
    secrets = None
    if settings.secrets == "replace":
        secrets = SecretReplacer()
    check_contamination, encodings = contamination_check(settings, benchmarks), Counter()
    folders, licences = FolderLicences.of(archive), Counter()
    waiting, waiting_bytes = [], 0
    progress = Progress(f"filter {source}", "files", manifest["files"])
    limit = settings.max_bytes
    if "jupyter" in settings.read_languages():
        limit = max(limit, NOTEBOOK)
    for path, size, content in members(archive, manifest["sha256"], limit):
        content = within_limit(path, size, content, settings)
        language = language_of(path, content, settings)
        try:
            attribute = folders.declared.attribute(path)
            if attribute and language:
                raise Dropped(ATTRIBUTES[attribute], f".gitattributes says {attribute}")
            raw, text, encoding = accept(path, language, size, content, settings)
            file_licence = licence_of(raw, path, licence, folders, settings)
            check_contamination(text)
        except Dropped as drop:
            result.drop(path, source, language, drop.reason, drop.detail, size)
        else:
            document = {"text": text, "path": path, "source": source, "language": language}
            document |= {"licence": file_licence} if file_licence else {}
            licences[file_licence or "of the source"] += 1
            if encoding:
                document["encoding"] = encoding
                encodings[encoding] += 1
            waiting.append((document, raw))
            waiting_bytes += len(raw)
            if waiting_bytes > BATCH:
                keep_all(waiting, secrets, result)
                waiting, waiting_bytes = [], 0
        progress.add()
    keep_all(waiting, secrets, result)
    progress.end()
    result.filter_facts["licences"] = licences
    if settings.encodings:
        result.filter_facts["converted"] = encodings
    if secrets:
        result.filter_facts["secrets"] = secrets.facts()
    for fault, count in manifest.get("skipped", {}).items():
        names = manifest.get("skipped_names", {}).get(fault, [])
        for name in [*names, *[""] * (count - len(names))]:  # the manifest counts all, but names only the first
            result.drop(name, source, language_of(name, None, settings), "odd_member", fault)


def check_kept(source: str, result: FilterWriter) -> None:
    """Check that something of a source is kept. Raises UserError: nothing is, though it has files."""
    if result.dropped and not result.kept:
        counts = result.facts()["dropped"]
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common(3))
        raise UserError(
            f"source {source}: none of its {counts.total():,} files is kept ({reasons}); change corpus.filter, as"
            " `languages` or `encodings`, or take it out of the sources table"
        )


def warn_of_little(source: str, result: FilterWriter) -> None:
    """Log a warning if hardly anything of a source is kept: often its languages are not in `extensions`."""
    if result.kept_share < LITTLE:
        reasons = ", ".join(f"{reason} {size:,}" for reason, size in result.dropped_bytes.most_common(3))
        logging.warning(
            f"filter {source}: keeps {result.kept_share:.1%} of its bytes, {result.kept.total():,} of"
            f" {result.kept.total() + result.dropped.total():,} files; bytes dropped by reason: {reasons}"
        )


class Member(NamedTuple):
    """A source to filter; its licence is empty where that decides nothing."""

    name: str
    archive: Path
    licence: str

    @classmethod
    def from_json(cls, text: str) -> "Member":
        member = json.loads(text)
        return cls(member["name"], Path(member["archive"]), member["licence"])


def origin_of(member: Member, settings: Filter, code: str, benchmarks: Sequence[Path]) -> dict:
    """From what a member's documents are made."""
    manifest = member.archive.with_name(f"{member.archive.name.removesuffix('.tar.zst')}.json")
    if not member.archive.exists():
        raise UserError(f"{member.archive}: no such file")
    # the location says nothing about the content
    archive = {key: value for key, value in read_json(manifest).items() if key != "location"}
    return {
        "archive": hashlib.sha256(json.dumps(archive, sort_keys=True).encode()).hexdigest(),
        "licence": member.licence,
        "benchmarks": [sha256_file(path) for path in benchmarks],
        "settings": to_json(settings),
        "code": code,
    }


def filter_shard(
    sources: list[Member],
    settings: Filter,
    code: str,
    filtered: Path,
    shard: Path | None = None,
    benchmarks: Sequence[Path] = (),
) -> None:
    """Filter each source into its folder below `filtered`, and write the list of all their files to `shard`."""
    new = 0
    for member in sources:
        folder = filtered / member.name

        def write_documents(member: Member = member, folder: Path = folder) -> None:
            with funnel(folder) as result:
                filter_archive(member.archive, member.name, settings, result, benchmarks, member.licence)
                if not shard:  # of so many sources a shard holds some are empty, and only named
                    check_kept(member.name, result)
                warn_of_little(member.name, result)

        try:
            new += renew(folder, origin_of(member, settings, code, benchmarks), write_documents)
        except UserError as error:
            if not shard:
                raise
            fetched = Layout(filtered.parents[1]).fetched(shard.name) / NAME
            again = f"if its archive is at fault, delete {fetched} too: the next run then fetches it again"
            raise UserError(f"source {member.name}: {error}; {again}") from error
    if shard:
        write_shard_manifest(shard, [filtered / member.name for member in sources], (DOCUMENTS, REJECTS, NAME))
        logging.info(f"filter {shard.name}: {new} sources filtered, {len(sources) - new} kept as they were")


if __name__ == "__main__":
    run(command(filter_shard))
