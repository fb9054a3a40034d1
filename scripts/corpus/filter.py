"""Filter one source's archive: keep files that are text, in a configured language, and of good quality.

    python -m scripts.corpus.filter --archive data/raw/NAME.tar.zst --source NAME \\
        --settings '{"min_lines": 10}' --out results/corpus/filter/NAME

Settings that are left out have their defaults. A file is dropped for the first of these reasons that applies:
extension, folder, size, encoding, binary, too_short, too_long, few_lines, long_line, mean_line, alphanumeric,
generated, encoded_data. Every regular file of the archive is either kept or listed in the rejects; links are skipped.
What the fetch left out of the archive (duplicates, names that are not UTF-8, links that leave the tree) is in the
rejects too, with the reason odd_member. Documents are in the order of the archive, which is
sorted by path.
"""

import hashlib
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.files import read_json
from scripts.common.progress import Progress
from scripts.corpus.formats.funnel import Funnel, funnel
from scripts.corpus.formats.tar_reader import members
from scripts.corpus.heuristics.header_language import header_language
from scripts.corpus.heuristics.quality import Dropped, check_quality, decode
from scripts.experiment.settings.corpus import BY_CONTENT, Filter


def extension_of(path: str) -> str:
    """The extension with its dot, "" if there is none; a file named `.py` is hidden and has no extension."""
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""


def language_of(path: str, content: memoryview | None, settings: Filter) -> str | None:
    """The language of a file, None if its extension is not configured; a header whose content is not read is C."""
    language = settings.extensions.get(extension_of(path))
    if language == BY_CONTENT:
        return "c" if content is None else header_language(bytes(content))
    return language


def accept(
    path: str, language: str | None, size: int, content: memoryview | None, settings: Filter
) -> tuple[bytes, str]:
    """The (UTF-8 bytes, text) of a file that passes all filters.

    Args:
        language: that of the file's extension; None if the extension is not configured.
        content: None if the file has `settings.max_bytes` bytes or more.

    Raises:
        Dropped: a filter rejects the file.
    """
    if language is None:
        raise Dropped("extension", extension_of(path))
    for folder in path.split("/")[:-1]:
        if folder in settings.excluded_folders:
            raise Dropped("folder", folder)
    if content is None:
        raise Dropped("size", f"{size} bytes")
    raw, text = decode(bytes(content))
    check_quality(raw, text, settings)
    return raw, text


def filter_archive(archive: Path, source: str, settings: Filter, result: Funnel) -> None:
    """Filter every file of `archive` and pass it to `result`.

    Args:
        archive: a tar.zst file; the .json file beside it holds the sha256 of the unpacked bytes.

    Raises:
        UserError: the archive is missing, damaged, or differs from its .json file.
    """
    manifest = read_json(archive.with_name(archive.name.removesuffix(".tar.zst") + ".json"))
    progress = Progress(f"filter {source}", "files", manifest["files"])
    for path, size, content in members(archive, manifest["sha256"], settings.max_bytes):
        language = language_of(path, content, settings)
        try:
            raw, text = accept(path, language, size, content, settings)
        except Dropped as drop:
            result.drop(path, source, language, drop.reason, drop.detail)
        else:
            document = {"text": text, "path": path, "source": source, "language": language}
            document["sha256"] = hashlib.sha256(raw).hexdigest()
            result.keep(document, len(raw))
        progress.add()
    progress.end()
    for fault, count in manifest.get("skipped", {}).items():
        names = manifest.get("skipped_names", {}).get(fault, [])
        for name in [*names, *[""] * (count - len(names))]:  # of very many the manifest names the first
            result.drop(name, source, language_of(name, None, settings), "odd_member", fault)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--archive", type=Path, required=True, help="data/raw/NAME.tar.zst")
    arguments.add_argument("--source", required=True, help="the source's name")
    arguments.add_argument("--settings", type=Filter.from_json, required=True, help="corpus.filter, as JSON")
    arguments.add_argument("--out", type=Path, required=True, help="folder for documents and rejects")
    given = arguments.parse_args()
    with funnel(given.out) as result:
        filter_archive(given.archive, given.source, given.settings, result)


if __name__ == "__main__":
    run(main)
