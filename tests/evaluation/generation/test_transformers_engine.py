"""scripts/evaluation/generation/transformers_engine.py against a loop that writes one token at a time without a cache,
in float64."""

import math
from collections import Counter

import pytest
import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, TopPLogitsWarper

from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.generation import transformers_engine
from scripts.evaluation.generation.healing import heal
from scripts.evaluation.generation.transformers_engine import CANDIDATES, generate, nucleus
from scripts.experiment.settings.suites import Generation
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.tokenization.encoder import Encoder
from scripts.tokens.tokenizer import train

SEED = 7
GREEDY = Generation(max_new_tokens=24)
SAMPLED = Generation(max_new_tokens=24, temperature=0.8, top_p=0.95, samples=3)
PROMPTS = [
    "def f(x):\n",
    "x",
    "",
    "class 你好:\n    pass\n" * 5,
    [{"role": "user", "content": "What does f do?"}],
    "<|endoftext|> is text",
    [{"role": "system", "content": "Be short."}, {"role": "user", "content": "<|im_end|>"}],
    "def f(x):\n    return [1, 2, 3, 4, 5, 6, 7]\n",
]


def changed(settings: Generation, **changes) -> Generation:
    return settings.model_copy(update=changes)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    text = "def f(x):\n    return x + 1  # 你好\nWhat does f do? It returns x.\n" * 20
    write_jsonl(folder / "train.jsonl.zst", [{"text": text, "language": "python", "sha256": "a"}])
    write_manifest(folder, ["train.jsonl.zst"])
    train([folder], TokenizerSettings.model_construct(vocab_size=290), folder)
    return Encoder(folder)


