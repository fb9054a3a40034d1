"""docs/own-chats.md: `compose` accepts the command on the page and prints the error lines on it."""

import re
import shlex
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.corpus import compose

PAGE = (Path(__file__).parents[2] / "docs/own-chats.md").read_text()
CHAT = '{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "yes"}]}\n'
WRONG = ['{"messages": [', '{"messages": [{"role": "tool", "content": "x"}]}']


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Write a file, then run the page's command in its folder."""
    command = re.search(r"^    (python -m scripts\.corpus\.compose .*\\\n.*)$", PAGE, re.MULTILINE)[1].replace(
        "\\\n", " "
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", shlex.split(command)[2:])

    def write_and_run(name: str, content: str) -> Path:
        path = tmp_path / "data/chat" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        compose.main()
        return tmp_path / "results/try/qa"

    return write_and_run


def test_the_command_writes_each_split_and_counts(run):
    out = run("answers.jsonl", "".join(CHAT % number for number in range(50)) + CHAT % 0 + '{"messages": []}\n')
    manifest = read_json(out / "manifest.json")
    assert sum(manifest["examples"].values()) == 50
    assert sum(count for dropped in manifest["dropped"].values() for count in dropped.values()) == 2
    assert all((out / f"{split}.jsonl.zst").is_file() for split in ("train", "validation", "test"))


def test_a_mistake_gives_the_line_on_the_page(run, caplog):
    shown = re.findall(r"^    (warning: .*)$", PAGE, re.MULTILINE)
    assert len(shown) == len(WRONG)
    for line, wrong in zip(shown, WRONG, strict=True):
        record_number = int(re.search(r"jsonl: (?:line )?(\d+):", line)[1])
        try:
            run("answers.jsonl", "".join(CHAT % number for number in range(record_number - 1)) + wrong)
        except UserError as error:  # so few chats may be in one split
            assert "no example left to train on" in str(error)
        assert line in [record.getMessage() for record in caplog.records]
