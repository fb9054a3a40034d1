"""Rule baselines: sizes against the compressor called on whole texts, what is scored of a chat, and gates beside it."""

import json

import pyppmd
import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation import baselines as rule
from scripts.evaluation.baselines import Scored, baselines, spans, training_text
from scripts.evaluation.gate import evaluate
from scripts.evaluation.suites.perplexity import BASELINES
from tests.evaluation.synthetic import build, dump, gate

REPEATED = "def total(values):\n    return sum(value.amount for value in values if value.open)\n"


def dataset(root, name, **splits):
    folder = root / name
    folder.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        examples = [{"id": f"{name}/{n}.py", "language": "python", **e} for n, e in enumerate(splits.get(split, []))]
        write_jsonl(folder / f"{split}.jsonl.zst", examples)
    write_manifest(folder, [f"{split}.jsonl.zst" for split in ("train", "validation", "test")])
    return folder


def chat(*turns):
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def size(text):
    encoder = pyppmd.Ppmd7Encoder(rule.ORDER, rule.MEMORY)
    return len(encoder.encode(text.encode()) + encoder.flush())


def test_bits_are_those_of_the_compressor_alone_and_after_the_training_data(tmp_path):
    other = "class Reader:\n    def __init__(self, path):\n        self.path = path\n"
    dataset(tmp_path, "code", train=[{"text": REPEATED}], test=[{"text": REPEATED}, {"text": other}])
    scores = baselines(tmp_path, Scored(datasets=["code"], documents=9), tmp_path / "out", ["code"])
    first, second = read_jsonl(tmp_path / "out/items.jsonl.zst")
    for item, text in ((first, REPEATED), (second, other)):
        read = REPEATED + "\n"
        assert item["bytes"] == len(text)
        assert item["compressor"] == 8 * (size(text) - size(""))
        assert item["compressor_trained"] == 8 * (size(read + text) - size(read))
    assert first["compressor_trained"] < 0.2 * first["compressor"]  # it has read this very text
    total = first["bytes"] + second["bytes"]
    assert scores["scores"]["code"]["compressor"] == (first["compressor"] + second["compressor"]) / total


def test_of_a_chat_only_the_assistants_words_count_given_what_comes_before(tmp_path):
    example = chat(("system", "Be short."), ("user", f"Repeat: {REPEATED}"), ("assistant", REPEATED))
    assert spans(example) == [(f"Be short.\nRepeat: {REPEATED}\n".encode(), REPEATED.encode())]
    assert len(spans(chat(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")))) == 2
    dataset(tmp_path, "chats", test=[example, chat(("user", "Hello"), ("assistant", ""))])
    scores = baselines(tmp_path, Scored(datasets=["chats"], documents=9), tmp_path / "out")
    repeated, nothing = read_jsonl(tmp_path / "out/items.jsonl.zst")
    assert repeated["bytes"] == len(REPEATED) and repeated["compressor"] < 0.3 * 8 * size(REPEATED)
    assert repeated["compressor_trained"] == repeated["compressor"]  # there is no training data
    assert nothing["bytes"] == 0 and scores["compressor"]["bytes_read"] == 0


def test_what_is_read_is_bounded_and_does_not_depend_on_the_order_of_the_examples(tmp_path, monkeypatch):
    monkeypatch.setattr(rule, "READ", 2000)
    texts = [{"text": f"value_{number} = {number * number}\n" * 7} for number in range(60)]
    dataset(tmp_path, "code", train=texts)
    read = training_text(tmp_path, ["code"])
    assert len(read) == 2000
    folder = tmp_path / "code/train.jsonl.zst"
    write_jsonl(folder, list(read_jsonl(folder))[::-1])
    assert training_text(tmp_path, ["code"]) == read


def test_a_gate_that_the_compressor_meets_is_said_to_be_one_and_models_are_compared_with_it(tmp_path):
    gates = [gate("easy", below=3), gate("hard", below=0.1), gate("gain", against="base", below=0)]
    evaluation = evaluate(build(tmp_path, gates), tmp_path / "results")
    met = [result.get("also_met_by") for result in evaluation["gates"]]
    assert met == [["compressor", "compressor_trained"], None, None]
    scores = evaluation["baselines"]["scores"]["code"]
    base = evaluation["scores"]["base"]["perplexity"]["code"]["all"]["bits_per_byte"]["value"]
    assert scores["compressor"]["value"] == pytest.approx(base / 2)  # as written
    rows = {(row["model"], row["against"]): row for row in evaluation["baselines"]["rows"] if row["dataset"] == "code"}
    row = rows["base", "compressor_trained"]
    assert row["value"] == pytest.approx(0.8 * base) and row["direction"] == "worse" and row["p"] < 1e-6
    assert set(rows) == {(model, name) for model in ("base", "pretrain", "sft") for name in BASELINES}


def test_baselines_of_other_examples_are_refused(tmp_path):
    experiment, folder = build(tmp_path, []), tmp_path / "results/evaluation/baselines"
    facts = json.loads((folder / "scores.json").read_text())
    dump(folder / "scores.json", facts | {"data": {"code": "other"}})
    with pytest.raises(UserError, match="not of the examples of code that perplexity scored"):
        evaluate(experiment, tmp_path / "results")
