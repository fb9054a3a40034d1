"""The output of filter and deduplicate: documents that were kept, files that were dropped and why, and their counts."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.files import jsonl_writer
from scripts.common.manifest import write_manifest

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
