"""scripts/evaluation/problems.py: a benchmark out of a repository is the file of the pinned commit, or one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_dict

FILE = b'{"task_id": "x\r\n \xff"}\n' * 3  # bytes that no conversion of text leaves alone


def git(folder, *words):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """(folder, commit): the file has changed since that commit."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q")
    (folder / "data").mkdir()
    (folder / "data/b.jsonl").write_bytes(FILE)
    git(folder, "add", "data")
    git(folder, "commit", "-qm", "one")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "data/b.jsonl").write_bytes(b"later")
    (folder / ".gitattributes").write_text("*.jsonl text eol=lf\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")
    return folder, commit


def problems(out, location, commit, path="data/b.jsonl"):
    settings = json.dumps({"commit": commit, "path": path})
    line = [sys.executable, "-m", "scripts.evaluation.problems", "--git", location, "--settings", settings]
    line += ["--out", str(out)]
    return subprocess.run(line, capture_output=True, text=True)


def test_the_file_is_that_of_the_pinned_commit_byte_for_byte(repository, tmp_path):
    done = problems(tmp_path / "b.jsonl", *repository)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "b.jsonl").read_bytes() == FILE


@pytest.mark.parametrize("path", ["data", "data/none.jsonl", "../b.jsonl", "/etc/passwd", "--help"])
def test_a_path_that_is_no_file_of_the_commit_is_a_one_line_error(repository, tmp_path, path):
    done = problems(tmp_path / "b.jsonl", *repository, path)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert done.stderr == f"error: no file {path} in commit {repository[1]} of {repository[0]}\n"


def test_an_empty_path_is_a_one_line_error(repository, tmp_path):
    done = problems(tmp_path / "b.jsonl", *repository, "")
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert done.stderr == "error: --settings: path: must be text of at least 1 character, not ''\n"


@pytest.mark.slow
def test_a_missing_commit_or_repository_is_a_one_line_error(repository, tmp_path):
    for location, commit, line in (
        (repository[0], "0" * 40, "no commit 0000"),
        ("/none", "0" * 40, "cannot read /none"),
    ):
        done = problems(tmp_path / "b.jsonl", location, commit)
        assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
        assert done.stderr.startswith(f"error: {line}") or done.stderr.splitlines()[-1].startswith(f"error: {line}")


def test_a_commit_is_required_with_git():
    config = read_yaml(Path("config/examples/from-scratch.yaml"))
    config["evaluation"]["code"] = {"benchmarks": [{"git": "https://example.org/b", "path": "b.jsonl"}]}
    with pytest.raises(UserError, match=r"benchmarks\.0: .*commit"):
        to_dict(load_experiment(config, "x.yaml"))


@pytest.mark.slow
def test_the_workflow_fetches_a_pinned_benchmark_before_it_is_scored(repository, tmp_path):
    config = read_yaml(Path("config/examples/from-scratch.yaml")) | {"results": "results"}
    pinned = {"git": str(repository[0]), "commit": repository[1], "path": "data/b.jsonl"}
    config["evaluation"]["code"] = {"benchmarks": [pinned]}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(config))
    command = ["snakemake", "--profile", "local", "-n", "--configfile", tmp_path / "x.yaml"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "output: results/evaluation/problems/b.jsonl" in done.stdout
    assert (
        done.stdout.count("results/evaluation/problems/b.jsonl\n") >= 4
    )  # rule problems, and a job of `code` per model
