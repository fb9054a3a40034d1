"""scripts/tokens/pack.py: every token is kept exactly once, rows are full, and nothing half-written is left behind."""

import bisect
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zstandard

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.tokens import pack as module
from scripts.tokens.pack import pack, pieces_of, place
from scripts.tokens.packing.shards import Shards
from scripts.tokens.tokenization.encoder import Encoder
from tests.small_disk import small_disk  # noqa: F401

TEXTS = ["x = 1\n", "", "def f(x):\n    return x\n" * 30, "# 你好，世界\n" * 7, "a b\n" * 500, "<|endoftext|>"]


def texts(count: int = 60) -> list[dict]:
    return [{"id": f"s/{i}.py", "text": TEXTS[i % len(TEXTS)] + f"# {i}\n"} for i in range(count)]


def naive_best_fit(lengths: list[int], capacity: int) -> int:
    """Number of rows of a textbook best-fit over a sorted list of free rooms."""
    rooms, rows = [], 0
    for length in lengths:
        at = bisect.bisect_left(rooms, length)
        if at == len(rooms):
            rows += 1
            room = capacity
        else:
            room = rooms.pop(at)
        bisect.insort(rooms, room - length)
    return rows


@pytest.mark.parametrize("capacity", [1, 2, 16, 100, 128, 4096])
def test_placement_needs_as_many_rows_as_a_textbook_best_fit_decreasing_and_never_overfills(capacity):
    rng = np.random.default_rng(capacity)
    for count in (1, 5, 700):
        lengths = np.sort(np.clip(rng.lognormal(np.log(capacity) - 1.5, 1.2, count).astype(np.int64), 1, capacity))[
            ::-1
        ]
        row, offset, rows = place(lengths.copy(), capacity)
        assert rows == naive_best_fit(lengths.tolist(), capacity) == len(set(row.tolist()))
        used = np.zeros((rows, capacity), np.int64)
        for r, o, n in zip(row, offset, lengths, strict=True):
            used[r, o : o + n] += 1
        assert used.sum() == lengths.sum()
        assert used.max() == 1


def test_waste_is_small_on_a_log_normal_mix_of_lengths():
    lengths = np.random.default_rng(0).lognormal(6.5, 1.1, 20_000).astype(np.int64) + 1
    pieces, _, rows = pieces_of(lengths, 4096, seed=1)
    assert pieces[:, 2].sum() == lengths.sum()
    assert rows * 4096 < 1.001 * lengths.sum()


