"""Suite completion: what a model is shown, what counts as its answer, and the likelihood of the file's own code."""

import math
import shutil

import numpy as np
import pytest
import torch

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl, write_json, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.code_tasks.answers import Task, prompt_of
from scripts.evaluation.generation.model import load
from scripts.evaluation.generation.transformers_engine import Infill, encode
from scripts.evaluation.suites.completion import Settings as Completion
from scripts.evaluation.suites.completion import completion
from scripts.tokens.tokenization.encoder import Encoder

BEFORE = "".join(f"x{number} = {number}\n" for number in range(40)) + "def f(a):\n    "
AFTER = "\n\n" + "".join(f"y{number} = {number}\n" for number in range(40))
TASKS = [
    Task("r/a.py:42-42", "line", "python", "r", "a.py", BEFORE, "return a + x3", AFTER),
    Task("r/a.py:43-44", "function", "python", "r", "a.py", BEFORE, "a = x1\n    return a", AFTER),
]
SETTINGS = Completion(dataset="code", max_new_tokens=8, prompt_characters=90)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl.zst"
    write_jsonl(path, [vars(task) for task in TASKS])
    return path


def test_a_prompt_is_the_file_around_the_answer_cut_at_line_ends():
    prefix, suffix = prompt_of(TASKS[0], SETTINGS)
    assert BEFORE.endswith(f"\n{prefix}") and AFTER.startswith(f"{suffix}\n")
    assert 45 < len(prefix) <= 60 and 15 < len(suffix) <= 30
    plain = prompt_of(TASKS[0], SETTINGS.model_copy(update={"form": "plain"}))
    assert BEFORE.endswith(f"\n{plain}") and 75 < len(plain) <= 90


def test_fill_in_the_middle_has_its_control_tokens_and_text_that_spells_one_stays_text(model_folder):
    encoder = Encoder(model_folder)
    ids, ends, _, _ = encode(encoder, Infill("x = a<|fim_middle|>", "b"))
    controls = [token for token in ids if token in encoder.controls.values()]
    assert controls == [encoder.controls[f"<|fim_{part}|>"] for part in ("prefix", "suffix", "middle")]
    assert ids[-1] == encoder.controls["<|fim_middle|>"]
    assert {encoder.end, encoder.controls["<|fim_pad|>"], encoder.controls["<|im_end|>"]} <= set(ends)


@pytest.mark.parametrize("form", ["fim", "plain"])
def test_the_likelihood_is_that_of_the_answers_tokens_after_the_prompt(model_folder, tasks, tmp_path, form):
    settings = SETTINGS.model_copy(update={"form": form})
    completion(model_folder, tasks, settings, 42, tmp_path)
    model = load(model_folder)
    for item, task in zip(read_jsonl(tmp_path / "items.jsonl.zst"), TASKS, strict=True):
        shown = prompt_of(task, settings)
        prefix = shown if form == "plain" else shown.prefix
        together = model.encoder.continuation(prefix + task.answer)
        # the answer begins with the token that holds its first byte
        first = sum(np.cumsum(model.encoder.bytes_of[together]) <= len(prefix.encode()))
        ids = together
        if form == "fim":
            begin, suffix, middle = model.encoder.files.infill
            kept = len(encode(model.encoder, shown).ids) - len(model.encoder.continuation(shown.suffix)) - 3
            ids = [begin, *together[:kept], suffix, *model.encoder.continuation(shown.suffix), middle, *together[kept:]]
            first += len(ids) - len(together)
        with torch.inference_mode():
            logits = model.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        expected = -sum(float(logits[place - 1, ids[place]]) for place in range(first, len(ids)))
        assert item["answer_nll"] == pytest.approx(expected, rel=1e-5)
        assert item["answer_bytes"] == len(task.answer)
    scores = read_json(tmp_path / "scores.json")
    line = scores["scores"]["line"]["all"]
    first = next(read_jsonl(tmp_path / "items.jsonl.zst"))
    assert line["answer_bits_per_byte"] == pytest.approx(first["answer_nll"] / math.log(2) / len(TASKS[0].answer))
    assert scores["by_source"]["r"]["line"] == line


@pytest.mark.parametrize(("form", "matches"), [("fim", [0, 1]), ("plain", [1, 1])])
def test_an_infill_must_stop_at_the_right_place_and_a_continuation_is_cut_there(
    model_folder, tasks, tmp_path, monkeypatch, form, matches
):
    written = ["return a + x3\nmore = 1", "a = x1\n    return a"]

    def generate(self, prompts, settings, seed, finished, label):
        assert [finished(number, text) for number, text in enumerate(written)] == [True, False]
        return [[text] for text in written], {"name": "none", "version": "0"}

    monkeypatch.setattr("scripts.evaluation.generation.model.ScoredModel.generate", generate)
    completion(model_folder, tasks, SETTINGS.model_copy(update={"form": form}), 42, tmp_path)
    assert [item["completion_match"] for item in read_jsonl(tmp_path / "items.jsonl.zst")] == matches


def test_a_tokenizer_without_the_tokens_is_refused_with_the_form_to_set(model_folder, tasks, tmp_path):
    shutil.copytree(model_folder, tmp_path / "model")
    path = tmp_path / "model/tokenizer.json"
    description = read_json(path)
    description["added_tokens"] = [
        added_token for added_token in description["added_tokens"] if "fim" not in added_token["content"]
    ]
    write_json(path, description)
    manifest = read_json(tmp_path / "model/manifest.json")
    write_manifest(tmp_path / "model", list(manifest["files"]))
    with pytest.raises(UserError, match=r"^evaluation\.completion\.form: .* <\|fim_middle\|>; set `form: plain`$"):
        completion(tmp_path / "model", tasks, SETTINGS, 42, tmp_path / "out")


def test_with_retrieval_each_answer_is_also_written_after_the_retrieved_code(model_folder, tmp_path, monkeypatch):
    tasks = [Task(**vars(task) | {"retrieved": "def g(b): return b\n\n"}) for task in TASKS]
    write_jsonl(tmp_path / "tasks.jsonl.zst", [vars(task) for task in tasks])
    asked = []

    def generate(self, prompts, settings, seed, finished, label):
        asked.append(prompts)
        answers = ["pass", "pass"] if len(asked) == 1 else [task.answer for task in TASKS]
        return [[text] for text in answers], {"name": "none", "version": "0"}

    monkeypatch.setattr("scripts.evaluation.generation.model.ScoredModel.generate", generate)
    settings = SETTINGS.model_copy(update={"form": "plain", "retrieval": True})
    completion(model_folder, tmp_path / "tasks.jsonl.zst", settings, 42, tmp_path / "out")
    alone, after = asked
    assert after == ["def g(b): return b\n\n" + prompt for prompt in alone]
    for item in read_jsonl(tmp_path / "out/items.jsonl.zst"):
        assert (item["completion_match"], item["retrieval"]["figures"]["completion_match"]) == (0, 1)
        assert item["retrieval"]["written"] == [item["reference"]]
