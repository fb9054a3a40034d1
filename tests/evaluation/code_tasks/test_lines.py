"""Lines as they stand, read from a scoring pass, beside what greedy decoding really writes of each line."""

import random

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.code_tasks.lines import Likeliest, lines_of, text_of_ids, written
from scripts.evaluation.generation.likelihood import negative_log_likelihood
from scripts.evaluation.generation.transformers_engine import generate
from scripts.experiment.settings.suites import Generation
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.tokenization.encoder import Encoded, Encoder
from scripts.tokens.tokenizer import train

NAMES = ["total", "count", "line", "path", "größe", "item"]


def python(draw: random.Random) -> str:
    a, b = draw.sample(NAMES, 2)
    number = draw.randrange(9)
    head = f"def {a}_of({b}):\n    if {b} is None:\n        return 0\n\n"
    return f"{head}    for {a} in {b}:\n        yield {a} + {number}\n\n"


def go(draw: random.Random) -> str:
    a, b = draw.sample(NAMES, 2)
    number = draw.randrange(9)
    head = f"func {a}({b} int) error {{\n\tif {b} == {number} {{\n\t\treturn nil\n\t}}\n\n"
    return f"{head}\treturn {a}Error({b})\n}}\n\n"


def typescript(draw: random.Random) -> str:
    a, b = draw.sample(NAMES, 2)
    number = draw.randrange(9)
    head = f"export const {a} = ({b}: string) => {{\n  const {b}s = [{b}, {number}];\n"
    return f"{head}  return {b}s.length;\n}};\n\n"


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A tokenizer, a model that was trained for a minute's work on the three languages, and a text of each."""
    draw, folder = random.Random(1), tmp_path_factory.mktemp("lines")
    texts = ["".join(write(draw) for _ in range(12)) for write in (python, go, typescript) for _ in range(40)]
    write_jsonl(folder / "train.jsonl.zst", [{"text": text, "language": "x", "sha256": text[:9]} for text in texts])
    write_manifest(folder, ["train.jsonl.zst"])
    train([folder], TokenizerSettings.model_construct(vocab_size=390), folder)
    encoder = Encoder(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "max_position_embeddings": 2048}
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=encoder.vocab_size, num_attention_heads=4, num_key_value_heads=2, **sizes)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    rows = [torch.from_numpy(encoder.encode([{"text": text}]).ids[:160].astype(np.int64)) for text in texts]
    for step in range(120):
        batch = torch.stack([rows[(12 * step + place) % len(rows)] for place in range(12)])
        model(batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    held_out = ["".join(write(draw) for _ in range(3)) for write in (python, go, typescript) for _ in range(10)]
    return encoder, model.eval(), held_out


def read_lines(encoder, model, text):
    """(the lines of a text, what a scoring pass says of each, the text's bytes)."""
    encoded = encoder.encode([{"text": text}])
    encoded = Encoded(encoded.ids[:-1], encoded.targets[:-1], np.array([0, len(encoded.ids) - 1]))
    content = text_of_ids(encoder, encoded.ids)
    lines = lines_of(encoder, encoded.ids, list(range(text.count("\n"))))
    likeliest = Likeliest(encoder, len(encoded.ids))
    likeliest.ask(lines, content, 0)
    negative_log_likelihood(model, encoded, 2048, 2048, "lines", likeliest=likeliest)
    return lines, [written(encoder, encoded.ids, likeliest.ids, line, content) for line in lines], content.content


def test_real_greedy_generation_writes_the_same_lines_in_three_languages(learned):
    encoder, model, texts = learned
    prompts, said, true = [], [], []
    for text in texts:
        lines, read, content = read_lines(encoder, model, text)
        prompts += [content[: line.start].decode() for line in lines]
        true += [content[line.start : line.end].decode() for line in lines]
        said += read
    made = generate(model, encoder, prompts, Generation(max_new_tokens=40), 1, lambda number, done: "\n" in done)
    agree = right = 0
    for line, (generated,), read in zip(true, made, said, strict=True):
        wrote = generated.partition("\n")[0]
        same = wrote == line and "\n" in generated
        agree += same == read.right
        right += same
        assert read.characters == len(line.lstrip())
        common = 0
        while common < min(len(line), len(wrote)) and line[common] == wrote[common]:
            common += 1
        if not read.right and not same:  # what is right in other tokens does not count
            assert read.saved <= max(common - (len(line) - len(line.lstrip())), 0)
    assert len(true) >= 300 and agree >= 0.99 * len(true)
    assert 0.1 < right / len(true) < 0.9  # neither all nor nothing, or agreement would prove nothing


def test_lines_without_a_letter_or_digit_and_the_first_and_unfinished_ones_are_not_counted(learned):
    encoder, _, _ = learned
    text = "total = 1\n\n  }\n);\nreturn count\n# ===\nx"
    ids = encoder.encode([{"text": text}]).ids[:-1]
    content = text_of_ids(encoder, ids).content
    found = lines_of(encoder, ids, list(range(7)))
    assert [content[line.start : line.end] for line in found] == [b"return count"]
    assert lines_of(encoder, ids, [0, 99]) == []


def test_what_comes_before_the_first_wrong_character_need_not_be_typed(learned):
    encoder, _, _ = learned
    text = "item = 1\n    return count + größe\nx\n"
    ids = encoder.encode([{"text": text}]).ids[:-1].astype(np.int64)
    content = text_of_ids(encoder, ids)
    [line, _] = lines_of(encoder, ids, [1, 2])
    assert written(encoder, ids, ids, line, content) == (True, 20, 20)
    for token in range(line.first, line.last + 1):
        guess = ids.copy()
        guess[token] = encoder.end  # the text ends there
        said = written(encoder, ids, guess, line, content)
        before = content.content[line.start : content.starts[token]].decode(errors="ignore")
        assert said == (False, 20, len(before.lstrip()))
