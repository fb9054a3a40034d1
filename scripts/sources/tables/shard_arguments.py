"""Shared by the jobs of one or several sources: their arguments, and a loop that continues when one source fails.

--sources '{"name": "zstd", "kind": "git", "pin": "9d1b..."}' ... --locations https://example.org/zstd.git ...
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from scripts.common.errors import UserError
from scripts.sources.tables.source import PinnedSource

Made = TypeVar("Made")


def given_sources(sources: list[dict], locations: list[str]) -> list[PinnedSource]:
    """The sources that a job's arguments name: name, kind and pin of each, and where it is."""
    pairs = zip(sources, locations, strict=True)
    return [PinnedSource.model_validate({**source, "location": location}) for source, location in pairs]


def make_each(label: str, sources: list[PinnedSource], make: Callable[[PinnedSource], Made]) -> list[Made]:
    """What `make` returns for each source.

    Args:
        label: the job, for warnings.

    Raises:
        UserError: it failed for some; it was called for all.
    """
    results, errors = [], []
    for source in sources:
        try:
            results.append(make(source))
        except UserError as error:
            text = str(error)
            errors.append(text if source.name in text else f"source {source.name}: {text}")
            if sources[1:]:  # of a single one the job's error line says it
                logging.warning(f"{label}: {errors[-1]}")
    if errors:
        more = ""
        if errors[1:]:
            more = f"; and {len(errors) - 1} more sources of this shard failed, see above"
        raise UserError(f"{errors[0]}{more}")
    return results