@pytest.mark.parametrize("length", [2, 16, 64, 1000])
def test_every_token_is_kept_exactly_once_in_order_in_rows_of_exactly_the_length(tokenizer, dataset, tmp_path, length):
    examples = texts()
    folder = dataset(examples, examples[:3])
    manifest = pack(folder, tokenizer, length, tmp_path / "out")
    encoder = Encoder(tokenizer)
    for split, kept in {"train": examples, "validation": examples[:3]}.items():
        shards, counts = Shards(tmp_path / "out", split), manifest["splits"][split]
        encoded = encoder.encode(kept)
        assert (tmp_path / f"out/{split}.tokens.bin").stat().st_size == 4 * length * counts["rows"]
        assert (tmp_path / f"out/{split}.flags.bin").stat().st_size == length * counts["rows"]
        assert shards.names == [example["id"] for example in kept]

        covered = np.zeros((len(shards), length), bool)
        tokens_of = {number: [] for number in range(len(kept))}
        cuts = {number: [] for number in range(len(kept))}
        pieces = np.load(tmp_path / f"out/{split}.pieces.npy")
        assert pieces.dtype == np.int32
        assert pieces[:, :2].tolist() == sorted(pieces[:, :2].tolist())
        for row, offset, count, document in pieces.tolist():
            span = (row, slice(offset, offset + count))
            assert not covered[span].any()
            covered[span] = True
            assert shards.flags[row, offset] == 1
            assert not (shards.flags[row, offset + 1 : offset + count] & 1).any()
            tokens_of[document].append(shards.tokens[span].tolist())
            cuts[document].append(int((shards.flags[span] & 2).sum()) // 2)
        for number in range(len(kept)):
            ids = encoded.ids[encoded.offsets[number] : encoded.offsets[number + 1]].tolist()
            assert sorted(tokens_of[number]) == sorted(ids[i : i + length] for i in range(0, len(ids), length))
            assert sum(cuts[number]) == len(ids) - len(tokens_of[number])  # all targets but each piece's first token

        padding = ~covered
        assert (shards.tokens[padding] == encoder.end).all()
        assert not (shards.flags[padding] & 2).any()
        starts = padding & ~np.pad(padding, ((0, 0), (1, 0)))[:, :-1]
        assert ((shards.flags & 1).astype(bool) & padding == starts).all()
        assert counts == {
            "rows": len(shards),
            "pieces": len(pieces),
            "documents": len(kept),
            "tokens": int(covered.sum()),
            "targets": int((shards.flags & 2).astype(bool).sum()),
            "padding": int(padding.sum()),
            "largest_id": int(shards.tokens.max()),
            "too_long": 0,
            "refused": 0,
            "fim": 0,
            "fim_spm": 0,
            "fim_outgrown": 0,
        }
    assert (manifest["length"], manifest["vocab_size"]) == (length, 1000)
    assert read_manifest(tmp_path / "out") == manifest


def test_chats_keep_only_the_answers_as_targets_and_those_too_long_are_left_out_and_counted(
    tokenizer, dataset, tmp_path
):
    def chat(i, answer):
        return {
            "id": f"c/{i}",
            "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}],
        }

    fits, long = [chat(i, f"answer {i}") for i in range(5)], [chat(9, "word " * 500)]
    manifest = pack(dataset([*fits[:2], *long, *fits[2:]], long), tokenizer, 128, tmp_path / "out")
    assert manifest["splits"]["train"]["documents"] == 5
    assert [manifest["splits"][split]["too_long"] for split in ("train", "validation")] == [1, 1]
    shards, encoder = Shards(tmp_path / "out", "train"), Encoder(tokenizer)
    assert shards.names == [example["id"] for example in fits]
    assert (np.asarray(shards.flags) & 2).sum() // 2 == encoder.encode(fits).targets.sum()


def test_a_chat_of_exactly_a_row_fits_and_one_token_more_does_not(tokenizer, dataset, tmp_path):
    chat = {"id": "c", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "yes"}]}
    size = len(Encoder(tokenizer).encode([chat]).ids)
    folder = dataset([{"id": "t", "text": "x"}, chat])
    for length, too_long in {size: 0, size - 1: 1}.items():
        assert pack(folder, tokenizer, length, tmp_path / "out")["splits"]["train"]["too_long"] == too_long


def test_batches_and_chunks_of_any_size_give_the_same_bytes(tokenizer, dataset, tmp_path, monkeypatch):
    folder = dataset(texts(), texts(5))
    manifest = pack(folder, tokenizer, 50, tmp_path / "whole")
    monkeypatch.setattr(module, "BATCH", 7)
    monkeypatch.setattr(module, "CHUNK", 120)
    assert pack(folder, tokenizer, 50, tmp_path / "parts") == manifest


def test_a_line_end_in_an_id_does_not_shift_the_list_of_documents(tokenizer, dataset, tmp_path):
    pack(dataset([{"id": "s/a\nb", "text": "x"}, {"id": "s/c\r", "text": "y"}]), tokenizer, 16, tmp_path / "out")
    assert Shards(tmp_path / "out", "train").names == ["s/a\\nb", "s/c\r"]


