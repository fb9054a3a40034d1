"""scripts/report/page.py: a malformed eval.json or a broken picture is refused in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.report.page import render

ROOT = Path(__file__).parents[2]


@pytest.fixture
def malformed(tmp_path):
    path = tmp_path / "evaluation/gate/eval.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}")
    return path


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\x00", b'{"gates": '])
def test_malformed_evaluation_is_refused_in_one_line(content, malformed, tmp_path):
    malformed.write_bytes(content)
    with pytest.raises(UserError) as refused:
        render(tmp_path)
    assert str(refused.value).startswith(f"{malformed}: not ") and "\n" not in str(refused.value)


def test_the_command_refuses_a_malformed_evaluation_in_one_line_and_writes_no_page(malformed, tmp_path):
    command = [sys.executable, "-m", "scripts.report.page", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {malformed}: not ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "report.html").exists()
