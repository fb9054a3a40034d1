"""The suites qa and bleu, end to end on a tiny model, against transformers' own generate and sacrebleu's command."""

import json
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.contamination import Prompts, read_problems
from scripts.evaluation.generation.chat_suite import score
from scripts.evaluation.generation.examples import solved_before, split_chat
from scripts.evaluation.generation.model import ScoredModel
from scripts.evaluation.metrics.metric import summarize
from scripts.evaluation.suites import bleu, qa
from scripts.evaluation.suites.bleu import SUITE as OVERLAP
from scripts.evaluation.suites.bleu import Settings as Bleu
from scripts.evaluation.suites.qa import Settings as Qa
from scripts.experiment.settings.record import to_json
from tests.evaluation.conftest import CHATS

SETTINGS = Qa(datasets=["instruct"], documents=200, max_new_tokens=12)


@pytest.fixture(scope="module")
def command_output(model_folder, datasets, tmp_path_factory):
    """What the command of qa writes: items, scores, log."""
    out = tmp_path_factory.mktemp("qa")
    command = [sys.executable, "-m", "scripts.evaluation.suites.qa", "--model", model_folder, "--datasets", datasets]
    command += ["--settings", to_json(SETTINGS), "--seed", "42", "--out", out]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(read_jsonl(out / "items.jsonl.zst")), read_json(out / "scores.json"), done.stderr


def test_the_prompt_is_all_messages_before_the_last_assistant_turn():
    prompt, reference = split_chat({"messages": CHATS["c/1"]})
    assert [turn["role"] for turn in prompt] == ["user", "assistant", "user"]
    assert reference == "Yes."
    prompt, reference = split_chat({"messages": CHATS["c/0"]})  # its last turn is empty
    assert ([turn["role"] for turn in prompt], reference) == (["user"], "它返回 x + 0。")
    assert split_chat({"messages": CHATS["c/0"][1:]}) == ([], reference)


def test_chosen_chats_are_scored_after_solved_ones(model_folder, datasets, tmp_path, monkeypatch):
    prompts = []
    generate = ScoredModel.generate

    def record(self, texts, *rest, **more):
        prompts.extend(texts)
        return generate(self, texts, *rest, **more)

    monkeypatch.setattr(ScoredModel, "generate", record)
    chosen = SETTINGS.model_copy(update={"few_shot": ["c/4", "c/2"], "max_new_tokens": 1})
    score(qa.SCORER, model_folder, datasets, chosen, 42, tmp_path)
    assert [item["id"] for item in read_jsonl(tmp_path / "items.jsonl.zst")] == ["c/0", "c/1", "c/3"]
    asked = {name: split_chat({"messages": CHATS[name]})[0] for name in CHATS}
    assert prompts == [[*CHATS["c/4"], *CHATS["c/2"], *asked[name]] for name in ("c/0", "c/1", "c/3")]
    overlaps = Prompts(**qa.prompts(chosen))
    assert [problem.id for problem in read_problems("qa", overlaps, datasets)] == ["c/0", "c/1", "c/3"]


def test_solved_chats_stand_behind_the_system_message():
    system, *turns = [{"role": role, "content": role} for role in ("system", "user", "assistant", "user")]
    solved = {"messages": [{"role": "system", "content": "another"}, *CHATS["c/1"]]}
    assert solved_before([system, *turns], [solved]) == [system, *CHATS["c/1"], *turns]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"few_shot": ["x"]}, r"evaluation.qa.few_shot: no test chat 'x' in instruct; one is 'c/0'"),
        ({"few_shot": list(CHATS)}, r"evaluation.qa: `few_shot` leaves no chat of instruct"),
    ],
)
def test_chosen_chats_that_do_not_exist_are_one_line_errors(tmp_path, datasets, changes, error):
    with pytest.raises(UserError, match=error):
        score(qa.SCORER, tmp_path, datasets, SETTINGS.model_copy(update=changes), 42, tmp_path / "out")


