"""`stagecraft start`: from clones or chats to an experiment that loads, or one line."""

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from scripts.common.errors import UserError
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.report.commands.start import clones_below, start
from scripts.sources.tables.sources_table import read_sources


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """A checkout's settings, to which `start` may write."""
    folder = tmp_path / "checkout"
    shutil.copytree("config", folder / "config")
    for name in ("profiles", "local", ".git"):
        (folder / name).symlink_to(Path(name).absolute())
    monkeypatch.chdir(folder)
    return folder


def repository(folder: Path, files: int, suffix: str = ".py") -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"file{number}{suffix}").write_text(f"value = {number}\n")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    """Commit all that is in a folder, which becomes a repository if it is none."""
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=all"], check=True)


def loaded(name: str) -> ExperimentView:
    content = read_yaml(Path(f"config/{name}.yaml"))
    jsonschema.validate(
        content, json.loads(Path("config/schema.json").read_text())
    )  # by which an editor checks the file
    experiment = load_experiment(content, name)
    sources = read_sources(Path(experiment.sources)) if experiment.sources else []
    return ExperimentView(experiment, {source.name: source for source in sources}, Layout(Path(experiment.results)))


def test_clones_of_all_kinds_become_sources_of_one_experiment(tmp_path, capsys):
    repository(tmp_path / "mine/one", 40)
    two = repository(tmp_path / "elsewhere/two", 30, ".go")
    (two / "go.mod").write_text("module two\n")
    commit(two)
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", tmp_path / "elsewhere/two", tmp_path / "mine/two.git"], check=True
    )
    mirror = tmp_path / "mine/deep/er/three.git"
    subprocess.run(["git", "clone", "--quiet", "--mirror", tmp_path / "elsewhere/two", mirror], check=True)
    start(tmp_path / "mine", "local")
    view = loaded("mine")
    assert view.experiment.corpus.compose["own"].sources == ["three", "one", "two"]
    assert view.sources["two"].language == "go" and view.sources["networkx"].kind == "sdist"
    assert set(view.experiment.corpus.filter.languages) == {"go", "python"}
    assert list(view.stages) == ["own", "control"] and view.experiment.results == "results/mine"
    assert view.experiment.evaluation.perplexity.retrieval.datasets == ["own"]
    assert len(Path("config/mine.yaml").read_text().splitlines()) <= 30
    said = capsys.readouterr().out
    assert " of 100 files are held out" in said and "warning" not in said
    assert said.endswith("snakemake --profile local results/mine/eval.json --configfile config/mine.yaml\n")


@pytest.mark.parametrize(
    ("flags", "precision"), [("fma avx512f avx512_bf16", "bf16"), ("fp asimd bf16 i8mm", "bf16"), ("avx512f", "fp32")]
)
def test_a_stage_computes_in_what_the_processor_does(tmp_path, monkeypatch, flags, precision):
    repository(tmp_path / "one", 40)
    turns = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}]
    (tmp_path / "chats.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: flags if path.name == "cpuinfo" else read(path, **how))
    start(tmp_path / "one", "local")
    start(tmp_path / "chats.jsonl", "local")
    assert [loaded(name).stages[stage].precision for name, stage in (("one", "own"), ("chats", "chat"))] == [
        precision
    ] * 2


def test_clones_of_equal_names_are_numbered_and_the_other_code_keeps_its_own(tmp_path):
    for name in ("a/tool", "b/tool", "networkx"):
        repository(tmp_path / "config" / name, 15)
    start(tmp_path / "config", "local")  # no experiment `config`, which is the default
    view = loaded("mine")
    assert view.experiment.corpus.compose["own"].sources == ["tool", "tool-2", "networkx-2"]
    assert view.sources["networkx"].kind == "sdist"


def test_headers_count_for_the_language_of_the_files_beside_them(tmp_path):
    for name, ending in (("plain", ".c"), ("plus", ".cpp"), ("headers", ".h")):
        folder = tmp_path / "mine" / name
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / f"file{number}{ending}").write_text(f"int value{number};\n")
            (folder / f"file{number}.h").write_text(f"extern int value{number};\n")
            (folder / f"more{number}.h").write_text(f"extern int more{number};\n")
        commit(folder)
    start(tmp_path / "mine", "local")
    view = loaded("mine")
    found = {name: view.sources[name].language for name in ("plain", "plus", "headers")}
    assert found == {"plain": "c", "plus": "cpp", "headers": "c"}
    assert set(view.experiment.corpus.filter.languages) == {"c", "cpp", "python"}


