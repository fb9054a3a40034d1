"""Suite perplexity against direct float64 computation, one example at a time, without padding."""

import copy
import itertools
import math
import unicodedata
from collections import Counter

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl, sha256_file, write_json, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.code_tasks.places import places as places_of
from scripts.evaluation.code_tasks.places import spans
from scripts.evaluation.generation import likelihood
from scripts.evaluation.generation.examples import pick_examples
from scripts.evaluation.generation.likelihood import even_windows, joined, negative_log_likelihood, windows
from scripts.evaluation.suites.perplexity import Settings as Perplexity
from scripts.evaluation.suites.perplexity import perplexity
from scripts.tokens.tokenization.encoder import Encoded, Encoder
from tests.evaluation.conftest import CHATS, TEXTS

SETTINGS = Perplexity(datasets=["code", "instruct"], documents=200, context=64, stride=40)


@pytest.fixture(scope="session")
def model(model_folder):
    return AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def exact(model):
    return copy.deepcopy(model).double()


def naive(model, ids, targets, context, stride) -> float:
    """NLL of the targets, token by token: a window for each, found by walking, no batch, no padding."""
    nll, end = 0.0, min(context, len(ids))
    scored_until = 1
    while scored_until < len(ids):
        start = max(0, end - context)
        with torch.no_grad():
            logits = model(torch.tensor([ids[start:end]])).logits[0]
        for position in range(scored_until, end):
            if targets[position]:
                nll -= torch.log_softmax(logits[position - start - 1], 0)[ids[position]].item()
        scored_until, end = end, min(end + stride, len(ids))
    return nll


def encoded_by_hugging_face(folder, example):
    """(ids, targets) by transformers alone."""
    loaded = AutoTokenizer.from_pretrained(folder)
    if "text" in example:
        ids = [*loaded(example["text"])["input_ids"], loaded.eos_token_id]
        return ids, [False] + [True] * (len(ids) - 1)
    ids, targets = [], []
    turns = [{"role": "system", "content": "You are a helpful assistant."}, *example["messages"]]
    for turn in turns:
        start, end = (loaded.convert_tokens_to_ids(token) for token in ("<|im_start|>", "<|im_end|>"))
        header = [start, *loaded(f"{turn['role']}\n")["input_ids"]]
        content = [*loaded(turn["content"])["input_ids"], end]
        ids += header + content + loaded("\n")["input_ids"]
        targets += [False] * len(header) + [turn["role"] == "assistant"] * len(content) + [False]
    return ids, targets


@pytest.mark.parametrize(("context", "stride"), [(4096, 4096), (64, 40), (64, 64), (9, 4)])
def test_every_items_nll_equals_a_naive_float64_loop(
    model_folder, datasets, exact, tmp_path, monkeypatch, context, stride
):
    monkeypatch.setattr(likelihood, "CPU_BATCH", 700)  # several batches, with padding in them
    monkeypatch.setattr(likelihood, "POSITIONS", 50)
    settings = SETTINGS.model_copy(update={"context": context, "stride": stride, "documents": 2})
    perplexity(model_folder, datasets, settings, tmp_path / "tiny")
    items = list(read_jsonl(tmp_path / "tiny/items.jsonl.zst"))
    assert len(items) == 6
    for dataset in SETTINGS.datasets:
        for example in read_jsonl(datasets / dataset / "test.jsonl.zst"):
            for item in (item for item in items if item["id"] == example["id"]):
                ids, targets = encoded_by_hugging_face(model_folder, example)
                # a window of `context` new tokens would leave its first without a predecessor
                expected = naive(exact, ids, targets, context, min(stride, context - 1))
                assert item["nll"] == pytest.approx(expected, rel=2e-5)
                assert item["tokens"] == sum(targets)


def test_scores_are_ratios_of_sums_by_language_and_bytes_are_those_of_the_scored_text(model_folder, datasets, tmp_path):
    result = perplexity(model_folder, datasets, SETTINGS, tmp_path / "tiny")
    items = list(read_jsonl(tmp_path / "tiny/items.jsonl.zst"))
    loaded = AutoTokenizer.from_pretrained(model_folder)
    for item in items:
        if item["dataset"] == "code":
            text = unicodedata.normalize("NFC", TEXTS[item["id"]][1])
            first = loaded.decode(loaded(text)["input_ids"][:1])
            assert item["bytes"] == len(text.encode()) - len(first.encode())
        else:
            answers = [turn["content"] for turn in CHATS[item["id"]] if turn["role"] == "assistant"]
            assert item["bytes"] == len("".join(answers).encode())
    assert [(item["dataset"], item["id"]) for item in items] == sorted((item["dataset"], item["id"]) for item in items)
    assert list(result["scores"]["code"]) == ["all", "go", "python"]
    for language, of_language in result["scores"]["code"].items():
        chosen = [item for item in items if item["dataset"] == "code" and language in ("all", item["language"])]
        nll, tokens, size = (sum(item[key] for item in chosen) for key in ("nll", "tokens", "bytes"))
        assert (of_language["documents"], of_language["tokens"], of_language["bytes"]) == (len(chosen), tokens, size)
        assert of_language["perplexity"] == pytest.approx(math.exp(nll / tokens))
        assert of_language["bits_per_byte"] == pytest.approx(nll / math.log(2) / size)
    assert read_json(tmp_path / "tiny/scores.json") == result
    assert (result["model"], result["device"] != "") == ("tiny", True)
    assert result["data"]["code"] == sha256_file(datasets / "code/test.jsonl.zst")


