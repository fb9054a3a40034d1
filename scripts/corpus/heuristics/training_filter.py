"""The filter of one dataset, which selects documents for its training split alone.

    for document in passing(documents, TextFilter(min_lines=20), dropped): ...

It comes after deduplication and split and drops training documents alone. So two arms of `ablate` with different
filters share all that stands before, are scored on the same documents, and none trains on what the other is scored on.
"""

from collections import Counter
from collections.abc import Iterator

from scripts.corpus.heuristics.quality import Dropped, check_quality
from scripts.experiment.settings.filter import TextFilter


def passing(documents: Iterator[dict], settings: TextFilter, dropped: Counter) -> Iterator[dict]:
    """Yield the documents that pass; the others are counted by reason."""
    for document in documents:
        try:
            check_quality(document["text"].encode(), document["text"], settings)
            check_score(document, settings)
        except Dropped as drop:
            dropped[drop.reason] += 1
        else:
            yield document


def check_score(document: dict, settings: TextFilter) -> None:
    """Apply the least quality score, where one is asked for.

    Raises:
        Dropped: `low_quality`.
    """
    if settings.quality is None:
        return
    from scripts.corpus.heuristics.quality_score import quality_of  # grammars, which few datasets need

    score = quality_of(document["text"], document["path"], document["language"])["score"]
    if score < settings.quality.min_score:
        raise Dropped("low_quality", f"{score:g}")
