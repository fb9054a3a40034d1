"""The suite lm_eval: tasks whose data lies here, against lm-eval's own sums and likelihoods taken by hand; mistakes."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import datasets as hf_datasets
import pytest
import torch
import yaml
from lm_eval import evaluator as harness
from lm_eval.models.huggingface import HFLM

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.evaluation import lm_eval
from scripts.evaluation.generation import harness as lm_eval_harness
from scripts.evaluation.generation.model import load
from scripts.evaluation.metrics.registry import suites
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.items import read_scored
from scripts.experiment.settings.evaluation import LmEval
from scripts.experiment.settings.generation import Generation
from scripts.experiment.suites import problem_files

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

# A module `vllm` with what lm-eval's backend uses of it, on transformers.
VLLM = """
import json, os
from types import SimpleNamespace
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TokensPrompt = dict

class SamplingParams:
    def __init__(self, max_tokens, temperature, stop=(), prompt_logprobs=None, **others):
        assert temperature == 0
        self.new, self.stop, self.logprobs = max_tokens, stop, prompt_logprobs

class LLM:
    def __init__(self, **options):
        open(os.environ["REQUEST"], "a").write(json.dumps(options) + "\\n")
        self.model = AutoModelForCausalLM.from_pretrained(options["model"], dtype=options["dtype"])
        self.tokenizer = AutoTokenizer.from_pretrained(options["tokenizer"])
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace())

    def generate(self, prompts, sampling_params, use_tqdm, lora_request):
        assert lora_request is None
        return [self.one(p["prompt_token_ids"], s) for p, s in zip(prompts, sampling_params, strict=True)]

    @torch.inference_mode()
    def one(self, ids, sampling):
        logits = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        best = logits.argmax(-1).tolist()
        logprobs = [None] + [
            {token: logits[place, token].item() for token in {following, best[place]}}
            for place, following in enumerate(ids[1:])
        ]
        text, new = "", []
        while sampling.logprobs is None and len(new) < sampling.new:
            new.append(self.model(torch.tensor([ids + new])).logits[0, -1].argmax().item())
            text = self.tokenizer.decode(new)
            if any(stop in text for stop in sampling.stop):
                text = min((text.split(stop)[0] for stop in sampling.stop), key=len)
                break
        return SimpleNamespace(prompt_logprobs=logprobs, outputs=[SimpleNamespace(text=text)])
