"""What filter, deduplicate and compose write: documents kept, files dropped and why, counts, splits."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import jsonl_writer
from scripts.common.manifest import write_manifest
from scripts.common.text import fraction_of, text_digest
from scripts.experiment.settings.corpus import OwnDataset, Split

DOCUMENTS, REJECTS = "documents.jsonl.zst", "rejects.jsonl.zst"


class FilterWriter:
    """Writes and counts each kept document and each dropped file."""

    def __init__(self, write_document: Callable[[dict], object], write_reject: Callable[[dict], object]):
        self.write_document, self.write_reject = write_document, write_reject
        self.kept, self.bytes, self.dropped, self.dropped_bytes = Counter(), Counter(), Counter(), Counter()
        self.filter_facts = {}

    def keep(self, document: dict, size: int) -> None:
        """Keep a document; `size` is the length of its text in bytes of UTF-8."""
        self.kept[document["language"]] += 1
        self.bytes[document["language"]] += size
        self.write_document(document)

    def drop(self, path: str, source: str, language: str | None, reason: str, detail: str, size: int = 0) -> None:
        """Drop a file of `size` bytes, 0 if not known; `language` is None if its extension is not configured."""
        self.dropped[language, reason] += 1
        self.dropped_bytes[reason] += size
        self.write_reject({"path": path, "source": source, "language": language, "reason": reason, "detail": detail})

    @property
    def kept_share(self) -> float:
        """The share of all bytes that was kept; 1 if there were none."""
        kept, dropped = self.bytes.total(), self.dropped_bytes.total()
        if kept + dropped:
            return kept / (kept + dropped)
        return 1.0

    def facts(self) -> dict:
        """The counts in the manifest: seen = kept + sum(dropped), and per language kept, bytes and dropped.

        Files without a language are in the totals only. Further facts of a filter are in `filter_facts`.
        """
        dropped, languages = Counter(), {}
        for language in {*self.kept, *(language for language, _ in self.dropped)} - {None}:
            languages[language] = {"kept": self.kept[language], "bytes": self.bytes[language], "dropped": {}}
        for (language, reason), count in self.dropped.items():
            dropped[reason] += count
            if language:
                languages[language]["dropped"][reason] = count
        kept = self.kept.total()
        counts = {"seen": kept + dropped.total(), "kept": kept, "dropped": dropped, "languages": languages}
        counts["dropped_bytes"] = {reason: self.dropped_bytes[reason] for reason in dropped}
        return counts | self.filter_facts


@contextmanager
def funnel(out: Path) -> Iterator[FilterWriter]:
    """Yield a FilterWriter into `out`; at the end of the block documents, rejects and the manifest appear."""
    with jsonl_writer(out / DOCUMENTS) as write_document, jsonl_writer(out / REJECTS) as write_reject:
        result = FilterWriter(write_document, write_reject)
        yield result
    write_manifest(out, [DOCUMENTS, REJECTS], **result.facts())


def split_of(digest: bytes, settings: Split | OwnDataset) -> str:
    """The split of a sha256 digest.

    The test split is cut off first, so a different share for validation moves no example into or out of it.
    """
    point = fraction_of(digest)
    if point < settings.test:
        return "test"
    if point < settings.test + settings.validation:
        return "validation"
    return "train"


def repository_splits(sources: Iterable[str], settings: Split) -> dict[str, str]:
    """The split of each source, by a hash of its name.

    If a share is above zero but no source falls into it, as happens with few sources, the remaining source with the
    smallest hash is held out.

    Raises:
        UserError: there are fewer sources than splits.
    """
    points = {source: fraction_of(text_digest(source)) for source in sources}
    order, splits = sorted(points, key=points.get), {}
    needed = 2 + (settings.validation > 0)
    if 0 < len(order) < needed:
        raise UserError(
            f"corpus.split.by: repository needs documents of at least {needed} sources, for train, validation and test;"
            f" there are {len(order)}: {', '.join(sorted(order))}; use `by: file`"
        )
    for name, end in (("test", settings.test), ("validation", settings.test + settings.validation)):
        left = [source for source in order if source not in splits]
        if getattr(settings, name):
            splits |= dict.fromkeys([source for source in left if points[source] < end] or left[:1], name)
    return {source: splits.get(source, "train") for source in order}
