"""scripts/training/base.py: from scratch by seed, from a folder by hash, from the hub only with a network."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from transformers import AutoModelForCausalLM

from scripts.common.errors import UserError
from scripts.common.files import sha256_file
from scripts.experiment.model_shape import Shape
from scripts.experiment.settings.training import Base
from scripts.training.base import base, content_hash
from scripts.training.planning.parameters import count_parameters
from tests.training.conftest import ROPE_THETA, SHAPE, VOCABULARY, scratch


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


def test_all_users_that_the_umask_admits_can_read_every_file_of_a_base(tokenizer, tmp_path):
    """safetensors makes its files readable for their owner alone."""
    before = os.umask(0o027)
    try:
        base(scratch(), 1, tokenizer, tmp_path / "base")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "base").iterdir()} == {0o640}
    assert (tmp_path / "base/model.safetensors").is_file()


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


def test_without_a_network_a_model_of_the_hub_is_a_one_line_error(tmp_path):
    words = ["--tokenizer", tmp_path, "--out", tmp_path / "out", "--settings"]
    words += [json.dumps({"model": "Qwen/Qwen2.5-0.5B", "revision": "0" * 40})]
    # a port on loopback where nobody listens
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "scripts.training.base", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: training.base.model: cannot download Qwen/Qwen2.5-0.5B")
    assert "Traceback" not in done.stderr


def test_a_killed_job_leaves_no_manifest(origin, tokenizer, tmp_path):
    words = ["--tokenizer", tokenizer, "--out", tmp_path / "out", "--settings"]
    words += [json.dumps({"model": "scratch", "shape": {**SHAPE, "num_hidden_layers": 40}})]
    process = subprocess.Popen([sys.executable, "-m", "scripts.training.base", *words], stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(tmp_path.glob(".out.*/*")):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out/manifest.json").exists()
