"""scripts/tokens/packing/fill_in_middle.py: each piece is whole in one row, and the pieces are the documents again."""

import json
import shutil
import unicodedata
from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer

from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.tokens import pack as module
from scripts.tokens.pack import pack
from scripts.tokens.packing.fill_in_middle import FillInMiddle
from scripts.tokens.packing.shards import Shards
from scripts.tokens.tokenization.encoder import Encoder
from tests.tokens.conftest import documents
from tests.tokens.tokenization.test_encoder import HOSTILE, random_strings

HALF = {"rate": 0.5, "spm_rate": 0.5, "seed": 42}


def packed(texts, tokenizer, length, out, fim=HALF):
    """(manifest counts of the train split, its shards)."""
    for split in ("train", "validation"):
        write_jsonl(out / f"in/{split}.jsonl.zst", ({"id": f"s/{i}", "text": text} for i, text in enumerate(texts)))
    write_manifest(out / "in", ["train.jsonl.zst", "validation.jsonl.zst"], fim=fim)
    counts = pack(out / "in", tokenizer, length, out)["splits"]
    assert counts["validation"]["fim"] == 0
    return counts["train"], Shards(out, "train")


class Decoder:
    """Takes pieces apart by Hugging Face's decoder, independently of the engine that encoded them."""

    def __init__(self, folder):
        description = json.loads((folder / "tokenizer.json").read_text())
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.ids = {token["content"]: token["id"] for token in description["added_tokens"]}
        self.prefix, self.suffix, self.middle = (self.ids[f"<|fim_{part}|>"] for part in ("prefix", "suffix", "middle"))
        self.end = self.ids["<|endoftext|>"]

    def text(self, ids):
        assert not set(ids) & set(self.ids.values())
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def taken_apart(self, ids):
        """(form, prefix, middle, suffix) of a FIM piece, or ("plain", its ids)."""
        if ids[0] != self.prefix:
            return "plain", ids[:-1] if ids[-1] == self.end else ids
        assert ids[-1] == self.end
        suffix, middle = ids.index(self.suffix), ids.index(self.middle)
        after = ids[middle + 1 : -1]
        if suffix == 1:  # SPM; an empty prefix in PSM looks the same and means the same
            return "spm", "", self.text(after), self.text(ids[2:middle])
        return "psm", self.text(ids[1:suffix]), self.text(after), self.text(ids[suffix + 1 : middle])


def tiles(text, pieces):
    """Whether `pieces`, in some order, are `text`: a search that takes the longest piece that fits, and goes back."""
    left = Counter(pieces)
    sizes = sorted({len(piece) for piece in pieces if piece})
    at, path = 0, [(0, iter(sizes[::-1]))]
    while path and at < len(text):
        at, choices = path[-1]
        for size in choices:
            if left[piece := text[at : at + size]] and at + size <= len(text):
                left[piece] -= 1
                path.append((at := at + size, iter(sizes[::-1])))
                break
        else:
            path.pop()
            if path:
                left[text[path[-1][0] : at]] += 1
                at = -1
    return at == len(text) and not any(count for piece, count in left.items() if piece)


def check(shards, decoder, texts):
    """Decode every piece of a shard and put the documents together; returns the forms of all pieces."""
    pieces_of, forms = {number: [] for number in range(len(texts))}, []
    for row, offset, count, document in shards.pieces.tolist():
        ids = shards.tokens[row, offset : offset + count].tolist()
        flags = shards.flags[row, offset : offset + count].tolist()
        assert flags == [1] + [2] * (count - 1)  # everything but the first token is a target
        form, *segments = decoder.taken_apart(ids)
        forms.append(form)
        if form == "plain":
            pieces_of[document].append(segments[0])
        else:
            pieces_of[document].append("".join(segments))
    for number, text in enumerate(texts):
        # plain pieces may begin inside a character only where a row is shorter than its tokens
        pieces = [part if isinstance(part, str) else decoder.text(part) for part in pieces_of[number]]
        assert tiles(unicodedata.normalize("NFC", text), pieces), text[:80]
    return forms


@pytest.mark.parametrize("length", [64, 512])
def test_every_piece_of_a_real_shard_decodes_to_its_documents_again(tokenizer, tmp_path, length):
    texts = [document["text"] for document in documents()]
    counts, shards = packed(texts, tokenizer, length, tmp_path)
    forms = check(shards, Decoder(tokenizer), texts)
    n, made = len(forms), counts["fim"]
    assert made == sum(form != "plain" for form in forms)
    assert abs(made + counts["fim_outgrown"] - n / 2) < 4 * (n / 4) ** 0.5
    assert abs(counts["fim_spm"] - made / 2) < 4 * (made / 4) ** 0.5
    assert 0 <= forms.count("spm") - counts["fim_spm"] < 0.05 * n  # those of PSM with an empty prefix
    assert counts["fim_outgrown"] < 0.05 * n
    assert counts["padding"] < 8 * counts["rows"] + length


@pytest.mark.parametrize("length", [8, 13, 40])
def test_hostile_texts_survive_in_rows_of_any_length(tokenizer, tmp_path, length):
    texts = [*HOSTILE, *random_strings(300)]
    texts = [text for text in texts if len(text) < 1000]  # of long runs of one character the pieces are all alike
    _, shards = packed(texts, tokenizer, length, tmp_path, HALF | {"rate": 1})
    decoder, sizes = Decoder(tokenizer), Encoder(tokenizer).bytes_of
    seen = [0] * len(texts)
    for row, offset, count, document in shards.pieces.tolist():
        form, *segments = decoder.taken_apart(shards.tokens[row, offset : offset + count].tolist())
        seen[document] += len("".join(segments).encode()) if form != "plain" else int(sizes[segments[0]].sum())
    assert seen == [len(unicodedata.normalize("NFC", text).encode()) for text in texts]


def test_draws_follow_from_seed_and_content_whatever_stands_beside(tokenizer, tmp_path, monkeypatch):
    texts = [document["text"] for document in documents()[:20]]
    encoder = Encoder(tokenizer)

    def drawn(seed, batch):
        fill = FillInMiddle(encoder, 128, 0.5, 0.5, seed)
        pieces = fill.pieces(encoder.encode([{"text": text} for text in batch]))
        return pieces.ids[: pieces.offsets[np.searchsorted(pieces.documents, 1)]].tolist()

    assert drawn(1, texts) == drawn(1, texts[:1]) != drawn(2, texts[:1])
    expected, _ = packed(texts, tokenizer, 128, tmp_path / "whole")
    monkeypatch.setattr(module, "BATCH", 3)
    again, _ = packed(texts, tokenizer, 128, tmp_path / "parts")
    assert expected == again
    for name in ("train.tokens.bin", "train.documents.txt"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_a_tokenizer_without_fim_tokens_is_a_one_line_error_that_names_one(tokenizer, tmp_path):
    folder = shutil.copytree(tokenizer, tmp_path / "t")
    description = json.loads((folder / "tokenizer.json").read_text())
    description["added_tokens"] = [token for token in description["added_tokens"] if "fim" not in token["content"]]
    (folder / "tokenizer.json").write_text(json.dumps(description))
    with pytest.raises(UserError, match=r"no tokens for fill-in-the-middle, such as <\|fim_prefix\|>"):
        FillInMiddle(Encoder(folder), 64, 0.5, 0.5, 1)
