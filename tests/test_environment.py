"""requirements.lock and the Makefile's commands: a package whose content is not what the lock says is not installed."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

PIN = re.compile(r"^([a-z0-9-]+)==\S+", re.MULTILINE)


def test_every_pin_of_the_lock_but_torch_has_a_hash():
    """torch has none: a CPU build and each CUDA build are other files of the same version."""
    lock = Path("requirements.lock").read_text()
    entries = re.split(r"\n(?=\S)", lock)
    assert len(entries) == len(PIN.findall(lock)) > 200
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "torch" not in PIN.findall(lock)
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert any(re.fullmatch(r"torch == [\d.]+", line) for line in project["dependencies"])


def copy_makefile(folder: Path) -> None:
    """Copy what `make env` reads beside the lock."""
    shutil.copy("Makefile", folder)
    (folder / "envs").mkdir()
    for name in ("launcher.py", "checked_snakemake.py"):
        shutil.copy(f"envs/{name}", folder / "envs")


def tiny_wheel(folder: Path) -> str:
    """Write the wheel of a package `tiny` 1.0 to `folder`; its sha256."""
    folder.mkdir()
    path = folder / "tiny-1.0-py3-none-any.whl"
    about = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", f"tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("hashed", ["right", "wrong", "none"])
def test_make_env_installs_only_what_has_the_hash_of_the_lock(tmp_path, hashed):
    """The commands are the Makefile's own; only the index is a folder, so that no network is needed."""
    right = tiny_wheel(tmp_path / "wheels")
    copy_makefile(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "uv.toml").write_text('no-index = true\nfind-links = ["wheels"]\n')
    entry = {"right": f" --hash=sha256:{right}", "wrong": f" --hash=sha256:{right[::-1]}", "none": ""}[hashed]
    (tmp_path / "requirements.lock").write_text(f"tiny==1.0{entry}\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    (tmp_path / ".venv/bin/uv").symlink_to(Path(sys.prefix) / "bin/uv")
    recipe = ["make", "--just-print", "env"]
    commands = subprocess.run(recipe, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    [install] = [line for line in commands if re.match(r"\S*uv pip install", line)]
    done = subprocess.run(["bash", "-c", install], cwd=tmp_path, capture_output=True, text=True, check=False)
    installed = bool(list((tmp_path / ".venv").rglob("tiny.py")))
    assert (done.returncode == 0) == installed == (hashed == "right"), done.stderr
    assert {"right": "", "wrong": "Hash mismatch", "none": "must have a hash"}[hashed] in done.stderr


def test_make_env_installs_again_only_where_the_content_of_the_lock_has_changed(tmp_path):
    """A checkout that writes the lock anew with the same content gives it another time, and nothing is to do."""
    copy_makefile(tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)

    def commands(lock: str) -> list[str]:
        (tmp_path / "pyproject.toml").touch()
        (tmp_path / "requirements.lock").write_text(lock)
        recipe = ["make", "--just-print", "env"]
        shown = subprocess.run(recipe, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        return [line for line in shown.splitlines() if "install" in line]

    first = commands("tiny==1.0\n")
    assert any("uv pip install" in line for line in first)
    (tmp_path / ".venv/bin/stagecraft").touch()
    (tmp_path / first[-1].removeprefix("touch ")).touch()
    assert commands("tiny==1.0\n") == []
    assert any("uv pip install" in line for line in commands("tiny==1.1\n"))


MISTAKES = {
    b"a:\n\tb: 1\n": "line 2: not YAML: found character '\\t' that cannot start any token; indent with"
    " spaces, not tabs",
    b"experiment x\nseed: 1\n": "line 2: not YAML: mapping values are not allowed here",
    b"seed: 1\nseed: 2\n": "line 2: 'seed' is there twice",
    "experiment: x\n".encode("utf-16"): "not UTF-8; save it as such",
    None: "no such file",
}


@pytest.mark.parametrize("content", MISTAKES)
def test_a_damaged_experiment_file_is_one_line_before_snakemake_reads_it(tmp_path, content):
    path = tmp_path / "mine.yaml"
    if content is not None:
        path.write_bytes(content)
    for words in (["--configfile", path], [f"--configfile={path}"]):
        done = started("-n", *words)
        assert (done.returncode, done.stderr) == (1, f"error: {path}: {MISTAKES[content]}\n")


def test_snakemake_starts_as_it_is_and_a_dotted_key_or_a_target_taken_for_a_file_is_one_line(tmp_path):
    assert started("--version").stdout.startswith("9.")
    done = started("-n", "--config", "seed=1", "training.train.sft.steps=3")
    assert done.returncode == 1 and done.stderr.startswith("error: --config training.train.sft.steps: takes no dotted")
    done = started("-n", "--configfile", "config/config.yaml", "results/no.json")
    assert done.returncode == 1 and done.stderr.startswith("error: results/no.json: a target, behind --configfile")


def test_a_resource_in_two_units_and_a_start_outside_the_checkout_are_one_line(tmp_path):
    profile = tmp_path / "config.yaml"
    for content, place in (
        ("default-resources: {machine: local, mem: 4GB, mem_mb: 4000}", "default-resources"),
        ("set-resources: {train: {disk_mb: 1, disk: 2GB}}", "set-resources.train"),
    ):
        profile.write_text(content)
        done = started("-n", "--profile", tmp_path)
        assert done.returncode == 1 and done.stderr.startswith(f"error: {profile}: {place} has ")
        assert done.stderr.count("\n") == 1
    profile.write_text("default-resources: {machine")
    done = started("-n", "--profile", tmp_path)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {profile}: ") and done.stderr.count("\n") == 1
    line = [sys.executable, "-m", "snakemake", "-n", "-s", Path("Snakefile").resolve(), "results/eval.json"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert [text for text in done.stderr.splitlines() if text.startswith("error: start snakemake in its checkout")]


def started(*words) -> subprocess.CompletedProcess:
    line = [sys.executable, "envs/checked_snakemake.py", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False)
