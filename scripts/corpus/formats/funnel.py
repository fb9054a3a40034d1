"""What was kept, what was dropped and why, in files and in counts that add up: the output of filter and deduplicate."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.files import jsonl_writer
from scripts.common.manifest import write_manifest

DOCUMENTS, REJECTS = "documents.jsonl.zst", "rejects.jsonl.zst"


class Funnel:
    """Writes each document or reject that it is given and counts it."""

    def __init__(self, write_document, write_reject):
        self.write_document, self.write_reject = write_document, write_reject
        self.kept, self.bytes, self.dropped = Counter(), Counter(), Counter()

    def keep(self, document: dict, size: int) -> None:
        """Keep a document whose text is `size` bytes of UTF-8."""
        self.kept[document["language"]] += 1
        self.bytes[document["language"]] += size
        self.write_document(document)

    def drop(self, path: str, source: str, language: str | None, reason: str, detail: str) -> None:
        """Drop a file; `language` is None where its extension means none."""
        self.dropped[language, reason] += 1
        self.write_reject(
            {"path": path, "source": source, "language": language, "reason": reason, "detail": detail},
        )

    def facts(self) -> dict:
        """The manifest's facts: seen = kept + sum(dropped). A language's counts are of files known to be in it."""
        dropped, languages = Counter(), {}
        for language in {*self.kept, *(language for language, _ in self.dropped)} - {None}:
            languages[language] = {"kept": self.kept[language], "bytes": self.bytes[language], "dropped": {}}
        for (language, reason), count in self.dropped.items():
            dropped[reason] += count
            if language:
                languages[language]["dropped"][reason] = count
        kept = self.kept.total()
        return {"seen": kept + dropped.total(), "kept": kept, "dropped": dropped, "languages": languages}


@contextmanager
def funnel(out: Path) -> Iterator[Funnel]:
    """Yield a funnel into the folder `out`; documents, rejects and, last, the manifest appear when the block ends."""
    with jsonl_writer(out / DOCUMENTS) as write_document, jsonl_writer(out / REJECTS) as write_reject:
        result = Funnel(write_document, write_reject)
        yield result
    write_manifest(out, [DOCUMENTS, REJECTS], **result.facts())