def test_few_files_are_warned_of_and_too_few_refused(tmp_path, capsys):
    start(repository(tmp_path / "small", 36), "local")
    assert "warning: fewer than 12 held-out files tell little; add repositories" in capsys.readouterr().out
    with pytest.raises(UserError, match="tiny: files of code: 3; at least 30 are needed to train and to hold some out"):
        start(repository(tmp_path / "tiny", 3), "local")
    assert not Path("config/tiny.yaml").exists() and not Path("config/tiny.tsv").exists()


def test_what_is_no_repository_or_has_no_commit_is_one_line(tmp_path):
    (tmp_path / "plain").mkdir()
    with pytest.raises(UserError, match="plain: no git repository in it; give a clone"):
        start(tmp_path / "plain", "local")
    for given in (tmp_path / "nowhere", Path("/dev/null")):
        with pytest.raises(UserError, match=f"{given}: no such file or folder"):
            start(given, "local")
    subprocess.run(["git", "init", "--quiet", tmp_path / "empty"], check=True)
    with pytest.raises(UserError, match="empty: no commit to pin: it has no commit yet"):
        start(tmp_path / "empty", "local")


def test_of_several_clones_those_that_cannot_be_read_are_left_out_and_named(tmp_path, capsys):
    repository(tmp_path / "mine/good", 40)
    subprocess.run(["git", "init", "--quiet", tmp_path / "mine/empty"], check=True)
    other = repository(tmp_path / "mine/other", 3)
    shutil.rmtree(other / ".git")
    subprocess.run(["git", "init", "--quiet", "--object-format=sha256", other], check=True)
    commit(other)
    start(tmp_path / "mine", "local")
    assert loaded("mine").experiment.corpus.compose["own"].sources == ["good"]
    left_out = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: left out: ")]
    assert len(left_out) == 2 and "mine/empty: no commit to pin: it has no commit yet, or" in left_out[0]
    assert "mine/other: no commit to pin: its object format is SHA-256" in left_out[1]


def test_a_partial_clone_is_named_as_such(tmp_path):
    origin = repository(tmp_path / "origin", 40)
    subprocess.run(["git", "-C", origin, "config", "uploadpack.allowFilter", "true"], check=True)
    partial = tmp_path / "partial"
    url = f"file://{origin}"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", "--filter=blob:none", url, partial], check=True)
    with pytest.raises(UserError, match="partial: no commit to pin: it is a partial clone; clone it whole"):
        start(partial, "local")


def test_a_clone_within_a_clone_and_a_link_are_not_taken(tmp_path):
    outer = repository(tmp_path / "all/outer", 1)
    repository(outer / "vendor/inner", 1)
    (tmp_path / "all/link").symlink_to(outer)
    assert clones_below(tmp_path / "all") == [outer]


@pytest.mark.parametrize("in_folder", [False, True])
def test_chats_become_an_experiment_of_their_own(tmp_path, capsys, in_folder):
    chats = tmp_path / "support.jsonl"
    if in_folder:
        chats = tmp_path / "support/a.jsonl"
        chats.parent.mkdir()
    turns = [
        [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": "!"}] for number in range(130)
    ]
    lines = [json.dumps({"messages": messages}) for messages in turns]
    chats.write_text("\n".join([*lines, lines[0], "{}"]) + "\n")
    given = chats.parent if in_folder else chats
    start(given, "local")
    view = loaded("support")
    assert list(view.experiment.corpus.compose) == ["chats"] and view.experiment.sources is None
    assert view.experiment.training.train["chat"].origin == "base"
    assert "qa" in view.suites and "completion" not in view.suites
    said = capsys.readouterr().out
    assert said.startswith(f"{given}: 130 chats, left out: 1 duplicate, 1 no_messages\n")
    assert "about 13 of them are held out" in said and "warning: fewer" not in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no chat to train on, left out: none; docs"),
        ("not json\n", "1: not JSON"),
        ('{"task_id": 1, "prompt": "def f():"}\n', "1: no `messages`"),
    ],
)
def test_a_file_without_chats_is_one_line_and_nothing_is_written(tmp_path, content, says):
    chats = tmp_path / "support.jsonl"
    chats.write_text(content)
    with pytest.raises(UserError, match=says):
        start(chats, "local")
    assert not Path("config/support.yaml").exists()


def test_nothing_that_is_there_is_overwritten(tmp_path):
    Path("config/mine.yaml").write_text("experiment: mine\n")
    with pytest.raises(UserError, match=r"config/mine.yaml: already there; remove or rename it first"):
        start(repository(tmp_path / "mine", 40), "local")
    assert Path("config/mine.yaml").read_text() == "experiment: mine\n"
