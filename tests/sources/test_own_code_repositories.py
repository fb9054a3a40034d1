"""benchmarks/own_code: two distributions become one history, the same everywhere, with the right dates."""

import io
import tarfile

import pytest

from benchmarks.own_code.differences import EXPERIMENT, lines, picture
from benchmarks.own_code.repositories import PACKAGES, TABLE, commit_version, git
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.report.content.drawing import save
from scripts.sources.providers.git_history import first_commits
from scripts.sources.tables.sources_table import read_sources


def distribution(path, version, files):
    """An archive `demo-VERSION`, its files with their dates."""
    with tarfile.open(path, "w:gz") as tar:
        for name, (content, date) in files.items():
            member = tarfile.TarInfo(f"demo-{version}/{name}")
            member.size, member.mtime, member.mode = len(content), date, 0o755
            tar.addfile(member, io.BytesIO(content))
    return path


def make(folder):
    folder.mkdir()
    git(folder, "init", "-q", "--initial-branch=main")
    old = distribution(folder.parent / "old.tar.gz", 1, {"a.py": (b"a = 1\n", 1000), "b/c.py": (b"c = 1\n", 2000)})
    new = {"a.py": (b"a = 2\n", 3000), "new.py": (b"n = 1\n", 5000), "read.md": (b"x", 9000)}
    return [commit_version(old, folder, "1"), commit_version(distribution(old.with_name("new"), 2, new), folder, "2")]


def test_a_file_is_as_old_as_the_first_version_that_has_it(tmp_path):
    for name in ("here", "there", "work"):
        (tmp_path / name).mkdir()
    commits = make(tmp_path / "here/demo")
    assert commits == make(tmp_path / "there/demo")
    assert first_commits(str(tmp_path / "here/demo"), commits[1], tmp_path / "work", 60) == {
        "a.py": 2000,
        "new.py": 5000,
    }


def test_the_experiment_trains_on_old_versions_and_scores_new_ones():
    experiment = load_experiment(read_yaml(EXPERIMENT), str(EXPERIMENT))
    rows = {source.name for source in read_sources(TABLE)}
    assert rows == {f"{name}{suffix}" for name in PACKAGES for suffix in ("", "-old")}
    datasets = experiment.corpus.compose
    trained = {*datasets["general"].sources, *datasets["ours"].sources, *datasets["other"].sources}
    scored = {source for name in experiment.evaluation.perplexity.datasets for source in datasets[name].sources}
    assert trained | scored == rows and not trained & scored


@pytest.mark.parametrize("interval", [[-0.5, -0.1], [-0.1, 0.1]])
def test_the_table_and_the_picture_show_every_row(tmp_path, interval):
    row = {"what": "networkx, new files, beyond general", "arm": "own", "documents": 9, "p": 0.5, "value": -0.2}
    assert "-0.2000" in lines([row | {"interval": interval}])[1]
    save(picture, [row | {"interval": interval}], tmp_path / "x.svg")
    assert "networkx by own" in (tmp_path / "x.svg").read_text()
