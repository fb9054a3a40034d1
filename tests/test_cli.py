"""The command `stagecraft`: one line for each mistake, the same options everywhere, help without torch, any folder."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cli import app, call
from scripts.cli_options import experiments, find_experiment, find_profile
from scripts.common.errors import UserError

ROOT = Path(__file__).parents[1]
VERBS = [name for name in app if not name.startswith("-")]


def parsed(*words: str) -> dict:
    """The arguments of a verb as it gets them."""
    return app.parse_args(words, exit_on_error=False, print_error=False)[1].arguments


def test_there_are_fourteen_verbs():
    verbs = [
        "accept",
        "compare",
        "judge",
        "plan",
        "publish",
        "rehearse",
        "release",
        "serve",
        "sources",
        "start",
        "status",
        "try",
        "verify",
    ]
    assert [*verbs, "why"] == VERBS


def test_profile_and_experiment_are_the_same_options_everywhere():
    for name in VERBS:
        options = inspect.signature(app[name].default_command).parameters
        if name == "start":  # without a profile it finds this host's GPUs
            continue
        for shared in {"profile", "experiment"} & set(options):
            plan = inspect.signature(app["plan"].default_command).parameters[shared]
            assert options[shared] == plan, name


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["plann"], "plann: no such verb; did you mean plan?"),
        (["xyz"], f"xyz: no such verb; known: {', '.join(VERBS)}"),
        (
            ["--profile", "a40", "plan"],
            "--profile: options stand behind the verb, as in `stagecraft plan --profile a40`",
        ),
        (["plan", "--profle", "a40"], "Unknown option: --profle. Did you mean --profile?"),
        (["plan", "--rows", "many"], 'Invalid value for --rows: unable to convert "many" into int.'),
        (["compare", "results"], 'Command "compare" parameter B requires an argument.'),
        (["accept", "train.sft"], 'Command "accept" parameter --reason requires an argument.'),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(words, line, capsys):
    with pytest.raises(SystemExit) as end:
        call(words)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"error: {line}\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["status", "--profile", "a4O"], "--profile a4O: no such profile; did you mean a40?"),
        (["status", "--experiment", "lora-aq"], "--experiment lora-aq: no such file; did you mean lora-qa?"),
        (["plan", "--experiment", "config/experiments/lora_qa.yaml"], "did you mean lora-qa?"),
        (["status", "--experiment", "zzz"], f"zzz: no such file; known: {', '.join(experiments())}"),
        (["plan", "--rows", "0"], "--rows 0: packed training rows to plan for, at least 1"),
        (["judge", "b", "g", "--timeout", "0"], "--timeout 0: must be a number of seconds above 0"),
        (["judge", "b", "g", "--timeout", "nan"], "--timeout nan: must be a number of seconds above 0"),
        (["judge", "b", "g", "--memory", "1"], "--memory 1: must be from 64 to 1048575 megabytes"),
    ],
)
def test_what_is_not_there_is_one_line(words, line):
    with pytest.raises(UserError) as error:
        call(words)
    assert line in str(error.value) and "\n" not in str(error.value)


def test_paths_are_relative_to_where_the_user_stands(monkeypatch):
    monkeypatch.chdir(ROOT / "config/smoke")
    assert find_experiment("lora-qa.yaml") == Path("config/smoke/lora-qa.yaml")
    assert find_experiment("lora-qa") == Path("config/experiments/lora-qa.yaml")
    assert find_profile("../../profiles/a40") == "profiles/a40"
    assert parsed("compare", "a", "/b", "--out", "../c") == {
        "a": Path("config/smoke/a"),
        "b": Path("/b"),
        "out": Path("config/c"),
    }
    assert parsed("judge", "b", "g", "--packages", "../c")["packages"] == Path("config/c")


def test_a_default_path_lies_in_the_root_whatever_the_folder(monkeypatch):
    monkeypatch.chdir(ROOT / "docs")
    assert "out" not in parsed("compare", "a", "b")


def test_names_are_completed(capsys, monkeypatch):
    monkeypatch.chdir(ROOT / "docs")
    for words, name in ((["plan", "--profile", "a"], "a40-dual"), (["status", "--experiment", "cpt"], "cpt-muon")):
        with pytest.raises(SystemExit, match="0"):
            app(["__complete", *words])
        assert name in capsys.readouterr().out.split()
    script = app.generate_completion(shell="bash")
    assert all(verb in script for verb in VERBS)


def test_the_installed_command_works_below_the_checkout_and_its_help_imports_nothing_heavy(tmp_path):
    program = Path(sys.executable).with_name("stagecraft")
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run([program, "--help"], cwd=ROOT / "docs", env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "rehearse" in done.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "cyclopts" in imported
    assert not imported & {"torch", "transformers", "snakemake", "numpy", "pandas", "pydantic", "matplotlib"}
    done = subprocess.run([program, "status"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: this folder is in no checkout of stagecraft: change into one first\n"
