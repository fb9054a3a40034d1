"""`stagecraft try`: which texts the base and a stage are asked to continue, and one line where there is nothing."""

import io
import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.common.errors import UserError
from scripts.common.files import write_json, write_jsonl
from scripts.report.commands import try_models
from scripts.serving import assistant
from scripts.serving.assistant import Written
from tests.evaluation.synthetic import make_experiment

CODE = "import os\n\n\ndef joined(path):\n    return os.path.join(path)\n"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """The prompts that models were asked, of an experiment with a training file that resembles the place."""
    monkeypatch.chdir(tmp_path)
    changes = {"evaluation.perplexity.retrieval": {"datasets": ["code"]}}
    experiment, prompts = make_experiment([], changes), {}
    monkeypatch.setattr("scripts.experiment.load.experiment_of", lambda *_: (Path("x.yaml"), experiment))
    for model in ("base", "train/pretrain", "train/sft"):
        (tmp_path / "results/training" / model).mkdir(parents=True)
        (tmp_path / "results/training" / model / "manifest.json").write_text("{}")
    examples = [{"id": "s/paths.py", "text": "def joined_paths(path):\n    return path\n"}]
    examples.append({"id": "s/a.py", "text": CODE})  # the file of the place itself
    write_jsonl(tmp_path / "results/corpus/compose/code/train.jsonl.zst", examples)
    (tmp_path / "a.py").write_text(CODE)

    class Model(NamedTuple):
        folder: Path
        encoder = None

    def write(self, prompt, settings):
        prompts.setdefault(self.name, []).append(prompt)
        return Written(f"{self.name} writes", 1, 1, "stop")

    monkeypatch.setattr(assistant, "load", Model)
    monkeypatch.setattr(assistant.Assistant, "write", write)
    return prompts


def test_a_place_is_continued_alone_and_after_code_that_resembles_it(asked, capsys):
    try_models.try_models("local", None, None, "a.py:5", None)
    before = "".join(CODE.splitlines(keepends=True)[:4])
    retrieved = "def joined_paths(path):\n    return path\n\n"
    assert asked == {"base": [before, retrieved + before], "pretrain": [before, retrieved + before]}
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("===")] == [
        "=== base",
        "=== base + retrieval",
        "=== pretrain",
        "=== pretrain + retrieval",
    ]
    assert said.count("    after s/paths.py:1\n") == 2 and "a.py: trained on (code)\n" in said
    for folder, known in (("other", False), ("s", True)):  # of another repository; of the source, edited since
        Path(folder).mkdir()
        Path(folder, "a.py").write_text(f"{CODE}# edited\n")
        try_models.try_models("local", None, None, f"{folder}/a.py:5", None)
        assert ("trained on" in capsys.readouterr().out) == known


def test_a_running_server_is_asked_for_the_stage(asked, tmp_path, monkeypatch, capsys):
    write_json(tmp_path / "results/work/serve.json", {"port": 1, "model": "pretrain"})
    requests = []

    def opened(request, timeout):
        requests.append(json.loads(request.data))
        return io.BytesIO(json.dumps({"choices": [{"text": f"text {len(requests)}"}]}).encode())

    monkeypatch.setattr(try_models.urllib.request, "urlopen", opened)
    try_models.try_models("local", None, "pretrain", "a.py:5", None)
    assert [(body["model"], body["user"]) for body in requests] == [("pretrain-alone", "a.py"), ("pretrain", "a.py")]
    assert "=== pretrain + retrieval, served\ntext 2\n" in capsys.readouterr().out and asked == {}


def test_without_an_experiment_that_with_the_newest_results_is_taken_and_named(asked, tmp_path, capsys):
    (tmp_path / "config").mkdir()
    for name, at in (("old", 1_000_000), ("new", 2_000_000)):
        (tmp_path / f"config/{name}.yaml").write_text(f"results: results/{name}\n")
        write_json(tmp_path / f"results/{name}/eval.json", {})
        os.utime(tmp_path / f"results/{name}/eval.json", (at, at))
    try_models.try_models("local", None, None, None, "hi")
    assert capsys.readouterr().out.startswith("experiment: config/new.yaml, whose results are the newest\n")


def test_a_column_is_a_place_within_a_line(asked):
    try_models.try_models("local", None, None, "a.py:4:8", None)
    assert asked["base"][0] == "import os\n\n\ndef joi"


def test_lines_are_counted_as_editors_count_them_and_line_ends_stay(asked):
    Path("a.py").write_bytes(b"import os\r\n\f\r\n# \xe2\x80\xa8\r\nos.exit\r\n")
    try_models.try_models("local", None, None, "a.py:4:4", None)
    assert asked["base"][0] == "import os\r\n\f\r\n# \u2028\r\nos."


def test_a_chat_is_answered_by_the_last_stage_alone_where_nothing_is_found(asked):
    try_models.try_models("local", None, None, None, "你好")
    assert asked == {model: [[{"role": "user", "content": "你好"}]] for model in ("base", "sft")}


@pytest.mark.parametrize(
    ("stage", "at", "chat", "line"),
    [
        (None, None, None, "give either --at FILE:LINE or --chat TEXT"),
        (None, "a.py:2", "x", "give either --at FILE:LINE or --chat TEXT"),
        ("nowhere", "a.py:2", None, "nowhere: no such stage; known: pretrain, sft"),
        (None, "a.py", None, "--at a.py: must be FILE:LINE or FILE:LINE:COLUMN"),
        (None, "a.py:1", None, "--at a.py:1: a.py has 5 lines; give one from 2 to 6"),
        (None, "a.py:2:3", None, "--at a.py:2:3: line 2 has 0 characters; give a column from 1 to 1"),
        (None, "a.py:2:0", None, "--at a.py:2:0: line 2 has 0 characters; give a column from 1 to 1"),
        (None, "b.py:3", None, "--at b.py:3: no file b.py"),
        (None, "a.py:9", None, "--at a.py:9: a.py has 5 lines; give one from 2 to 6"),
    ],
)
def test_what_cannot_be_tried_is_one_line(asked, stage, at, chat, line):
    with pytest.raises(UserError, match=line):
        try_models.try_models("local", None, stage, at, chat)
    assert asked == {}


def test_a_model_that_is_not_trained_yet_is_one_line(asked, tmp_path):
    shutil.rmtree(tmp_path / "results/training/train/pretrain")
    with pytest.raises(UserError, match=r"train/pretrain: no model there yet; run the experiment first"):
        try_models.try_models("local", None, "pretrain", "a.py:2", None)
