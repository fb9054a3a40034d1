"""Mix packed datasets into one set of rows, by weights.

    python -m scripts.tokens.mix --parts results/tokens/pack/instruct-4096 results/tokens/pack/general-4096 \\
        --settings '{"parts": {"instruct": {"weight": 9}, "general": {"weight": 1, "max_epochs": 0.5}}}' \\
        --out results/tokens/mix/sft_mix-4096

Rows of the parts are copied unchanged; a part with several epochs is copied several times. Which rows are repeated, and
the order of all rows, follows from the content and the settings alone. The manifest has the rows, tokens, targets and
epochs of each part in one pass over the mixture.
"""

import hashlib
import json
import logging
from itertools import product
from pathlib import Path

import numpy as np

from scripts.common.cli import run
from scripts.common.disk import disk_errors
from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.options import command
from scripts.experiment.layout import PACKED_SPLITS, SHARD_FILES
from scripts.experiment.settings.record import to_json
from scripts.experiment.settings.training import Mixture
from scripts.tokens.packing.mixing import chosen_rows, mixture_rows, validation_rows
from scripts.tokens.packing.shards import TARGET, Shards

CHUNK = 1 << 23  # tokens in memory while writing


def seed_of(manifests: dict[str, dict], settings: Mixture, split: str) -> int:
    """A seed derived from the content of all parts and the settings."""
    content = {name: manifest["files"][f"{split}.tokens.bin"]["sha256"] for name, manifest in manifests.items()}
    return int.from_bytes(hashlib.sha256(json.dumps([content, to_json(settings), split]).encode()).digest()[:8])


