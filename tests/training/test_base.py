"""scripts/training/base.py: from scratch by seed, from a folder by hash, from the hub only with a network."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from scripts.common.errors import UserError
from scripts.common.files import sha256_file, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.experiment.checks import check_base
from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.training import Base
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.tokenizer import train as learn
from scripts.training.base import base, content_hash
from scripts.training.model.kernels import architecture
from scripts.training.planning.parameters import count_parameters
from tests import forked
from tests.training.conftest import ROPE_THETA, SHAPE, VOCABULARY, scratch

pytestmark = pytest.mark.fault("base weights", "hostile input")


def folder_settings(path, **changes) -> Base:
    return Base.parse({"model": str(path), **changes}, "test")


def test_from_scratch_is_a_qwen2_of_the_shape_in_the_settings_and_depends_on_the_seed_alone(
    origin, tokenizer, tmp_path
):
    model = AutoModelForCausalLM.from_pretrained(origin)
    assert model.config.model_type == "qwen2"
    assert {name: getattr(model.config, name) for name in SHAPE} == SHAPE
    assert model.config.rope_parameters["rope_theta"] == ROPE_THETA
    assert model.num_parameters() == count_parameters(Shape(**SHAPE, vocab_size=VOCABULARY))
    torch.rand(3)  # what the caller drew before must not matter
    same = base(scratch(), 1, tokenizer, tmp_path / "same")
    other_seed = base(scratch(), 2, tokenizer, tmp_path / "other")
    assert same == json.loads((origin / "manifest.json").read_text())
    assert other_seed["files"]["model.safetensors"] != same["files"]["model.safetensors"]


def test_the_smallest_vocabulary_makes_a_base_that_can_be_trained(tmp_path):
    write_jsonl(tmp_path / "train.jsonl.zst", [{"text": Path("README.md").read_text(), "language": "prose"}])
    write_manifest(tmp_path, ["train.jsonl.zst"])
    learn([tmp_path], TokenizerSettings(vocab_size=278), tmp_path / "tokenizer")
    base(scratch(shape={**SHAPE, "max_position_embeddings": 256}), 1, tmp_path / "tokenizer", tmp_path / "base")
    known = architecture(tmp_path / "base")
    assert not any(known.wrong[kernel] for kernel in ("sdpa", "eager")) and known.linear


def test_a_folder_is_copied_whole_and_its_hash_checked(origin, tokenizer, tmp_path):
    manifest = base(folder_settings(origin), 0, tokenizer, tmp_path / "copied")
    for name, file in manifest["files"].items():
        assert file["sha256"] == sha256_file(origin / name)
    base(folder_settings(origin, sha256=content_hash(manifest)), 0, tokenizer, tmp_path / "again")
    with pytest.raises(UserError, match=f"has {content_hash(manifest)}, not {'0' * 64}; restore"):
        base(folder_settings(origin, sha256="0" * 64), 0, tokenizer, tmp_path / "refused")
    assert not (tmp_path / "refused").exists() and not list(tmp_path.glob(".refused.*"))


def test_a_folder_without_a_model_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"needs config\.json and \.safetensors"):
        base(folder_settings(tmp_path / "empty"), 0, tmp_path, tmp_path / "out")


def edit_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def cut_weights(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def point_to_lfs(folder):
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 100\n"
    (folder / "model.safetensors").write_text(text)


def lose_a_shard(folder):
    index = {"weight_map": {"model.embed_tokens.weight": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def lose_a_tensor(folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def make_a_pipe(folder):
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)


def put_a_nan(folder):
    tensors = load_file(folder / WEIGHTS)
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = float("nan")
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def add_a_token(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    token = {"id": 9999, "content": "<new>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["added_tokens"] = [*(tokenizer.get("added_tokens") or []), token | flags]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


WEIGHTS = "model.safetensors"
# what is done to a folder → what the line says, and whether it is said before the first job
DAMAGED_BASES = {
    "cut short": (cut_weights, r"model\.safetensors: [\d,]+ bytes, its header says [\d,]+; copy it again", True),
    "a pointer": (point_to_lfs, r"a pointer of git-lfs, not the file; run `git lfs pull`", True),
    "a missing shard": (lose_a_shard, r"00002-of-00002.safetensors: missing, and model.safetensors.index.json", True),
    "no safetensors": (lambda f: (f / "model.safetensors").write_bytes(b"x" * 999), "not a file of safetensors", True),
    "fewer layers": (lambda f: edit_config(f, num_hidden_layers=1), r"weights of 2 layers, config.json says 1", True),
    "another width": (lambda f: edit_config(f, hidden_size=40), r"tokens × 32 values, config.json says", True),
    "another inner width": (lambda f: edit_config(f, intermediate_size=96), r"such as|transformers cannot load", False),
    "a missing tensor": (lose_a_tensor, r"1 weights are not those that its config.json asks for", False),
    "a config of nothing": (lambda f: (f / "config.json").write_text("null"), "must hold a JSON object", True),
    "a damaged index": (
        lambda f: (f / f"{WEIGHTS}.index.json").write_text('{"weight_map": 3}'),
        "names no files",
        True,
    ),
    "a pipe": (make_a_pipe, r"model\.safetensors: not a regular file; copy it again", True),
    "a number that is none": (put_a_nan, r"layers\.1\.mlp\.up_proj\.weight holds a number that is not finite", False),
    "ids beyond the embeddings": (add_a_token, r"the tokenizer has ids up to 9999, the model embeddings of \d+", False),
    "an unknown kind": (lambda f: edit_config(f, model_type="x"), "transformers cannot load it", False),
}


@pytest.mark.parametrize("damage", DAMAGED_BASES)
def test_damaged_weights_of_a_folder_are_one_line_and_what_headers_show_comes_before_the_first_job(
    origin, tokenizer, tmp_path, damage
):
    harm, line, early = DAMAGED_BASES[damage]
    shutil.copytree(origin, tmp_path / "model")
    harm(tmp_path / "model")
    with pytest.raises(UserError, match=line) as refused:
        base(folder_settings(tmp_path / "model"), 0, tokenizer, tmp_path / "out")
    assert str(refused.value).startswith(
        ("training.base.model: ", str(tmp_path / "model/config.json"))
    ) and "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
    if early:
        with pytest.raises(UserError, match=line):
            check_base(folder_settings(tmp_path / "model"), "training.base")
    else:
        check_base(folder_settings(tmp_path / "model"), "training.base")


def test_a_shape_beside_a_base_that_says_otherwise_is_refused(origin):
    check_base(folder_settings(origin, shape=SHAPE), "training.base")
    with pytest.raises(UserError, match=r"training\.base\.shape\.hidden_size: 64, but .*config\.json says 32; leave"):
        check_base(folder_settings(origin, shape=SHAPE | {"hidden_size": 64}), "training.base")


def test_a_base_that_is_tied_by_config_and_not_by_its_weights_is_untied_and_says_so(origin, tmp_path, caplog):
    caplog.set_level("INFO")
    copy = shutil.copytree(origin, tmp_path / "merged")
    tensors = load_file(copy / WEIGHTS)
    head = tensors["model.embed_tokens.weight"] + 1
    save_file(tensors | {"lm_head.weight": head}, copy / WEIGHTS, {"format": "pt"})
    assert json.loads((copy / "config.json").read_text())["tie_word_embeddings"]
    base(folder_settings(copy), 0, tmp_path, tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text())["tie_word_embeddings"] is False
    assert "its weights differ: they are untied" in caplog.text
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(model.lm_head.weight, head)
    read_manifest(tmp_path / "out")
    # the same weights twice are one
    save_file(
        tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, copy / WEIGHTS, {"format": "pt"}
    )
    base(folder_settings(copy), 0, tmp_path, tmp_path / "twice")
    assert json.loads((tmp_path / "twice/config.json").read_text())["tie_word_embeddings"] is True


def test_without_a_network_a_model_of_the_hub_is_a_one_line_error(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # a port where nobody listens
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the library's tries
    settings = Base.parse({"model": "Qwen/Qwen2.5-0.5B", "revision": "0" * 40}, "test")
    with pytest.raises(UserError, match=r"^training\.base\.model: cannot download Qwen/Qwen2\.5-0\.5B .*network"):
        base(settings, 0, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_killed_job_leaves_no_manifest(origin, tokenizer, tmp_path):
    words = ["--tokenizer", tokenizer, "--out", tmp_path / "out", "--settings"]
    words += [json.dumps({"model": "scratch", "shape": {**SHAPE, "num_hidden_layers": 40}})]
    process = subprocess.Popen([forked.python(), "-m", "scripts.training.base", *words], stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(tmp_path.glob(".out.*/*")):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out/manifest.json").exists()
