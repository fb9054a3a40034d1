"""Tasks as chats that compose reads, and as Harbor folders whose own scripts tell the right body from none."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.commands.export_tasks import write_chats, write_harbor_tasks
from tests.judge.repositories import shapes_repository
from tests.judge.repositories.test_repository_judge import AREA, task

GROW = task("Box.grow", "test_grow[1]", "test_grow[2]")


def test_a_chat_asks_by_signature_and_docstring_and_answers_with_the_function(tmp_path):
    assert write_chats([GROW, AREA], tmp_path / "chats.jsonl") == 1  # area has no docstring
    (line,) = (tmp_path / "chats.jsonl").read_text().splitlines()
    question, answer = (message["content"] for message in json.loads(line)["messages"])
    assert "method `grow` of the class `Box`" in question
    assert '```python\ndef grow(self, by, note=MISSING):\n    """Make it larger, in place."""\n```' in question
    code = answer.removeprefix("```python\n").removesuffix("\n```")
    names = {"MISSING": object()}
    exec(code, names)  # noqa: S102
    assert names["grow"].__doc__ == "Make it larger, in place." and "self.seen.append(note)" in code
    with pytest.raises(UserError, match="none of the 1 functions has a docstring"):
        write_chats([AREA], tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()


def reward(folder: Path, app: Path, logs: Path) -> str:
    environment = {**os.environ, "APP": str(app), "LOGS": str(logs), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    subprocess.run([folder / "tests/test.sh"], check=True, env=environment, capture_output=True)
    return (logs / "reward.txt").read_text()


def test_a_harbor_task_holds_no_answer_and_its_scripts_give_0_and_1(tmp_path):
    archive = shapes_repository.archive(tmp_path)
    write_harbor_tasks([AREA], {"made": archive}, tmp_path / "harbor")
    (folder,) = (tmp_path / "harbor").iterdir()
    settings = tomllib.loads((folder / "task.toml").read_text())
    assert settings["version"] == "1.0" and settings["metadata"]["tests"] == AREA.tests
    assert {path.name for path in folder.iterdir()} == {
        "task.toml",
        "instruction.md",
        "environment",
        "tests",
        "solution",
    }
    app = folder / "environment/repository"
    assert AREA.answer not in (app / AREA.path).read_text() and not list(app.rglob("test_*.py"))
    assert "COPY repository /app" in (folder / "environment/Dockerfile").read_text()
    assert reward(folder, app, tmp_path / "logs") == "0\n"
    subprocess.run([folder / "solution/solve.sh"], check=True, env={**os.environ, "APP": str(app)})
    assert reward(folder, app, tmp_path / "logs") == "1\n"
    with pytest.raises(UserError, match=r"harbor: already exists; remove it or name another folder$"):
        write_harbor_tasks([AREA], {"made": archive}, tmp_path / "harbor")
