"""Tokenizers of every kind that models bring (tests/tokens/kinds.py): ids, chats and rows as the library has them."""

import json
import random
import shutil

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer

from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.experiment.settings.corpus import CodeDataset, TextDataset
from scripts.tokens.pack import pack
from scripts.tokens.packing.shards import Shards
from scripts.tokens.tokenization.base_tokenizer import check_base_tokenizer
from scripts.tokens.tokenization.chat_template import environment_of
from scripts.tokens.tokenization.encoder import Encoder
from scripts.tokens.tokenizer import copy
from tests.tokens import kinds
from tests.tokens.tokenization.test_encoder import CHATS, HOSTILE, random_strings

NAMES = list(kinds.kinds())
# these write any text: a byte that has no token is a token of its own
BYTES = [name for name in NAMES if name not in ("t5", "wordpiece", "words")]
# not byte-level, so the library itself encodes
SLOW = ["llama2", "codellama", "mistral", "phi3", "gemma", "t5", "unigram-bytes", "wordpiece", "words"]
TEXTS = [
    *(text for text in HOSTILE if "<|endoftext|>" not in text),
    *random_strings(400),
    *kinds.texts()[:3],
    *(" x", "  x = 1", "\n\n\n\nx\n\n", "    if a:\n        b\t\t# <h1>c</h1>", "▁▁x", "a\u0301b"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("kinds")
    return {name: kinds.write(place, name) for name in NAMES}


def library(folder) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", NAMES)
def test_texts_get_the_librarys_own_ids_between_the_models_own_first_and_last_tokens(folders, name):
    kind, encoder, own = kinds.kinds()[name], Encoder(folders[name]), library(folders[name])
    assert encoder.engine.name == ("tokenizers" if name in SLOW else "fastokens")
    encoded = encoder.encode([{"text": text} for text in TEXTS])
    for number, text in enumerate(TEXTS):
        ids = own.encode(text).ids
        ids = ids[:-1] if kind.suffix else ids
        span = slice(encoded.offsets[number], encoded.offsets[number + 1])
        assert encoded.ids[span].tolist() == [*ids, encoder.end], repr(text[:80])
        assert encoded.targets[span].tolist() == [False] + [True] * len(ids)
    end = "<|end_of_text|>" if name == "llama3" else kind.config.get("eos_token", kind.suffix)
    end = "<|endoftext|>" if name in ("qwen", "gpt-neox") else end
    assert encoder.end == own.token_to_id(end)
    assert encoder.pad == own.token_to_id(kind.config.get("pad_token", end))


@pytest.mark.parametrize("name", NAMES)
def test_a_control_token_in_a_text_stays_text(folders, name):
    encoder = Encoder(folders[name])
    controls = set(encoder.controls.values()) - {encoder.files.unknown}
    for literal in ["".join(encoder.controls), " ".join(encoder.controls), *encoder.controls]:
        ids = encoder.encode([{"text": literal}]).ids.tolist()[len(encoder.lead) : -1]
        assert not controls & set(ids), literal
        if name in BYTES:
            assert encoder.decode(ids).replace("▁", " ").strip(" ") == literal.replace("▁", " ").strip(" ")


@pytest.mark.parametrize("name", BYTES)
def test_ids_spell_the_text(folders, name):
    encoder = Encoder(folders[name])
    normalizer = library(folders[name]).normalizer
    metaspace = "▁" in json.dumps(encoder.files.description, ensure_ascii=False)
    for text in TEXTS:
        expected = text if metaspace or normalizer is None else normalizer.normalize_str(text)
        expected = expected.replace("▁", " ") if metaspace and name != "gpt2" else expected
        spelt = encoder.decode(encoder.continuation(text))
        assert spelt == expected, repr(text[:80])


@pytest.mark.parametrize("name", ["llama2", "mistral", "phi3", "gemma"])
@pytest.mark.parametrize("chat", [chat for chat in CHATS if not any(role == "system" for role, _ in chat[1:])])
def test_chats_are_the_librarys_ids_of_the_rendered_template_and_the_answers_are_targets(folders, name, chat):
    kind, encoder, own = kinds.kinds()[name], Encoder(folders[name]), library(folders[name])
    chat = [(role, text) for role, text in chat if role != "system" or name != "mistral"]
    messages = [{"role": role, "content": text} for role, text in chat]
    rendered = environment_of(kind.config).from_string(kind.chat).render(messages=messages)
    encoded = encoder.encode([{"messages": messages}])
    assert encoded.ids.tolist() == own.encode(rendered, add_special_tokens=False).ids
    turn_end = own.id_to_token(int(encoder.chats.turn_ends.copy().pop())) if encoder.chats.turn_ends else ""
    trims = name in ("llama2", "gemma")
    answers = [text.strip() if trims else text for role, text in chat if role == "assistant"]
    written, turn = [], []
    for token, target in zip(encoded.ids.tolist(), encoded.targets.tolist(), strict=True):
        if target and token == encoder.controls.get(turn_end):
            written.append(encoder.decode(turn))
            turn = []
        elif target:
            turn.append(token)
    assert len(written) == len(answers) and not turn
    for text, answer in zip(written, answers, strict=True):
        assert text.strip(" ") == answer.replace("▁", " ").strip(" ") or answer.endswith(text)


OWN = ["<entity>", "</entity>", "[CITE]", "{{slot}}", "<think>", "<|user_info|>", "<<ref>>", "[[1]]", "|||mail|||"]


@pytest.mark.parametrize("name", ["llama2", "mistral", "phi3", "gemma"])
def test_tokens_that_a_tokenizer_adds_for_text_are_one_id_in_chats_and_texts_as_at_inference(folders, name, tmp_path):
    folder = shutil.copytree(folders[name], tmp_path / "model")
    own = library(folder)
    own.add_tokens([AddedToken(token, special=False, normalized=False) for token in OWN])
    own.save(str(folder / "tokenizer.json"))
    encoder, kind = Encoder(folder), kinds.kinds()[name]
    text = "See " + " and ".join(OWN) + "."
    messages = [{"role": "user", "content": f"Who wrote {text}"}, {"role": "assistant", "content": text}]
    rendered = environment_of(kind.config).from_string(kind.chat).render(messages=messages)
    encoded = encoder.encode([{"messages": messages}])
    assert encoded.ids.tolist() == own.encode(rendered, add_special_tokens=False).ids
    for token in OWN:
        assert encoded.ids.tolist().count(own.token_to_id(token)) == 2
        assert own.token_to_id(token) in encoder.encode([{"text": f"x {token} y"}]).ids
        assert encoder.decode([own.token_to_id(token)]) == token


@pytest.mark.parametrize("name", ["llama2", "mistral", "phi3", "gemma"])
def test_a_model_is_asked_with_the_tokens_that_stood_before_the_answer_in_training(folders, name):
    encoder = Encoder(folders[name])
    question = [{"role": "user", "content": "what is x?"}]
    prompt, turn_end = encoder.chat_prompt(question)
    encoded = encoder.encode([{"messages": [*question, {"role": "assistant", "content": "x is one"}]}])
    first = int(np.flatnonzero(encoded.targets)[0])
    assert prompt == encoded.ids[:first].tolist()
    assert turn_end == encoded.ids[np.flatnonzero(encoded.targets)[-1]]
    assert encoder.decode(encoded.ids[first:].tolist()).strip() == "x is one"


@pytest.mark.parametrize("name", NAMES)
def test_rows_hold_every_token_of_every_document_whatever_the_file_says_of_truncation(folders, name, tmp_path):
    folder = shutil.copytree(folders[name], tmp_path / "model")
    description = json.loads((folder / "tokenizer.json").read_text())
    description["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    description["padding"] = {
        **{"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None},
        **{"pad_id": 0, "pad_type_id": 0, "pad_token": "x"},
    }
    if description["model"]["type"] == "BPE":
        description["model"]["dropout"] = 0.5
    (folder / "tokenizer.json").write_text(json.dumps(description))
    copy(folder, tmp_path / "tokenizer")
    encoder = Encoder(tmp_path / "tokenizer")
    texts = [text for text in TEXTS if len(text) < 4000]
    for split in ("train", "validation"):
        write_jsonl(tmp_path / f"in/{split}.jsonl.zst", ({"id": str(i), "text": text} for i, text in enumerate(texts)))
    write_manifest(tmp_path / "in", ["train.jsonl.zst", "validation.jsonl.zst"])
    manifest = pack(tmp_path / "in", tmp_path / "tokenizer", 64, tmp_path / "out")
    expected = np.bincount(
        Encoder(folders[name]).encode([{"text": text} for text in texts]).ids, minlength=encoder.vocab_size
    )
    shards = Shards(tmp_path / "out", "train")
    counted = np.zeros(encoder.vocab_size, np.int64)
    for row, offset, size, _ in shards.pieces:
        np.add.at(counted, shards.tokens[row, offset : offset + size], 1)
        assert shards.tokens[row, offset : offset + len(encoder.lead)].tolist() == encoder.lead
    assert manifest["splits"]["train"]["tokens"] == counted.sum()
    if encoder.lead:  # before each piece
        assert counted[encoder.lead[0]] == len(shards.pieces) > len(texts)
        counted[encoder.lead[0]] = expected[encoder.lead[0]]
    assert counted.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["codellama", "starcoder"])
def test_fill_in_the_middle_has_the_models_own_tokens_and_keeps_every_character(folders, name, tmp_path):
    encoder = Encoder(folders[name])
    prefix, suffix, middle, end = encoder.infill
    assert [prefix, suffix, middle] == [encoder.controls[token] for token in kinds.kinds()[name].fim]
    assert end == encoder.controls["▁<EOT>"] if name == "codellama" else end == encoder.end
    source = random.Random(3)
    texts = [text[: source.randrange(1, 3000)] for text in TEXTS if text]
    for split in ("train", "validation"):
        write_jsonl(tmp_path / f"in/{split}.jsonl.zst", ({"id": str(i), "text": text} for i, text in enumerate(texts)))
    write_manifest(
        tmp_path / "in", ["train.jsonl.zst", "validation.jsonl.zst"], fim={"rate": 0.7, "spm_rate": 0.5, "seed": 1}
    )
    copy(folders[name], tmp_path / "tokenizer")
    counts = pack(tmp_path / "in", tmp_path / "tokenizer", 96, tmp_path / "out")["splits"]["train"]
    assert counts["fim"] > 30 and counts["fim_spm"] > 10
    shards = Shards(tmp_path / "out", "train")
    spelt = {}  # document → its pieces, in no order
    for row, offset, size, document in shards.pieces:
        ids = shards.tokens[row, offset : offset + size].tolist()
        assert ids[: len(encoder.lead)] == encoder.lead
        if prefix in ids:
            assert ids[: len(encoder.lead) + 1] == [*encoder.lead, prefix] and ids[-1] == end
            places = [ids.index(token) for token in (prefix, suffix, middle)]
            before, behind, rest = (
                ids[places[0] + 1 : places[1]],
                ids[places[1] + 1 : places[2]],
                ids[places[2] + 1 : -1],
            )
            ids = [*before, *rest, *behind]
        spelt.setdefault(document, []).append(encoder.decode(ids))
    plain = Encoder(folders[name])
    for document, pieces in spelt.items():
        whole = plain.decode(plain.encode([{"text": texts[int(shards.names[document])]}]).ids.tolist())
        assert sorted("".join(pieces)) == sorted(whole)
        assert all(piece in whole for piece in pieces)


def test_what_cannot_work_is_refused_at_the_start_in_one_line(folders, tmp_path):
    for name in NAMES:
        check_base_tokenizer(folders[name], {"texts": TextDataset(kind="text")}, ["texts"])
    folder = shutil.copytree(folders["llama2"], tmp_path / "model")
    datasets = {"code": CodeDataset(kind="code", fim_rate=0)}
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"no file names the token that ends a text; give eos_token"):
        check_base_tokenizer(folder, datasets, ["code"])
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 1]}')
    check_base_tokenizer(folder, datasets, ["code"])
    assert Encoder(folder).end == 2
    (folder / "config.json").write_text('{"vocab_size": 600}')
    with pytest.raises(UserError, match=r"tokenizer\.json has 1,000 ids, config\.json says vocab_size 600"):
        check_base_tokenizer(folder, datasets, ["code"])
    description = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**description, "pre_tokenizer": {"type": "Nothing"}}))
    with pytest.raises(UserError, match="the tokenizers library cannot load it"):
        check_base_tokenizer(folder, datasets, ["code"])
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"has no tokenizer\.json"):
        check_base_tokenizer(folder, datasets, ["code"])