def pieces_of(shards: Shards, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int64 [pieces]: index of each piece of these rows, int64 [rows]: number of pieces of each row)."""
    starts, ends = (np.searchsorted(shards.pieces[:, 0], rows + after) for after in (0, 1))
    counts = ends - starts
    inner = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + inner, counts


def write_pieces(parts: list[Shards], owner: np.ndarray, rows: np.ndarray, out: Path, split: str) -> np.ndarray:
    """Write the pieces and the names of their documents; returns int64 [rows], the tokens of each row. `owner`: int64
    [rows], the number of the part of each row; `rows`: int64 [rows], its number in that part."""
    all_pieces, names, used_tokens = [], [], np.zeros(len(rows), np.int64)
    for number, shards in enumerate(parts):
        places = np.flatnonzero(owner == number)
        numbers, counts = pieces_of(shards, rows[places])
        pieces = np.array(shards.pieces[numbers], np.int64).reshape(-1, 4)
        pieces[:, 0] = np.repeat(places, counts)
        np.add.at(used_tokens, pieces[:, 0], pieces[:, 2])
        documents, pieces[:, 3] = np.unique(pieces[:, 3], return_inverse=True)
        pieces[:, 3] += len(names)
        names += [shards.names[document] for document in documents]
        all_pieces.append(pieces)
    pieces = np.concatenate(all_pieces)
    pieces = pieces[np.lexsort((pieces[:, 1], pieces[:, 0]))]
    with atomic(out / f"{split}.pieces.npy") as temporary, temporary.open("wb") as file:
        np.save(file, pieces.astype(np.int32))
    with atomic(out / f"{split}.documents.txt") as temporary:
        temporary.write_text("".join(f"{name}\n" for name in names))
    return used_tokens


def mix_split(folders: dict[str, Path], settings: Mixture, seed: int, total: int | None, out: Path, split: str) -> dict:
    """Write the four files of one split; returns its counts, those of each part in `parts`."""
    out.mkdir(parents=True, exist_ok=True)
    parts = {name: Shards(folder, split) for name, folder in folders.items()}
    available = {name: len(shards) for name, shards in parts.items()}
    key = f"tokens.mix.{out.name.rpartition('-')[0]}.parts"
    if split == "train":
        row_counts = mixture_rows(settings.parts, available, total, key)
    else:
        row_counts = validation_rows(settings.parts, available)
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(parts)), list(row_counts.values()))
    chosen = [chosen_rows(available[name], row_counts[name], random) for name in parts if row_counts[name]]
    rows = np.concatenate([np.empty(0, np.int64), *chosen])
    order = random.permutation(len(owner))
    owner, rows = owner[order], rows[order]
    length = next(iter(parts.values())).length
    targets, largest = np.zeros(len(rows), np.int64), 0
    with (
        disk_errors(out),
        atomic(out / f"{split}.tokens.bin") as tokens_path,
        atomic(out / f"{split}.flags.bin") as flags_path,
        tokens_path.open("wb") as tokens_file,
        flags_path.open("wb") as flags_file,
    ):
        step = max(1, CHUNK // length)
        for first in range(0, len(rows), step):
            chunk = slice(first, first + step)
            tokens, flags = (np.empty((len(rows[chunk]), length), kind) for kind in (np.uint32, np.uint8))
            for number, shards in enumerate(parts.values()):
                of_part = owner[chunk] == number
                tokens[of_part], flags[of_part] = (
                    shards.tokens[rows[chunk][of_part]],
                    shards.flags[rows[chunk][of_part]],
                )
            largest = max(largest, int(tokens.max()))
            targets[chunk] = np.count_nonzero(flags & TARGET, axis=1)
            tokens_file.write(tokens)
            flags_file.write(flags)
    used = write_pieces(list(parts.values()), owner, rows, out, split)
    by_part = {}
    for number, (name, shards) in enumerate(parts.items()):
        of_part, epochs = owner == number, row_counts[name] / available[name] if available[name] else 0
        counts = {"rows": row_counts[name], "tokens": int(used[of_part].sum()), "targets": int(targets[of_part].sum())}
        by_part[name] = {**counts, "available_rows": len(shards), "epochs": round(epochs, 6)}
        of_it = f"{row_counts[name]:,} rows, {counts['tokens']:,} tokens, {epochs:.3g} epochs"
        logging.info(f"mix {out.name} {split}: {name}: {of_it}")
    pieces, documents = (out / f"{split}.{file}" for file in ("pieces.npy", "documents.txt"))
    return {
        "rows": len(rows),
        "pieces": len(np.load(pieces, mmap_mode="r" if len(rows) else None)),
        "documents": documents.read_bytes().count(b"\n"),
        "tokens": int(used.sum()),
        "targets": int(targets.sum()),
        "padding": len(rows) * length - int(used.sum()),
        "largest_id": largest,
        "parts": by_part,
    }


def mix(folders: dict[str, Path], settings: Mixture, out: Path) -> dict:
    """Mix the rows of the folders by the mixture's parts into `out`; returns the manifest. Raises UserError: a folder
    is not what its manifest says, the parts have other lengths or tokenizers, or see `mixture_rows`."""
    manifests = {name: read_manifest(folder) for name, folder in folders.items()}
    first, *other_folders = folders
    for name in other_folders:
        for fact in ("length", "vocab_size"):
            if manifests[name][fact] != manifests[first][fact]:
                raise UserError(
                    f"{folders[name]}: `{fact}` is not the same as in {folders[first]};"
                    " pack both with the same settings"
                )
    length = manifests[first]["length"]
    total = None
    if settings.million_tokens:
        total = int(settings.million_tokens * 1e6 // length)
    splits = {}
    for split in PACKED_SPLITS:
        splits[split] = mix_split(folders, settings, seed_of(manifests, settings, split), total, out, split)
        for key in ("too_long", "refused"):
            splits[split][key] = sum(manifest["splits"][split][key] for manifest in manifests.values())
    names = list(map(".".join, product(PACKED_SPLITS, SHARD_FILES)))
    facts = {fact: manifests[first][fact] for fact in ("length", "vocab_size")}
    end = manifests[first]["end_tokens"][-1]  # of a text; those of an answer stand before it
    answers = set().union(*(manifest["end_tokens"] for manifest in manifests.values())) - {end}
    return write_manifest(out, names, **facts, end_tokens=[*sorted(answers), end], splits=splits)


def mix_parts(parts: list[Path], settings: Mixture, out: Path) -> None:
    """See `mix`. `parts`: folders of the packed rows of exactly the mixture's parts."""
    folders = {folder.name.rpartition("-")[0]: folder for folder in parts}
    unknown = folders.keys() ^ settings.parts.keys()
    if unknown:
        raise UserError(f"--parts: {', '.join(sorted(unknown))}: must be the parts of --settings")
    mix({name: folders[name] for name in settings.parts}, settings, out)


if __name__ == "__main__":
    run(command(mix_parts))
