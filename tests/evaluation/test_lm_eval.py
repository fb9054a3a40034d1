"""The suite lm_eval: tasks whose data lies here, against lm-eval's own sums and likelihoods taken by hand; mistakes."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import datasets as hf_datasets
import pytest
import torch
import yaml
from lm_eval import evaluator as harness
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import AutoTokenizer

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.evaluation.generation.model import load
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.items import read_scored
from scripts.evaluation.suites import lm_eval
from scripts.evaluation.suites.lm_eval import SUITE, files
from scripts.evaluation.suites.lm_eval import Settings as LmEval
from scripts.experiment.settings.suites import Generation

CONTROL = r"<[/|]\w+\|?>"
MEAN = {"aggregation": "mean", "higher_is_better": True}
COLOURS = {
    "task": "colours",
    "output_type": "multiple_choice",
    "doc_to_text": "Q: {{question}}\nA:",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "answer",
    "metric_list": [{"metric": "acc", **MEAN}, {"metric": "acc_norm", **MEAN}],
}
SUMS = {
    "task": "sums",
    "output_type": "generate_until",
    "doc_to_text": "{{a}} + {{b}} =",
    "doc_to_target": "{{right}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8, "do_sample": False},
    "metric_list": [{"metric": "exact_match", **MEAN}],
    "filter_list": [
        {"name": "strict", "filter": [{"function": "take_first"}]},
        {"name": "none", "filter": [{"function": "regex", "regex_pattern": "(no)"}, {"function": "take_first"}]},
    ],
}
QUESTIONS = [
    {"question": f"What colour is {thing}?", "choices": ["red", "light green", "blue"], "answer": number % 3}
    for number, thing in enumerate(("grass", "a rose", "the sky", "blood", "a leaf", "the sea", "a ruby", "moss"))
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of two tasks and a group, with their data; the libraries' cache is the test's own."""
    monkeypatch.setattr(hf_datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(harness, "add_env_info", lambda results: None)  # starts programs
    find_all = lm_eval.task_manager  # reading all of lm-eval's own tasks takes 6 s
    monkeypatch.setattr(lm_eval, "task_manager", lambda path, everything: find_all(path, False))
    path = tmp_path / "tasks"
    path.mkdir()
    write(path, COLOURS, QUESTIONS)
    write(path, SUMS, [{"a": number, "b": 2, "right": str(number + 2)} for number in range(6)])
    (path / "both.yaml").write_text(yaml.safe_dump({"group": "both", "task": ["colours", "sums"]}))
    return path


def write(folder: Path, task: dict, records: list[dict], **changes) -> None:
    """A task and its data, as lm-eval reads them."""
    data = folder / f"{task['task']}.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}, "test_split": "test"}
    source["fewshot_split"] = "test"
    (folder / f"{task['task']}.yaml").write_text(yaml.safe_dump(source | task | changes))


def settings(folder: Path, *tasks: str, **others) -> LmEval:
    return LmEval(tasks=list(tasks), include_path=str(folder), **others)


def likelihood(model, tokenizer, prompt: str, answer: str) -> float:
    prompt_ids, ids = (tokenizer(text, return_tensors="pt").input_ids for text in (prompt, prompt + answer))
    logits = torch.log_softmax(model.model(ids).logits[0, :-1], -1)
    return sum(logits[index - 1, ids[0, index]].item() for index in range(prompt_ids.shape[1], ids.shape[1]))


def test_items_are_the_models_own_choices_and_texts_and_sum_up_to_lm_evals_scores(folder, model_folder, tmp_path):
    """Choices: likelihoods by hand. Texts: this project's own generation. Sums: lm-eval's own aggregation."""
    names = ("colours", "colours:acc_norm", "sums", "sums:exact_match,none", "both")
    own = settings(folder, *names)
    model = load(model_folder)
    prompts = [f"{number} + 2 =" for number in range(6)]
    texts, _ = model.generate(prompts, Generation(max_new_tokens=8), 0)
    lm_eval.evaluate(model_folder, settings(folder, "sums"), tmp_path / "first")
    written = [item["written"][0] for item in read_jsonl(tmp_path / "first/items.jsonl.zst")]
    # ours leaves control tokens out of texts
    assert [re.sub(CONTROL, "", text) for text in written] == [text.split("\n")[0] for [text] in texts]
    right = [text if number % 2 else "no number" for number, text in enumerate(written)]
    write(folder, SUMS, [{"a": number, "b": 2, "right": right[number]} for number in range(6)])
    scores = lm_eval.evaluate(model_folder, own, tmp_path / "out")
    items = list(read_jsonl(tmp_path / "out/items.jsonl.zst"))
    items_of = {name: [item for item in items if item["dataset"] == name] for name in names}

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    for item, question in zip(items_of["colours"], QUESTIONS, strict=True):
        chances = [likelihood(model, tokenizer, item["prompt"], f" {choice}") for choice in question["choices"]]
        choice = chances.index(max(chances))
        assert item["written"] == [f" {question['choices'][choice]}"]
        assert item["task_score"] == (choice == question["answer"])
        assert item["reference"].strip() == question["choices"][question["answer"]]
    assert [item["written"][0] for item in items_of["sums"]] == written
    assert [item["task_score"] for item in items_of["sums"]] == [0, 1, 0, 1, 0, 1]
    assert {item["task_score"] for item in items_of["sums:exact_match,none"]} == {0}

    lm = HFLM(pretrained=model.model, tokenizer=tokenizer, batch_size=8)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    theirs = harness.simple_evaluate(lm, tasks=["both"], task_manager=manager, bootstrap_iters=0)["results"]
    ours = {name: scores["scores"][name]["all"]["task_score"] for name in names}
    assert ours["colours"] == theirs["colours"]["acc,none"] and ours["sums"] == theirs["sums"]["exact_match,strict"]
    assert ours["colours:acc_norm"] == theirs["colours"]["acc_norm,none"]
    assert scores["task_metrics"]["sums:exact_match,none"] == {"sums": "exact_match,none"}


def test_two_models_are_compared_on_the_same_items(folder, model_folder, tmp_path):
    """Paired, with McNemar's test; and not at all when the data changed in between."""
    own = settings(folder, "colours", limit=7, num_fewshot=2)
    for name in ("base", "sft"):
        lm_eval.evaluate(model_folder, own, tmp_path / name)
    scored = read_scored(tmp_path, SUITE, ["base", "sft"], ["colours"], "file")
    row = SuiteComparison(SUITE, scored, ["base", "sft"], 0.95).comparison(
        "task_score", ("colours", "all"), "sft", "base"
    )
    assert row["value"] == 0 and row["mcnemar"] == {"gained": 0, "lost": 0, "p": 1.0}
    assert len(scored["colours"].ids) == 7
    prompt = next(iter(read_jsonl(tmp_path / "base/items.jsonl.zst")))["prompt"]
    assert prompt.count("Q: ") == 3
    write(folder, COLOURS, QUESTIONS[::-1])
    lm_eval.evaluate(model_folder, own, tmp_path / "sft")
    with pytest.raises(UserError, match="colours: scored on test data"):
        read_scored(tmp_path, SUITE, ["base", "sft"], ["colours"], "file")


@pytest.mark.parametrize(
    ("names", "changes", "error"),
    [
        (["colour"], {}, "no task 'colour'; in include_path: both, colours, sums"),
        (["colours:f1"], {}, "colours: colours:f1: colours has no metric 'f1'"),
        (["sums:exact_match,other"], {}, "has no filter 'other'; it has strict, none"),
        (["both:acc"], {}, "sums has no metric 'acc' that .* it has exact_match"),
        (
            ["colours"],
            {"dataset_kwargs": {"data_files": {"test": "missing.jsonl"}}},
            "colours cannot be loaded: .*missing",
        ),
        (["colours"], {"dataset_path": "nobody/nothing", "dataset_kwargs": {}}, "colours cannot be loaded"),
        (["colours"], {"doc_to_text": "{{question"}, "colours cannot be loaded"),
        (["colours"], {"unsafe_code": True}, "without a sandbox; use evaluation.code"),
        (
            ["colours"],
            {"metric_list": [{"metric": "acc", **MEAN, "aggregation": "median"}]},
            "no metric 'acc' that is a mean",
        ),
    ],
)
def test_a_task_that_cannot_be_scored_is_refused_by_name_before_a_model_is_loaded(
    folder, tmp_path, monkeypatch, names, changes, error
):
    monkeypatch.setattr(lm_eval, "load", lambda folder: pytest.fail("loaded"))
    write(folder, COLOURS, QUESTIONS, **changes)
    with pytest.raises(UserError, match=f"^evaluation.lm_eval.tasks: (?s:.*){error.removeprefix('colours: ')}"):
        lm_eval.evaluate(tmp_path / "none", settings(folder, *names), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_data_outside_the_folder_is_refused_as_its_changes_would_not_be_noticed(folder, tmp_path):
    own = {"data_files": str((folder / "colours.jsonl").rename(tmp_path / "colours.jsonl"))}
    task = SimpleNamespace(config=SimpleNamespace(dataset_kwargs=own, dataset_path="json"))
    with pytest.raises(UserError, match=r"colours reads .*colours.jsonl, .* move it there"):
        lm_eval.check_data("colours", task, folder)
    assert [Path(file).name for file in files(settings(folder, "sums"))] == [
        *("both.yaml", "colours.yaml", "sums.jsonl", "sums.yaml")
    ]


def test_values_that_are_no_shares_are_refused():
    sample = {"acc": 1.5, "doc_id": 3, "target": "a", "arguments": [("p", "a")], "filtered_resps": ["a"], "doc": {}}
    with pytest.raises(UserError, match=r"acc of item 3 of colours is 1.5, not from 0 to 1"):
        lm_eval.item_of("colours", "colours", sample, "acc", False)
