"""One source's archive to documents: what is text in a wanted language, of a length and look worth training on.

    python -m scripts.corpus.filter --archive data/raw/NAME.tar.zst --source '{"name": "NAME", "licence": "MIT"}' \\
        --settings '{"extensions": {".py": "python"}, ...}' --out results/corpus/filter/NAME

Reasons to drop, in the order in which they are tried: extension, folder, size, encoding, binary, too_short, too_long,
few_lines, long_line, mean_line, alphanumeric, generated, encoded_data. Every regular file of the archive is seen, and
is either kept or named in the rejects; links are not files. Documents keep the archive's order, which is by path.
"""

import hashlib
from pathlib import Path

from scripts.common.cli import parser, run, settings
from scripts.common.files import read_json
from scripts.common.progress import Progress
from scripts.corpus.formats.funnel import Funnel, funnel
from scripts.corpus.formats.tar_reader import members
from scripts.corpus.heuristics.quality import Dropped, check, decoded


def extension(path: str) -> str:
    """The extension with its dot, "" where there is none; `.py` alone is a hidden file without one."""
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""


def text_of(path: str, language: str | None, size: int, content: memoryview | None, rules: dict) -> tuple[bytes, str]:
    """A file's (UTF-8, text), when all rules let it pass.

    Raises:
        Dropped: the first rule that does not.
    """
    if language is None:
        raise Dropped("extension", extension(path))
    for folder in path.split("/")[:-1]:
        if folder in rules["excluded_folders"]:
            raise Dropped("folder", folder)
    if content is None:
        raise Dropped("size", f"{size} bytes")
    raw, text = decoded(bytes(content))
    check(raw, text, rules)
    return raw, text


def filter_archive(archive: Path, source: dict, rules: dict, result: Funnel) -> None:
    """Send every file of `archive` through the rules into `result`.

    Args:
        archive: a tar.zst; beside it the .json that holds the sha256 of its unpacked bytes.
        source: name and licence.
        rules: `corpus.filter` of the experiment.

    Raises:
        UserError: the archive is missing, damaged or not the one that its .json describes.
    """
    manifest = read_json(archive.with_name(archive.name.removesuffix(".tar.zst") + ".json"))
    name = source["name"]
    progress = Progress(f"filter {name}", "files", manifest["files"])
    for path, size, content in members(archive, manifest["sha256"], rules["max_bytes"]):
        language = rules["extensions"].get(extension(path))
        try:
            raw, text = text_of(path, language, size, content, rules)
        except Dropped as drop:
            result.drop(path, name, language, drop.reason, drop.detail)
        else:
            document = {"text": text, "path": path, "source": name, "language": language}
            document |= {"licence": source["licence"], "sha256": hashlib.sha256(raw).hexdigest()}
            result.keep(document, len(raw))
        progress.add()
    progress.end()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--archive", type=Path, required=True)
    arguments.add_argument("--source", type=settings, required=True)
    arguments.add_argument("--settings", type=settings, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    with funnel(given.out) as result:
        filter_archive(given.archive, given.source, given.settings, result)


if __name__ == "__main__":
    run(main)
