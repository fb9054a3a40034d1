"""Read packed shards as rows of numpy arrays.

shards = Shards(Path("results/tokens/pack/code-512"), "train")
row = shards.row(0)
"""

from functools import cached_property
from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.manifest import NAME
from scripts.experiment.layout import SHARD_FILES

# bits of flags.bin
FIRST, TARGET = 1, 2

# the label that torch's cross entropy ignores
IGNORED = -100


class Shards:
    """One split of a packed dataset.

    Attributes:
        length: tokens of a row.
        rows: number of rows.
        tokens: uint32 [rows, length], memory-mapped.
        flags: uint8 [rows, length], memory-mapped; bits FIRST and TARGET.
        pieces: int32 [pieces, 4] of (row, offset, tokens, document), sorted, memory-mapped.

    Raises:
        UserError: there is no manifest or no such split, or a file has another size than in the manifest. Contents are
            not hashed, since shards are opened often and Snakemake compares the manifest.
    """

    def __init__(self, folder: Path, split: str):
        manifest = read_json(folder / NAME)
        if split not in manifest.get("splits", {}):
            raise UserError(f"{folder / NAME}: no split {split!r}; give a folder that `pack` wrote")
        for name in (f"{split}.{file}" for file in SHARD_FILES):
            size = "no"
            if (folder / name).is_file():
                size = (folder / name).stat().st_size
            expected = manifest["files"][name]["bytes"]
            if size != expected:
                raise UserError(
                    f"{folder / name}: {size} bytes, its manifest says {expected}; delete the folder and run again"
                )
        self.length, self.rows = manifest["length"], manifest["splits"][split]["rows"]
        self.tokens = self._mapped(folder / f"{split}.tokens.bin", np.uint32)
        self.flags = self._mapped(folder / f"{split}.flags.bin", np.uint8)
        self.pieces = np.load(folder / f"{split}.pieces.npy", mmap_mode="r" if self.rows else None)
        self._documents = folder / f"{split}.documents.txt"

    def _mapped(self, path: Path, dtype: type) -> np.ndarray:
        shape = (self.rows, self.length)
        if self.rows:
            return np.memmap(path, dtype, "r", shape=shape)
        return np.empty(shape, dtype)

    def __len__(self) -> int:
        return self.rows

    def row(self, index: int) -> dict[str, np.ndarray]:
        """The inputs of a transformers model for a row; int64 [length] each.

        input_ids; position_ids, from 0 at the first token of each piece (without an attention mask they separate the
        pieces); labels, the token itself for targets, else -100 (the model shifts them).
        """
        tokens, flags = self.tokens[index].astype(np.int64), self.flags[index]
        positions = np.arange(self.length)
        starts = np.maximum.accumulate(np.where(flags & FIRST, positions, 0))
        labels = np.where(flags & TARGET, tokens, IGNORED)
        return {"input_ids": tokens, "position_ids": positions - starts, "labels": labels}

    @cached_property
    def names(self) -> list[str]:
        """The ids of all documents, in the order that `pieces` numbers them."""
        return self._documents.read_bytes().decode().split("\n")[:-1]  # an id may hold a carriage return

    def documents(self, index: int) -> list[str]:
        """The id of the document of each piece in a row, in the row's order."""
        start, end = np.searchsorted(self.pieces[:, 0], [index, index + 1])
        return [self.names[document] for document in self.pieces[start:end, 3]]
