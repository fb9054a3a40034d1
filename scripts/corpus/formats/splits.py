"""Which split an example or a repository belongs to, by a hash of its identity."""

from collections.abc import Iterable

from scripts.common.errors import UserError
from scripts.common.hashing import fraction_of, text_digest
from scripts.experiment.settings.corpus import OwnDataset, Split


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