@pytest.fixture(scope="module")
def model(encoder):
    """A random Qwen2 with more words than its tokenizer, as Qwen2.5 has, large weights and misleading defaults."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=encoder.vocab_size + 20, initializer_range=0.5, **sizes, **heads))
    model.generation_config = GenerationConfig(do_sample=True, top_k=3, repetition_penalty=1.7, max_new_tokens=2)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield model.eval()
    torch.set_num_threads(threads)


def one_by_one(model, encoder, prompt, settings):
    """Greedy text: all positions again for each token, no padding, no cache."""
    due = b""
    if isinstance(prompt, str):
        ids, due, _ = heal(encoder, encoder.continuation(prompt))
        ids, ends = ids or [encoder.end], {encoder.end}
    else:
        ids = []
        turns = prompt if prompt[0]["role"] == "system" else [{"role": "system", "content": None}, *prompt]
        for turn in turns:
            content = turn["content"] or "You are a helpful assistant."
            ids += [encoder.controls["<|im_start|>"], *encoder.continuation(f"{turn['role']}\n{content}")]
            ids += [encoder.controls["<|im_end|>"], *encoder.continuation("\n")]
        ids += [encoder.controls["<|im_start|>"], *encoder.continuation("assistant\n")]
        ends = {encoder.end, encoder.controls["<|im_end|>"]}
    written, healed = [], len(due)
    most = settings.max_new_tokens + (len(encoder.continuation(prompt)) - len(ids) if due else 0)
    if due and ids == [encoder.end]:
        most += 1
    while len(written) < most:
        with torch.no_grad():
            logits = model.double()(torch.tensor([ids + written])).logits[0, -1]
        for token in set(ids + written):
            penalty = settings.repetition_penalty
            logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
        if due:  # the next token spells the end of the prompt, or begins to
            fits = [text and (text.startswith(due) or due.startswith(text)) for text in encoder.spelled]
            logits[~torch.tensor([*map(bool, fits), *[False] * (len(logits) - len(fits))])] = -math.inf
        written.append(int(logits.argmax()))
        if due:
            due = due[len(encoder.spelled[written[-1]]) :]
        if written[-1] in ends:
            break
    model.float()
    known = [token for token in written if token < encoder.vocab_size and encoder.bytes_of[token]]
    return encoder.text(known)[healed:].decode("utf-8", "replace")


def leave_and_join(monkeypatch) -> None:
    """Let finished rows leave a batch of three after every four tokens, and others join it."""
    monkeypatch.setattr(transformers_engine, "ROWS", 3)
    monkeypatch.setattr(transformers_engine, "SEGMENT", 4)


@pytest.fixture(params=["one batch", "rows leave and join"])
def batches(request, monkeypatch):
    if request.param != "one batch":
        leave_and_join(monkeypatch)


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_texts_equal_a_loop_without_cache_and_padding_in_the_order_of_the_prompts(
    model, encoder, penalty, batches
):
    settings = changed(GREEDY, repetition_penalty=penalty)
    expected = [[one_by_one(model, encoder, prompt, settings)] for prompt in PROMPTS]
    assert generate(model, encoder, PROMPTS, settings, SEED) == expected
    assert len({text for (text,) in expected}) > 4


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED, changed(GREEDY, repetition_penalty=1.2)])
def test_a_completion_does_not_depend_on_its_batch(model, encoder, settings, batches):
    together = generate(model, encoder, PROMPTS, settings, SEED)
    assert together == [generate(model, encoder, [prompt], settings, SEED)[0] for prompt in PROMPTS]
    assert together[::-1] == generate(model, encoder, PROMPTS[::-1], settings, SEED)


def test_rows_stay_in_the_batch_of_a_model_whose_cache_is_a_window(model, encoder, monkeypatch):
    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8, "use_sliding_window": True}
    windowed = Qwen2ForCausalLM(Qwen2Config(**{**model.config.to_dict(), **layers})).eval()
    windowed.load_state_dict(model.state_dict())
    expected = [[one_by_one(windowed, encoder, prompt, GREEDY)] for prompt in PROMPTS]
    leave_and_join(monkeypatch)
    assert generate(windowed, encoder, PROMPTS, GREEDY, SEED) == expected
    assert expected != generate(model, encoder, PROMPTS, GREEDY, SEED)


def test_samples_have_the_softmax_frequencies(model, encoder):
    settings = changed(SAMPLED, max_new_tokens=1, samples=3000, temperature=1.5, top_p=1.0)
    chat = [{"role": "user", "content": "x"}]  # a text's first token would have to spell the end of the prompt
    counts = Counter(generate(model, encoder, [chat], settings, SEED)[0])
    with torch.no_grad():
        logits = model(torch.tensor([encoder.chat_prompt(chat)[0]])).logits[0, -1]
    probabilities = torch.softmax(logits.double() / 1.5, 0)
    expected = Counter()
    for token, probability in enumerate(probabilities.tolist()):
        known = token < encoder.vocab_size and encoder.bytes_of[token]
        expected[encoder.decode([token]) if known else ""] += probability
    for text, probability in expected.most_common(5):
        spread = math.sqrt(probability * (1 - probability) / 3000)
        assert counts[text] / 3000 == pytest.approx(probability, abs=5 * spread)


def test_the_batch_is_halved_until_it_fits_and_the_texts_stay_the_same(model, encoder, monkeypatch):
    expected, sizes, generate_batch = generate(model, encoder, PROMPTS, GREEDY, SEED), [], model.generate

    def small(input_ids, **options):
        sizes.append(len(input_ids))
        if len(input_ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate_batch(input_ids=input_ids, **options)

    monkeypatch.setattr(model, "generate", small)
    assert generate(model, encoder, PROMPTS, GREEDY, SEED) == expected
    assert sizes == [6, 3, 1, 1, 1, 1, 1, 1, 1, 1]


def test_memory_that_ends_while_rows_join_begins_them_again_with_the_same_texts(model, encoder, monkeypatch):
    expected, sizes, generate_batch = generate(model, encoder, PROMPTS, SAMPLED, SEED), [], model.generate
    leave_and_join(monkeypatch)

    def small(input_ids, **options):
        sizes.append((len(input_ids), "past_key_values" in options))
        if sizes.count((3, True)) == 3 and sizes[-1] == (3, True):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate_batch(input_ids=input_ids, **options)

    monkeypatch.setattr(model, "generate", small)
    assert generate(model, encoder, PROMPTS, SAMPLED, SEED) == expected
    assert sizes.count((3, True)) == 3 and sizes[-1][0] == 1


def test_no_memory_for_one_prompt_is_a_one_line_error(model, encoder, monkeypatch):
    def full(**_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(model, "generate", full)
    with pytest.raises(UserError, match="no memory for one prompt of 1 tokens"):
        generate(model, encoder, ["x"], GREEDY, SEED)


def test_generation_ends_early_where_the_rest_would_be_cut_off(model, encoder, batches):
    settings = changed(GREEDY, max_new_tokens=100)
    prompts = [prompt for prompt in PROMPTS if isinstance(prompt, str)]
    full = generate(model, encoder, prompts, settings, SEED)
    short = generate(model, encoder, prompts, settings, SEED, finished=lambda number, text: len(text) >= 4 * number)
    for number, ((long,), (cut,)) in enumerate(zip(full, short, strict=True)):
        assert long.startswith(cut.rstrip("\ufffd"))
        assert len(cut) >= min(4 * number, len(long))
    assert sum(len(cut) for (cut,) in short) < sum(len(long) for (long,) in full)


def test_a_prompt_beyond_the_models_positions_is_a_one_line_error(model, encoder):
    with pytest.raises(
        UserError, match=r'^"abab.*: \d+ tokens and max_new_tokens 24 exceed the model\'s 512 positions$'
    ):
        generate(model, encoder, ["ab" * 600], GREEDY, SEED)


@pytest.mark.parametrize("spread", [0.5, 8.0])
@pytest.mark.parametrize("top_p", [0.3, 0.95, 1.0])
def test_the_nucleus_is_that_of_transformers_whether_it_is_small_or_most_of_the_vocabulary(spread, top_p):
    scores = torch.randn(16, 5000, generator=torch.Generator().manual_seed(1)) * spread
    expected = TopPLogitsWarper(top_p)(None, scores)
    assert torch.equal(nucleus(scores, top_p), expected)
    if (spread, top_p) == (0.5, 0.95):
        assert expected.isfinite().sum(-1).min() > CANDIDATES
