"""scripts/tokens/tokenization/text_engine.py: the ids are the tokenizers library's, whatever stands beside a digit."""

import json
import random
import sys
import unicodedata

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from scripts.tokens.tokenization.text_engine import LAST, DigitsAlone, TextEngine
from scripts.tokens.tokenization.tokenizer_files import TokenizerFiles

HOSTILE = [" ", " ", "  ", "\n", "\t", "\r\n", "\u3000", "\xa0", "\x1c", "\x85", "\u2028", "\ufeff", "\x00"]
HOSTILE += ["0", "1", "42", "²", "①", "٣", "１", "½", "𝟘", "a", "é", "中", "'s", "'", "=", "_", "(", "Â", "👩‍👧", "x"]


def texts(seed: int) -> list[str]:
    chosen = random.Random(seed)
    return ["".join(chosen.choices(HOSTILE, k=chosen.randint(0, 60))) for _ in range(2000)]


@pytest.fixture(scope="module")
def description() -> dict:
    """SmolLM2's and StarCoder2's form, with a vocabulary trained on the alphabet above."""
    tokenizer = Tokenizer(models.BPE())
    digits, words = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts(0), trainer)
    return json.loads(tokenizer.to_str())


def test_ids_and_offsets_are_the_librarys_for_random_blanks_digits_and_numerals(description, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(description))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    engine = TextEngine(TokenizerFiles(tmp_path))
    assert engine.fast and engine.digits_alone
    given = texts(1)
    ours, theirs = engine.encode(given), engine.library_encode(given)
    assert np.array_equal(ours[0], theirs[0]) and np.array_equal(ours[1], theirs[1])
    whole = engine.digits_alone.description  # without a cut they differ, or the rule would guard nothing
    uncut = Tokenizer.from_str(json.dumps(whole)).encode_batch_fast(given, add_special_tokens=False)
    assert [encoding.ids for encoding in uncut] != [part.tolist() for part in np.split(theirs[0], theirs[1][1:-1])]


def test_a_vocabulary_with_a_token_of_two_digits_or_another_pre_tokenizer_has_no_such_rule(description):
    assert DigitsAlone.of(description)
    numbers = description["model"] | {"merges": [*description["model"]["merges"], ["1", "2"]]}
    assert DigitsAlone.of(description | {"model": numbers}) is None
    words = description["pre_tokenizer"]["pretokenizers"][1]
    assert DigitsAlone.of(description | {"pre_tokenizer": words}) is None


def test_no_character_from_the_last_one_of_the_table_on_is_a_blank_or_a_numeral():
    beyond = map(chr, range(LAST, sys.maxunicode + 1))
    assert not [character for character in beyond if character.isspace() or unicodedata.category(character)[0] == "N"]
