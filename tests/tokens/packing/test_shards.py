"""scripts/tokens/packing/shards.py: a row is what the model needs, and a damaged folder is refused."""

import shutil

import numpy as np
import pytest

from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.tokens.pack import pack
from scripts.tokens.packing.shards import Shards
from scripts.tokens.tokenization.encoder import Encoder

TEXTS = ["x = 1\n" * n for n in (1, 3, 10, 40)]


@pytest.fixture(scope="module")
def shards_folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for split, count in {"train": 4, "validation": 0}.items():
        write_jsonl(
            folder / f"{split}.jsonl.zst", [{"id": f"s/{i}", "text": text} for i, text in enumerate(TEXTS[:count])]
        )
    write_manifest(folder, ["train.jsonl.zst", "validation.jsonl.zst"])
    pack(folder, tokenizer, 100, folder / "out")
    return folder / "out"


def test_positions_restart_and_labels_are_the_tokens_of_a_direct_encoding(shards_folder, tokenizer):
    shards = Shards(shards_folder, "train")
    encoded = Encoder(tokenizer).encode([{"text": text} for text in TEXTS])
    seen = {}
    for index in range(len(shards)):
        row = shards.row(index)
        assert {name: (array.dtype, array.shape) for name, array in row.items()} == dict.fromkeys(
            ("input_ids", "position_ids", "labels"), (np.dtype("int64"), (100,))
        )
        starts = [*np.flatnonzero(row["position_ids"] == 0), 100]
        names = shards.documents(index)
        for start, end, name in zip(starts, starts[1:], [*names, None], strict=False):
            assert row["position_ids"][start:end].tolist() == list(range(end - start))
            if name is None:  # padding
                assert (row["input_ids"][start:end] == encoded.ids[-1]).all()
                assert (row["labels"][start:end] == -100).all()
            else:
                assert row["labels"][start] == -100
                assert (row["labels"][start + 1 : end] == row["input_ids"][start + 1 : end]).all()
                seen.setdefault(name, []).append(row["input_ids"][start:end].tolist())
    for i in range(len(TEXTS)):
        ids = encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert sorted(seen[f"s/{i}"]) == sorted(ids[k : k + 100] for k in range(0, len(ids), 100))


def test_shards_are_a_sequence_of_rows_that_ends(shards_folder):
    shards = Shards(shards_folder, "train")
    assert len(list(map(shards.row, range(len(shards))))) == shards.rows
    with pytest.raises(IndexError):
        shards.row(shards.rows)


def test_an_empty_split_opens(shards_folder):
    shards = Shards(shards_folder, "validation")
    assert (len(shards), shards.names, shards.tokens.shape) == (0, [], (0, 100))


@pytest.mark.parametrize("file", ["tokens.bin", "flags.bin", "pieces.npy", "documents.txt"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_file_cut_short_or_gone_is_a_one_line_error_that_names_it(shards_folder, tmp_path, file, damage):
    folder = shutil.copytree(shards_folder, tmp_path / "copy")
    path = folder / f"train.{file}"
    path.write_bytes(path.read_bytes()[:-1])
    if damage == "gone":
        path.unlink()
    with pytest.raises(UserError, match=file):
        Shards(folder, "train")


def test_a_folder_that_holds_no_shards_is_a_one_line_error(shards_folder, tokenizer, tmp_path):
    for folder, split in ((tmp_path, "train"), (tokenizer, "train"), (shards_folder, "test")):
        with pytest.raises(UserError, match=r"manifest\.json"):
            Shards(folder, split)