"""
VLLM_FILES = {
    "vllm/__init__.py": VLLM,
    "vllm/lora/__init__.py": "",
    "vllm/lora/request.py": "LoRARequest = None",
    "vllm/renderers/__init__.py": "",
    "vllm/renderers/hf.py": "def resolve_chat_template(tokenizer, **others): return tokenizer.chat_template",
    "vllm/tokenizers.py": "from transformers import AutoTokenizer\n"
    "def get_tokenizer(name, tokenizer_mode, **options): return AutoTokenizer.from_pretrained(name)",
    "vllm-0.33.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n",
}


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

    tokenizer = lm_eval.AutoTokenizer.from_pretrained(model_folder)
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
    manager = lm_eval.TaskManager(include_path=str(folder), include_defaults=False)
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
    suite = suites(["lm_eval"])["lm_eval"]
    scored = read_scored(tmp_path, suite, ["base", "sft"], ["colours"], "file")
    row = SuiteComparison(suite, scored, ["base", "sft"], 0.95).comparison(
        "task_score", ("colours", "all"), "sft", "base"
    )
    assert row["value"] == 0 and row["mcnemar"] == {"gained": 0, "lost": 0, "p": 1.0}
    assert len(scored["colours"].ids) == 7
    prompt = next(iter(read_jsonl(tmp_path / "base/items.jsonl.zst")))["prompt"]
    assert prompt.count("Q: ") == 3
    write(folder, COLOURS, QUESTIONS[::-1])
    lm_eval.evaluate(model_folder, own, tmp_path / "sft")
    with pytest.raises(UserError, match="colours: scored on test data"):
        read_scored(tmp_path, suite, ["base", "sft"], ["colours"], "file")


@pytest.mark.slow
def test_lm_evals_own_vllm_backend_gives_the_items_of_transformers(folder, model_folder, tmp_path, monkeypatch):
    """vLLM is a stand-in that computes with transformers; all else is lm-eval, started as with a real one."""
    for name, content in VLLM_FILES.items():
        (tmp_path / "path" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "path" / name).write_text(content)
    monkeypatch.setenv("REQUEST", str(tmp_path / "request.jsonl"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    names, others = (
        ("colours", "colours:acc_norm", "sums", "both"),
        {"ids": {"colours": [0, 2, 5], "sums": [1, 4]}, "num_fewshot": 2, "chat": True},
    )
    expected = lm_eval.evaluate(model_folder, settings(folder, *names, **others), tmp_path / "transformers")
    own = settings(folder, *names, engine="vllm", **others)
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(tmp_path / "path"))
        scores = lm_eval.evaluate(model_folder, own, tmp_path / "vllm", sys.executable)
    assert scores["scores"] == expected["scores"] and scores["data"] == expected["data"]
    assert scores["task_metrics"] == expected["task_metrics"]
    items = [list(read_jsonl(tmp_path / engine / "items.jsonl.zst")) for engine in ("transformers", "vllm")]
    for item in items[0] + items[1]:  # the backends differ in which control tokens they leave in texts
        item["written"] = [re.sub(CONTROL, "", text) for text in item["written"]]
    assert items[0] == items[1] and len(items[1]) == 13
    assert scores["engine"] == {"name": "lm-eval with vllm 0.33.0", "version": lm_eval_harness.lm_eval.__version__}
    options = json.loads((tmp_path / "request.jsonl").read_text())  # a single start, for all tasks
    assert options["model"] == str(model_folder.resolve())
    assert (options["dtype"], options["max_model_len"], options["generation_config"]) == ("float32", 4096, "vllm")


def test_another_version_of_lm_eval_beside_vllm_is_refused(folder, model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(lm_eval_harness, "run_worker", lambda python, request, worker: {"lm_eval": "0.4.1"})
    with pytest.raises(UserError, match=r"^/vllm/python: lm-eval 0.4.1 there, [\d.]+ here; install lm-eval=="):
        lm_eval.evaluate(model_folder, settings(folder, "sums", engine="vllm"), tmp_path / "out", "/vllm/python")


def test_chosen_items_alone_are_scored(folder, model_folder, tmp_path):
    scored = settings(folder, "both", ids={"colours": [6, 1]}, num_fewshot=1)
    lm_eval.evaluate(model_folder, scored, tmp_path)
    items = list(read_jsonl(tmp_path / "items.jsonl.zst"))
    assert [item["id"] for item in items if item["language"] == "colours"] == ["colours/1", "colours/6"]
    for item, number in zip(items[:2], (1, 6), strict=True):
        assert item["prompt"].endswith(f"Q: {QUESTIONS[number]['question']}\nA:") and item["prompt"].count("Q:") == 2
    assert sum(item["language"] == "sums" for item in items) == 6
    for ids, error in (
        ({"colour": [0]}, r"evaluation.lm_eval.ids: no task 'colour' among evaluation.lm_eval.tasks"),
        ({"colours": [8]}, r"evaluation.lm_eval.ids.colours: no item 8; the last one is 7"),
    ):
        with pytest.raises(UserError, match=error):
            lm_eval.evaluate(model_folder, settings(folder, "colours", ids=ids), tmp_path / "out")


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
    assert [Path(file).name for file in problem_files(settings(folder, "sums"))] == [
        *("both.yaml", "colours.yaml", "sums.jsonl", "sums.yaml")
    ]


def test_values_that_are_no_shares_are_refused():
    sample = {"acc": 1.5, "doc_id": 3, "target": "a", "arguments": [("p", "a")], "filtered_resps": ["a"], "doc": {}}
    with pytest.raises(UserError, match=r"acc of item 3 of colours is 1.5, not from 0 to 1"):
        lm_eval.item_of("colours", "colours", sample, "acc", False)