def command(folder, tokenizer, length, out):
    program = [sys.executable, "-m", "scripts.tokens.pack", "--dataset", str(folder), "--tokenizer", str(tokenizer)]
    return [*program, "--length", str(length), "--out", str(out)]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "unexpected end of data|no targets to train on"),
        (b"not zstd at all", "line 1"),
        (b'{"id": "a", "text": "fine"}\n{"id": "b", "te', "line 2"),
        (b'{"id": "a", "text": "\xff"}\n', "line 1"),
        (b'{"id": "a", "text": "\\ud800"}\n', "line 1"),
        (b'{"id": "a", "text": 3}\n', "must be a string"),
        (b"[1]\n", "must have"),
    ],
)
def test_malformed_examples_are_one_line_errors_that_name_the_file(tokenizer, dataset, tmp_path, content, complaint):
    folder = dataset(texts(3))
    data = content if content.startswith(b"not") else zstandard.compress(content)
    (folder / "train.jsonl.zst").write_bytes(data)
    write_manifest(folder, ["train.jsonl.zst", "validation.jsonl.zst"])
    with pytest.raises(UserError, match=rf"train\.jsonl\.zst.*({complaint})"):
        pack(folder, tokenizer, 16, tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_dataset_is_refused_wherever_it_ends(tokenizer, dataset, tmp_path, keep):
    folder = dataset(texts())
    content = (folder / "train.jsonl.zst").read_bytes()
    (folder / "train.jsonl.zst").write_bytes(content[: int(keep * len(content))])
    with pytest.raises(UserError, match="its manifest says"):
        pack(folder, tokenizer, 16, tmp_path / "out")


@pytest.mark.parametrize("length", [-1, 0, 1])
def test_a_length_that_holds_no_prediction_is_a_one_line_error(tokenizer, dataset, tmp_path, length):
    with pytest.raises(UserError, match="--length"):
        pack(dataset(texts(3)), tokenizer, length, tmp_path / "out")


def test_a_missing_dataset_is_a_one_line_error(tokenizer, tmp_path):
    done = subprocess.run(command(tmp_path / "no", tokenizer, 64, tmp_path / "out"), capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == f"error: {tmp_path / 'no/manifest.json'}: no such file"


@pytest.mark.slow
def test_a_killed_run_leaves_no_declared_output_half_written_and_the_next_run_is_whole(tokenizer, tmp_path):
    folder, out = tmp_path / "compose", tmp_path / "out"
    write_jsonl(folder / "train.jsonl.zst", ({"id": str(i), "text": f"x_{i} = {i}\n" * 400} for i in range(4000)))
    write_jsonl(folder / "validation.jsonl.zst", [])
    write_manifest(folder, ["train.jsonl.zst", "validation.jsonl.zst"])
    process = subprocess.Popen(command(folder, tokenizer, 64, out), stderr=subprocess.DEVNULL)
    while not (out.is_dir() and any(out.iterdir())):  # it is encoding
        assert process.poll() is None
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert [path.name for path in out.iterdir() if not path.name.startswith(".")] == []
    subprocess.run(command(folder, tokenizer, 64, out), check=True, stderr=subprocess.DEVNULL)
    assert read_json(out / "manifest.json")["splits"]["train"]["documents"] == 4000
    read_manifest(out)


def test_a_disk_that_fills_up_at_any_moment_is_a_one_line_error_and_leaves_no_half_written_file(
    dataset,
    tokenizer,
    tmp_path,
    small_disk,  # noqa: F811
):
    folder = dataset(texts(600), texts(60))
    pack(folder, tokenizer, 128, tmp_path / "whole")
    complete = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    out, lines = small_disk.path / "pack", set()
    for kib in range(64, 8192, 64):
        small_disk.remount(f"size={kib}k")
        try:
            pack(folder, tokenizer, 128, out)
            break
        except UserError as error:
            lines.add(str(error))
        left = {path.name: path.read_bytes() for path in out.iterdir()}
        assert "manifest.json" not in left
        assert all(complete[name] == content for name, content in left.items())
        shutil.rmtree(out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == complete
    assert len(lines) > 10
    assert all(re.fullmatch(rf"{out}\S*: No space left on device \(.* are free there now\)", line) for line in lines), (
        lines
    )


def test_chats_that_the_template_refuses_are_left_out_and_counted_and_the_others_train(tokenizer, dataset, tmp_path):
    folder = shutil.copytree(tokenizer, tmp_path / "tokenizer")
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    write_manifest(folder, list(read_manifest(tokenizer)["files"]))
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    chats = [{"id": f"c/{number}", "messages": turns} for number in range(6)]
    chats[2] = {"id": "c/system", "messages": [{"role": "system", "content": "s"}, *turns]}
    manifest = pack(dataset(chats), folder, 64, tmp_path / "out")
    assert manifest["splits"]["train"]["refused"] == 1 and manifest["splits"]["train"]["documents"] == 5
    assert "c/system" not in (tmp_path / "out/train.documents.txt").read_text()
    with pytest.raises(UserError, match=r"no targets .* 0 chats are longer, 1 refused by the chat template"):
        pack(dataset(chats[2:3]), folder, 64, tmp_path / "none")