def test_the_log_has_a_rounded_line_per_dataset(model_folder, datasets, tmp_path, caplog):
    caplog.set_level("INFO")
    result = perplexity(model_folder, datasets, SETTINGS, tmp_path / "tiny")
    score = result["scores"]["code"]["all"]
    assert f"bits per byte {score['bits_per_byte']:.3f} over 24 documents" in caplog.text


def test_two_runs_give_the_same_bytes(model_folder, datasets, tmp_path):
    for name in "ab":
        perplexity(model_folder, datasets, SETTINGS, tmp_path / name)
    for file in ("items.jsonl.zst", "scores.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_windows_score_each_target_once_and_give_each_at_least_the_overlap_as_context():
    rng = np.random.default_rng(0)
    for size, context, stride in [(1, 8, 3), (2, 8, 3), (8, 8, 8), (9, 8, 8), (100, 8, 3), (100, 8, 8), (50, 2, 1)]:
        targets = rng.random(size) < 0.6
        targets[0] = False
        seen = np.zeros(size, int)
        for window in windows(Encoded(np.zeros(size, np.uint32), targets, np.array([0, size])), context, stride):
            assert window.end - window.start <= context
            assert window.new - window.start >= (1 if window.start == 0 else context - min(stride, context - 1))
            seen[window.new : window.end] += 1
        assert (seen[targets] == 1).all()
        assert seen.max(initial=0) <= 1


def test_even_windows_score_each_target_once_and_joined_ones_after_the_same_tokens():
    sizes, contexts = (1, 2, 8, 9, 17, 50, 100), ((8, 3), (8, 8), (2, 1), (48, 16), (20, 6))
    for size, (context, stride) in itertools.product(sizes, contexts):
        targets = np.arange(size) > 0
        encoded = Encoded(np.zeros(2 * size, np.uint32), np.tile(targets, 2), np.array([0, size, 2 * size]))
        cut = even_windows(encoded, context, stride)
        whole = joined(cut)
        places = [{(w.example, token): w.start for w in each for token in range(w.new, w.end)} for each in (cut, whole)]
        assert places[0] == places[1] and len(places[0]) == 2 * (size - 1)
        assert sum(w.end - w.new for w in cut) == 2 * (size - 1)
        assert all(w.start < w.new and w.end - w.new <= stride and w.end - w.start <= context for w in cut)
        assert sum(w.start == 0 for w in whole) == 2 * (size > 1)


def test_padding_and_neighbours_in_the_batch_do_not_change_an_items_loss(model_folder, model):
    encoder = Encoder(model_folder)
    long, short = {"text": "x = [1]\n" * 60}, {"text": "def g():\n"}
    together = negative_log_likelihood(model, encoder.encode([short, long, short]), 4096, 4096, "test")
    alone = [
        negative_log_likelihood(model, encoder.encode([example]), 4096, 4096, "test")[0]
        for example in (short, long, short)
    ]
    assert together == pytest.approx(np.array(alone), rel=1e-5)


def test_a_sample_does_not_depend_on_the_order_and_a_larger_one_contains_it(tmp_path):
    records = [{"id": f"s/{i}", "language": "ab"[i % 2]} for i in range(50)]
    write_jsonl(tmp_path / "a", records)
    write_jsonl(tmp_path / "b", records[::-1])
    few, more = pick_examples(tmp_path / "a", 5), pick_examples(tmp_path / "b", 9)
    assert few == pick_examples(tmp_path / "b", 5)
    assert [len([r for r in few if r["language"] == language]) for language in "ab"] == [5, 5]
    assert {record["id"] for record in few} < {record["id"] for record in more}
    assert len(pick_examples(tmp_path / "a", 500)) == 50


def test_each_dataset_may_have_its_own_number_of_documents(model_folder, datasets, tmp_path):
    settings = SETTINGS.model_copy(update={"documents": {"code": 3}})
    perplexity(model_folder, datasets, settings, tmp_path / "out")
    counts = Counter((item["dataset"], item["language"]) for item in read_jsonl(tmp_path / "out/items.jsonl.zst"))
    assert counts == {("code", "go"): 3, ("code", "python"): 3, ("instruct", "python"): 5}


def test_code_is_scored_at_its_places_alone_with_the_text_before_them(model_folder, exact, tmp_path):
    text = "import os\n\n" + "".join(f"def f{n}(x):\n    return x + {n}\n\n" for n in range(40))
    write_jsonl(tmp_path / "code/test.jsonl.zst", [{"id": "s/a.py", "language": "python", "text": text}])
    write_manifest(tmp_path / "code", ["test.jsonl.zst"])
    places = {"per_file": 2, "lines": 5}
    settings = Perplexity(datasets=["code"], context=4096, stride=4096, places=places)
    perplexity(model_folder, tmp_path, settings, tmp_path / "out")
    [item] = read_jsonl(tmp_path / "out/items.jsonl.zst")
    chosen = spans(text, places_of(text, "s/a.py", settings.places))
    loaded = AutoTokenizer.from_pretrained(model_folder)
    encoded = loaded(text, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    with torch.no_grad():
        scores = torch.log_softmax(exact(torch.tensor([ids])).logits[0], -1)
    nll, size = 0.0, 0
    for place, (start, end) in enumerate(offsets):
        if any(start < last and end > first for first, last in chosen):  # no end of text is a target
            nll -= scores[place - 1, ids[place]].item()
            size += len(text[start:end].encode())
    assert item["nll"] == pytest.approx(nll, rel=2e-5) and item["bytes"] == size
    assert "import" not in "".join(text[first:last] for first, last in chosen)
    counted = sum(any(map(str.isalnum, line)) for first, last in chosen for line in text[first:last].splitlines())
    assert item["lines"] == counted >= 6 and item["characters"] > 40


def test_no_test_example_is_a_one_line_error(model_folder, datasets, tmp_path):
    with pytest.raises(UserError, match=r"empty/test\.jsonl\.zst: no test example; raise corpus\.compose\.empty\.test"):
        perplexity(model_folder, datasets, SETTINGS.model_copy(update={"datasets": ["empty"]}), tmp_path / "out")


def test_nothing_to_score_is_a_one_line_error(model_folder, tmp_path):
    write_jsonl(tmp_path / "code/test.jsonl.zst", [{"id": "a", "language": "c", "text": ""}])
    write_manifest(tmp_path / "code", ["test.jsonl.zst"])
    with pytest.raises(UserError, match="no text to score"):
        perplexity(model_folder, tmp_path, SETTINGS.model_copy(update={"datasets": ["code"]}), tmp_path / "out")


def test_a_diverged_model_is_a_one_line_error_and_not_a_number_in_a_table(model_folder, datasets, tmp_path):
    broken = tmp_path / "broken"
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    torch.nn.init.constant_(model.model.norm.weight, math.nan)
    model.save_pretrained(broken)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (broken / name).write_bytes((model_folder / name).read_bytes())
    write_manifest(broken, sorted(path.name for path in broken.iterdir()))
    with pytest.raises(UserError, match="the model has diverged"):
        perplexity(broken, datasets, SETTINGS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_model_that_is_not_what_its_manifest_says_is_refused(model_folder, datasets, tmp_path, file):
    for path in model_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    data = bytearray((tmp_path / file).read_bytes())
    data[-9] ^= 1
    (tmp_path / file).write_bytes(data)
    with pytest.raises(UserError, match=f"{file}: sha256 is"):
        perplexity(tmp_path, datasets, SETTINGS, tmp_path / "out")


def test_a_folder_without_a_model_is_a_one_line_error(datasets, tmp_path):
    write_json(tmp_path / "manifest.json", {"files": {}})
    with pytest.raises(UserError, match=r"has no tokenizer\.json"):
        perplexity(tmp_path, datasets, SETTINGS, tmp_path / "out")


@pytest.mark.parametrize(
    ("kind", "special"),
    [
        ("gemma2", {"final_logit_softcapping": 0.5, "head_dim": 8}),
        ("granite", {"logits_scaling": 8.0}),
        ("cohere", {"logit_scale": 0.25}),
        ("mixtral", {"num_local_experts": 2}),
        ("gpt2", {"n_embd": 32, "n_layer": 1, "n_head": 4}),
    ],
)
def test_a_model_that_changes_its_logits_is_scored_by_its_own(kind, special):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    heads = {
        "num_key_value_heads": 2,
        "initializer_range": 0.5,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    shape = special if kind == "gpt2" else {**sizes, **heads, **special}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, vocab_size=50, **shape)).eval()
    ids = np.random.default_rng(0).integers(3, 50, 30).astype(np.uint32)
    encoded = Encoded(ids, np.arange(30) > 0, np.array([0, 30]))
    with torch.no_grad():
        logits = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0, :-1]
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(ids[1:].astype(np.int64)), reduction="sum")
    assert negative_log_likelihood(model, encoded, 64, 64, "x")[0] == pytest.approx(float(expected), rel=1e-5)
