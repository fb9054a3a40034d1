"""scripts/tokens/tokenizer.py: what is learned is a Qwen2.5-style tokenizer, the same on every run."""

import os
import subprocess
import sys

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, Qwen2Tokenizer

from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.experiment.settings.record import to_json
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.tokenizer import choose_sample, copy, train


def run(origin, settings, out, **environment):
    """Run the script; `settings` are None to copy."""
    command = [sys.executable, "-m", "scripts.tokens.tokenizer", "--from", str(origin), "--out", str(out)]
    command += ["--settings", to_json(settings)] if settings else []
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_vocabulary_has_the_configured_size_with_the_control_tokens_last_in_qwens_order(tokenizer):
    saved = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    assert saved.get_vocab_size() == 1000
    added = saved.get_added_tokens_decoder()
    assert list(added) == list(range(978, 1000))
    # Qwen2.5 has them at 151643 + these
    for name, offset in {"<|endoftext|>": 0, "<|im_end|>": 2, "<|video_pad|>": 13, "<tool_call>": 14}.items():
        assert (added[978 + offset].content, added[978 + offset].special) == (name, offset < 14)
    for name, offset in {"<|fim_prefix|>": 16, "<|fim_middle|>": 17, "<|fim_suffix|>": 18, "<|file_sep|>": 21}.items():
        assert (added[978 + offset].content, added[978 + offset].special) == (name, False)


def test_transformers_loads_it_as_qwen2_with_the_same_ids(tokenizer):
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    saved = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    assert isinstance(loaded, Qwen2Tokenizer)
    assert (len(loaded), loaded.eos_token, loaded.pad_token) == (1000, "<|endoftext|>", "<|endoftext|>")
    for text in [
        "def f(x):\n\treturn x  # 你好 e\u0301\r\n\r\n",
        "<|im_start|>user\n1234<tool_call>",
        "   \n  a",
        "it's",
    ]:
        assert loaded(text)["input_ids"] == saved.encode(text).ids
    assert loaded.decode(loaded("naïve 代码\n")["input_ids"]) == "naïve 代码\n"


def test_two_runs_give_the_same_bytes_whatever_the_hash_seed_and_threads(split, tmp_path):
    settings = TokenizerSettings(vocab_size=600)
    for name, environment in {
        "a": {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1"},
        "b": {"PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "4"},
    }.items():
        assert run(split, settings, tmp_path / name, **environment).returncode == 0
    assert read_manifest(tmp_path / "a") == read_manifest(tmp_path / "b")


def test_sample_gives_each_language_its_share_and_a_small_language_all_it_has():
    large = [("a", f"{i:03}", 10) for i in range(100)]
    chosen = choose_sample([*large, ("b", "x", 15), *(("c", f"{i:03}", 10) for i in range(100))], 215)
    sizes = {
        language: sum(i in chosen for i in part) for language, part in {"a": range(100), "c": range(101, 201)}.items()
    }
    assert 100 in chosen
    assert abs(sizes["a"] - sizes["c"]) <= 1
    assert 215 <= 15 + 10 * sum(sizes.values()) < 225


def test_sample_is_decided_by_content_not_by_order():
    documents = [("ab"[i % 2], f"{i * 37 % 100:03}", 10) for i in range(100)]
    chosen = {documents[i] for i in choose_sample(documents, 150)}  # 8 of a, 7 of b
    turned = documents[::-1]
    assert {turned[i] for i in choose_sample(turned, 150)} == chosen
    for language in "ab":
        digests = sorted(digest for name, digest, _ in documents if name == language)
        taken = [digest for name, digest, _ in sorted(chosen) if name == language]
        assert taken == digests[: len(taken)]


def test_vocabulary_too_large_for_the_sample_is_a_one_line_error_with_the_size_that_fits(split, tmp_path):
    write_jsonl(tmp_path / "train.jsonl.zst", [{"text": "abab " * 9, "language": "x", "sha256": "0"}])
    write_manifest(tmp_path, ["train.jsonl.zst"])
    done = run(tmp_path, TokenizerSettings(vocab_size=5000), tmp_path / "out")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    fits = int(last.split("enough for ")[1].split(",")[0])
    assert last.startswith("error: tokens.tokenizer.vocab_size: the sample is enough for ")
    assert not (tmp_path / "out").exists()
    assert fits < 512
    train([tmp_path], TokenizerSettings(vocab_size=fits), tmp_path / "out")


def test_empty_corpus_is_a_one_line_error(tmp_path):
    write_jsonl(tmp_path / "train.jsonl.zst", [])
    write_manifest(tmp_path, ["train.jsonl.zst"])
    with pytest.raises(UserError, match="no document to learn"):
        train([tmp_path], TokenizerSettings(vocab_size=600), tmp_path / "out")


def test_truncated_corpus_is_refused(split, tmp_path):
    content = (split / "train.jsonl.zst").read_bytes()
    (tmp_path / "train.jsonl.zst").write_bytes(content[: len(content) // 2])
    (tmp_path / "manifest.json").write_bytes((split / "manifest.json").read_bytes())
    with pytest.raises(UserError, match="its manifest says"):
        train([tmp_path], TokenizerSettings(vocab_size=600), tmp_path / "out")


def test_a_model_folder_without_tokenizer_is_a_one_line_error(tmp_path):
    with pytest.raises(UserError, match=r"has no tokenizer\.json"):
        copy(tmp_path, tmp_path / "out")
