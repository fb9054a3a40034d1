"""Suite repository_tests: a model that writes the repository's own code has 1, one that writes nothing 0."""

import pytest

from scripts.common.files import read_json, read_jsonl, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.suites.repository_tests import Settings as RepositoryTests
from scripts.evaluation.suites.repository_tests import outcomes_of, repository_tests
from scripts.judge.repositories.repository_judge import Outcome
from tests.judge.repositories import shapes_repository
from tests.judge.repositories.test_repository_judge import AREA, task

SETTINGS = RepositoryTests(max_new_tokens=8, prompt_characters=900)


@pytest.fixture
def tasks(tmp_path):
    """The tasks `Box.area` and `mapped`."""
    archive = shapes_repository.archive(tmp_path)
    mapped = task("mapped", "test_mapped")
    write_jsonl(tmp_path / "tasks/tasks.jsonl.zst", [vars(AREA), vars(mapped)])
    write_manifest(tmp_path / "tasks", ["tasks.jsonl.zst"], archives={"made": str(archive)})
    return tmp_path / "tasks/tasks.jsonl.zst"


def scored(model_folder, tasks, monkeypatch, out, written, settings=SETTINGS):
    def generate(self, prompts, settings, seed, finished, label):
        return [[text] for text in written], {"name": "none", "version": "0"}

    monkeypatch.setattr("scripts.evaluation.generation.model.ScoredModel.generate", generate)
    repository_tests(model_folder, tasks, settings, 42, out)
    return read_json(out / "scores.json")["scores"]["repositories"]["all"], list(read_jsonl(out / "items.jsonl.zst"))


def test_the_repositorys_own_bodies_score_1_and_empty_ones_0(sandbox, model_folder, tasks, monkeypatch, tmp_path):
    own = [record["answer"] for record in read_jsonl(tasks)]
    score, _ = scored(model_folder, tasks, monkeypatch, tmp_path / "own", own)
    assert (score["repository_pass@1"], score["passed"], score["documents"]) == (1, 2, 2)
    score, items = scored(model_folder, tasks, monkeypatch, tmp_path / "empty", ["pass", "pass"])
    assert (score["repository_pass@1"], score["failed"]) == (0, 2)
    assert items[0]["source"] == "made" and "area" in items[0]["prompt"]


def test_a_continuation_is_cut_where_the_body_ends_and_an_infill_is_not(
    sandbox, model_folder, tasks, monkeypatch, tmp_path
):
    written = [f"{record['answer']}\n\ndef more(:" for record in read_jsonl(tasks)]
    score, _ = scored(model_folder, tasks, monkeypatch, tmp_path / "fim", written)
    assert (score["repository_pass@1"], score["does not load"]) == (0, 2)
    plain = SETTINGS.model_copy(update={"form": "plain"})
    score, items = scored(model_folder, tasks, monkeypatch, tmp_path / "plain", written, plain)
    assert score["repository_pass@1"] == 1 and items[0]["written"] == [f"{AREA.answer}\n\n"]


def test_where_an_own_body_does_not_pass_nothing_is_measured(sandbox, model_folder, tasks, monkeypatch, tmp_path):
    records = list(read_jsonl(tasks))
    records[1]["tests"] = ["tests/test_shapes.py::test_that_fails"]
    write_jsonl(tasks, records)
    manifest = read_json(tasks.parent / "manifest.json")
    write_manifest(tasks.parent, ["tasks.jsonl.zst"], archives=manifest["archives"])
    score, items = scored(model_folder, tasks, monkeypatch, tmp_path / "own", [record["answer"] for record in records])
    assert score["repository_pass@1"] is None and score["environment fault"] == 1
    assert items[1]["verdicts"][0]["detail"].startswith("the repository's own body: failed")


def test_a_program_that_breaks_the_judging_fails_and_is_not_left_out():
    class Judge:
        def judge(self, task, body):
            return Outcome("passed" if body == task.answer else "environment fault", "no report")

    verdicts = outcomes_of(Judge(), AREA, ["import os", AREA.answer])
    assert [verdict.outcome for verdict in verdicts] == ["failed", "passed"]
