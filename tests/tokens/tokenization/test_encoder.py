"""scripts/tokens/tokenization/encoder.py: ids are Hugging Face's, control ids come only from us, targets are exact."""

import json
import random
import shutil
import unicodedata

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from scripts.common.errors import UserError
from scripts.tokens.tokenization.encoder import Encoder

HOSTILE = [
    "",
    " ",
    "\n",
    "a\r\n\tb\r\n\r\n   c   ",
    "e\u0301 \u1112\u1161\u11ab \u0344 \ufb01 \u2126 a\u0323\u0307",  # composes, decomposes, excluded from composition
    "👩‍👩‍👧‍👦🏳️‍🌈 \u202e\ufeff\u200b\x00\x7f\x85\u2028",
    "中文，标点。１２３ ٣٤٥ x²" * 3,
    "a" * 5000,
    " " * 3000 + "x",
    "\n" * 2000,
    "0123456789" * 50,
    "I'LL don't 'S 's\u017f \u0130i",
    "<|endoftext|><|im_start|>user\n<|im_end|><tool_call></tool_call><|fim_prefix|><|file_sep|>",
    "<|endoftext|",
    "\U0010ffff\U000e0001\ufffd",
]


def random_strings(count: int) -> list[str]:
    source = random.Random(1)
    ranges = [
        range(32, 127),
        range(0, 32),
        range(0x300, 0x370),
        range(0x4E00, 0x4F00),
        range(0xAC00, 0xAD00),
        range(0x1F600, 0x1F640),
    ]
    return [
        "".join(chr(source.choice(source.choice(ranges))) for _ in range(source.randrange(60))) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return Encoder(tokenizer)


@pytest.fixture(scope="module")
def reference(tokenizer):
    """Hugging Face's own encoding of text in which nothing is a control token."""
    description = json.loads((tokenizer / "tokenizer.json").read_text())
    return Tokenizer.from_str(json.dumps({**description, "added_tokens": []}))


def encode_single(encoder, example):
    encoded = encoder.encode([example])
    return encoded.ids.tolist(), encoded.targets.tolist()


def test_text_ids_equal_hugging_faces_on_hostile_strings_and_end_the_document(encoder, reference):
    texts = HOSTILE + random_strings(2000)
    encoded = encoder.encode([{"text": text} for text in texts])
    assert encoded.ids.dtype == np.uint32
    for i, text in enumerate(texts):
        ids = encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert ids == [*reference.encode(text).ids, encoder.end], repr(text)
        assert encoded.targets[encoded.offsets[i] : encoded.offsets[i + 1]].tolist() == [False] + [True] * (
            len(ids) - 1
        )


def test_a_control_token_spelled_out_in_any_part_of_an_example_never_becomes_its_id(encoder):
    literal = "".join(encoder.controls)
    controls = set(encoder.controls.values())
    inserted = {"text": 1, "chat": 6}
    for form, example in {
        "text": {"text": literal},
        "chat": {"messages": [{"role": role, "content": literal} for role in ("system", "user", "assistant")]},
    }.items():
        ids, _ = encode_single(encoder, example)
        assert sum(token in controls for token in ids) == inserted[form]


def test_bytes_of_tokens_add_up_to_the_normalized_text(encoder):
    for text in HOSTILE + random_strings(200):
        ids, _ = encode_single(encoder, {"text": text})
        assert encoder.bytes_of[ids].sum() == len(unicodedata.normalize("NFC", text).encode())


CHATS = [
    [("user", "Hi"), ("assistant", "Hello, 世界！\n")],
    [("system", "你是代码助手。"), ("user", "这段代码做什么？\n```python\nx = 1\n```"), ("assistant", "它给 x 赋值。")],
    [("user", "a"), ("assistant", "b"), ("user", "  c\n\n"), ("assistant", "  indented\nd")],
    [("system", ""), ("user", ""), ("assistant", "")],
    [("user", "\n\nq"), ("assistant", "\n\n\nanswer that begins with line ends")],
    [("user", "a"), ("system", "in between"), ("assistant", "e\u0301\r\n"), ("assistant", "twice")],
    [("user", "no answer yet")],
]


@pytest.mark.parametrize("chat", CHATS)
def test_chats_equal_apply_chat_template_and_only_the_answers_are_targets(encoder, tokenizer, chat):
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    messages = [{"role": role, "content": content} for role, content in chat]
    ids, targets = encode_single(encoder, {"messages": messages})
    assert ids == loaded.apply_chat_template(messages, return_dict=False)

    # independently: walk over Hugging Face's ids; a target is what lies wholly after the header, up to <|im_end|>
    expected, turn, header = [], None, 0
    for token in ids:
        text = "" if token in encoder.controls.values() else loaded.decode([token])
        if token == encoder.controls["<|im_start|>"]:
            turn, header = "", len("assistant\n")
            expected.append(False)
        elif token == encoder.controls["<|im_end|>"]:
            expected.append(turn is not None and turn.startswith("assistant\n"))
            turn = None
        else:
            expected.append(turn is not None and turn.startswith("assistant\n") and len(turn) >= header)
            turn = None if turn is None else turn + text
    assert targets == expected


def test_the_answers_targets_decode_to_exactly_the_answer(encoder, tokenizer):
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    answer = "它返回 naïve 值。\n\n```python\nreturn 1\n```"
    ids, targets = encode_single(
        encoder, {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]}
    )
    assert loaded.decode(np.array(ids)[targets]) == f"{answer}<|im_end|>"
    assert not targets[-1]  # the line end after the turn


def test_a_batch_equals_its_examples_one_by_one(encoder):
    batch = [
        {"text": "x = 1\n"},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b c"}]},
        {"text": ""},
    ]
    encoded = encoder.encode(batch)
    for i, example in enumerate(batch):
        span = slice(encoded.offsets[i], encoded.offsets[i + 1])
        assert (encoded.ids[span].tolist(), encoded.targets[span].tolist()) == encode_single(encoder, example)
    assert len(encoder.encode([]).ids) == 0


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        (None, "no chat template"),
        (
            "{{ messages[0].content | upper | replace('\ue001', '') }}<|im_end|>",
            "copy each message's content unchanged",
        ),
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}", "must end in a control token"),
        ("{{ raise_exception('only system') }}", "only system"),
        ("{% if %}", "chat template"),
    ],
)
def test_a_template_that_we_could_not_follow_is_refused_in_one_line(tokenizer, tmp_path, template, complaint):
    folder = shutil.copytree(tokenizer, tmp_path / "t")
    (folder / "chat_template.jinja").unlink()
    if template:
        (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError, match=complaint):
        encode_single(Encoder(folder), {"messages": [{"role": "assistant", "content": "a"}]})


@pytest.mark.parametrize(
    "example",
    [
        [],
        "text",
        None,
        {},
        {"text": None},
        {"prefix": "a", "suffix": "b"},
        {"messages": []},
        {"messages": "abc"},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "<|im_end|>", "content": "a"}]},
        {"messages": [{"role": ["user"], "content": "a"}]},
        {"messages": [{"role": "user", "content": 1}]},
    ],
)
def test_malformed_example_is_a_one_line_error_that_shows_it(encoder, example):
    with pytest.raises(UserError) as error:
        encoder.encode([{"text": "fine"}, example])
    assert json.dumps(example)[:100] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}", b"[]", b'{"added_tokens": [], "model": {"vocab": {}}}'])
def test_broken_tokenizer_file_is_a_one_line_error(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        Encoder(tmp_path)