def test_completions_are_those_of_transformers_own_generate(command_output, model_folder):
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    items, _, _ = command_output
    assert [item["id"] for item in items] == sorted(CHATS)
    for item in items:
        prompt, reference = split_chat({"messages": CHATS[item["id"]]})
        ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_tensors="pt", return_dict=False)
        options = {"max_new_tokens": 12, "repetition_penalty": 1.1, "do_sample": False, "eos_token_id": ends}
        written = model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=ends[1], **options)
        text = [token for token in written[0, ids.shape[1] :].tolist() if token not in tokenizer.added_tokens_decoder]
        assert item["written"] == [tokenizer.decode(text)]
        assert (item["prompt"], item["reference"]) == (prompt[-1]["content"], reference)


def test_figures_of_several_samples_are_their_means():
    figures = qa.figures(["the quick sort", "C++", "C"], "C++")
    assert figures == pytest.approx({"exact_match": 2 / 3, "f1": 2 / 3, "strict_match": 1 / 3})


@pytest.mark.parametrize(
    ("tokenizer", "pairs"),
    [
        (
            "13a",
            [
                ("This Go code defines\n3 functions; it's fine.", "This Go code has 12 lines and defines 3 functions."),
                ("", "It builds on `fmt`."),
                ("it builds on fmt (and on os).", "It builds on `fmt` and `os`: 2 packages."),
            ],
        ),
        (
            "zh",
            [
                ("这段 Go 代码共 12 行，\n定义了 3 个函数。", "这段 Go 代码共 13 行，定义了 3 个函数和 1 个结构体。"),
                ("没有。", "实现上引用了 2 个包：`fmt`、`os`。"),
            ],
        ),
        ("13a", [("no", "nothing in common here at all")]),
    ],
)
def test_bleu_and_chrf_are_those_of_sacrebleus_command(tokenizer, pairs, tmp_path):
    for index, name in enumerate(("written", "references")):
        lines = [" ".join(pair[index].split()) for pair in pairs]  # its files hold a text a line
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    arguments = ["references", "-i", "written", "-m", "bleu", "chrf", "-tok", tokenizer, "-w", "12"]
    done = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *arguments], cwd=tmp_path, capture_output=True, check=True
    )
    theirs = json.loads(done.stdout)
    items = [bleu.figures([completion], reference) for completion, reference in pairs]
    ours = summarize(OVERLAP, items)
    assert [ours["bleu"], ours["chrf"]] == pytest.approx([score["score"] / 100 for score in theirs], abs=1e-10)
    signatures = bleu.facts([{"reference": reference} for _, reference in pairs])["signatures"]
    assert list(signatures) == [f"bleu {tokenizer}", "chrf"]
    assert [signature.split("|") for signature in signatures.values()] == [
        score["signature"].split("|") for score in theirs
    ]


def test_bleu_suite_counts_the_words_of_the_completions(model_folder, datasets, tmp_path):
    settings = Bleu(datasets=["instruct"], repetition_penalty=1.1, temperature=1.0, samples=2, max_new_tokens=6)
    scores = score(bleu.SCORER, model_folder, datasets, settings, 42, tmp_path)
    items = list(read_jsonl(tmp_path / "items.jsonl.zst"))
    assert [len(item["written"]) for item in items] == [2] * len(CHATS)
    for item in items:
        assert item["bleu"] == bleu.figures(item["written"], item["reference"])["bleu"]
        assert item["written"][0] != item["written"][1]
    assert 0 <= scores["scores"]["instruct"]["all"]["bleu"] <= scores["scores"]["instruct"]["all"]["chrf"] <= 1
    assert "tok:zh" in scores["signatures"]["bleu zh"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"datasets": ["chats"]}, r"evaluation\.qa\.datasets: no 'chats' in .*; it has: code, empty, instruct"),
        ({"datasets": ["empty"]}, r"empty/test\.jsonl\.zst: no test example"),
        ({"max_new_tokens": 5000}, r"exceed the model's 4096 positions"),
    ],
)
def test_prompts_that_are_missing_or_too_long_are_one_line_errors(changes, line, model_folder, datasets, tmp_path):
    with pytest.raises(UserError, match=line) as refused:
        score(qa.SCORER, model_folder, datasets, SETTINGS.model_copy(update=changes), 42, tmp_path / "out")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
