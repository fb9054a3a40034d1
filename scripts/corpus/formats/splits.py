"""Which split an example belongs to, by a hash of what identifies it."""

from scripts.experiment.settings.corpus import OwnDataset, Split


def split_of(digest: bytes, settings: Split | OwnDataset) -> str:
    """The split of a sha256 digest.

    The first 8 bytes are a point in [0, 1). The test split is cut off first, so a different share for validation moves
    no example into or out of it.
    """
    point = int.from_bytes(digest[:8]) / 2**64
    if point < settings.test:
        return "test"
    return "validation" if point < settings.test + settings.validation else "train"
