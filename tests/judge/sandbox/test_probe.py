"""scripts/judge/sandbox/probe.py: sees a sandbox that does not hold, falls back, and refuses in one line."""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.bubblewrap import MODES, Sandbox

pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "harm"), [("--unshare-pid", "see other processes"), ("--clearenv", "read the environment")]
)
def test_the_probe_reports_each_protection_that_the_sandbox_leaves_out(monkeypatch, option, harm):
    start = subprocess.Popen
    without = lambda command, **options: start([word for word in command if word != option], **options)  # noqa: E731
    monkeypatch.setattr(subprocess, "Popen", without)
    # processes that outlive the program keep its output open until the time limit
    monkeypatch.setattr(probe, "LIMITS", replace(probe.LIMITS, seconds=5))
    assert harm in probe.succeeded(Sandbox(MODES[0]))


def test_no_sandbox_is_a_one_line_error_that_says_what_to_allow(monkeypatch):
    monkeypatch.setattr(Sandbox, "namespaces", lambda self: ["--no-such-option"])
    with pytest.raises(
        UserError, match=r"^evaluation\.code: no sandbox can be made here \(.*no-such.*\); allow user name"
    ):
        probe.sandbox()


def test_a_sandbox_that_does_not_hold_is_refused_and_not_replaced_by_a_weaker_one(monkeypatch):
    monkeypatch.setattr(probe, "succeeded", lambda sandbox: ["see other processes", "write to /usr"])
    with pytest.raises(UserError, match=r"does not isolate: code in it could see other processes; write to /usr$"):
        probe.sandbox()


def test_without_bubblewrap_one_line_says_what_to_install(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "scripts.judge.sandbox.probe"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 1
    expected = "error: evaluation.code: generated code is run only in a sandbox; install bubblewrap (bwrap)\n"
    assert done.stderr == expected


@pytest.mark.skipif(not Sandbox(MODES[0]).root, reason="only root can become another user")
def test_an_ordinary_user_is_isolated_too():
    python = shutil.which("python3", path="/usr/bin")
    if not python or subprocess.run([python, "-c", "import sys; assert sys.version_info >= (3, 11)"]).returncode:
        pytest.skip("needs a Python >= 3.11 that every user can run, as /usr/bin/python3")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree("scripts", f"{folder}/scripts", ignore=shutil.ignore_patterns("__pycache__"))
        command = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", python, "-m"]
        done = subprocess.run([*command, "scripts.judge.sandbox.probe"], capture_output=True, text=True, cwd=folder)
    assert (done.returncode, "sandbox: full" in done.stderr) == (0, True), done.stderr
