"""The advice and the sentence: what is said of effects that are known, in all their combinations."""

import itertools

import pytest

from scripts.evaluation.results.answer import (
    HARMS,
    HELPS,
    NONE,
    UNKNOWN,
    carried_by,
    choice,
    effect_of,
    read_of,
    sentence,
    stated,
    visible,
)


def row(low, high, direction="better"):
    return {"value": (low + high) / 2, "interval": [low, high], "direction": direction, "holm": 0.01}


def test_an_effect_is_none_where_its_whole_interval_is_too_small_to_matter_however_sure_it_is():
    assert effect_of(row(-0.006, -0.002), 0.01) == NONE  # shown, of 500 files, and of no use
    assert effect_of(row(-0.004, 0.0, UNKNOWN), 0.01) == NONE
    assert effect_of(row(-0.03, -0.002), 0.01) == HELPS
    assert effect_of(row(0.049, 0.053, "worse"), 0.01) == HARMS
    assert effect_of(row(-0.03, 0.02, UNKNOWN), 0.01) == UNKNOWN
    assert effect_of({"value": -1.0, "interval": None, "direction": UNKNOWN}, 0.01) == UNKNOWN


def effects(retrieval, tuning, **others):
    """Effects by name; without others of the two together, both together are as good as the better one alone."""
    together = HELPS if HELPS in (retrieval, tuning) else retrieval
    found = {"retrieval": retrieval, "fine-tuning": tuning, "both": together, "both beside retrieval": UNKNOWN}
    found |= {"both beside fine-tuning": UNKNOWN, "fine-tuning beside retrieval": UNKNOWN}
    return found | {name.replace("_", " "): effect for name, effect in others.items()}


NINE = {
    (HELPS, HELPS): ("either", "Retrieve or fine-tune: each helps, and neither is shown to add to the other."),
    (HELPS, HARMS): ("retrieval", "Retrieve; fine-tuning makes it worse."),
    (HELPS, UNKNOWN): ("retrieval", "Retrieve; fine-tuning is not shown to help."),
    (HARMS, HELPS): ("fine-tuning", "Fine-tune; retrieval makes it worse."),
    (HARMS, HARMS): ("neither", "Do neither: both make it worse."),
    (HARMS, UNKNOWN): ("neither", "Do not retrieve: it makes it worse. Whether fine-tuning helps cannot be told."),
    (UNKNOWN, HELPS): ("fine-tuning", "Fine-tune; retrieval is not shown to help."),
    (UNKNOWN, HARMS): ("neither", "Do not fine-tune: it makes it worse. Whether retrieval helps cannot be told."),
    (UNKNOWN, UNKNOWN): ("neither", "{which} cannot tell which helps."),
}


@pytest.mark.parametrize("pair", NINE, ids=" ".join)
def test_each_combination_of_helps_harms_and_cannot_tell_has_its_advice(pair):
    assert choice(effects(*pair)) == NINE[pair]


def test_nothing_shown_to_matter_is_said_as_such():
    assert choice(effects(NONE, NONE)) == ("neither", "Do neither: no gain above {margin:g} bits per byte is shown.")
    assert choice(effects(HELPS, NONE))[1] == "Retrieve; fine-tuning gains nothing that matters."
    assert choice(effects(NONE, HARMS))[1].startswith("Do neither: fine-tuning makes it worse, retrieval gains")


TOGETHER = [
    (HELPS, HELPS, UNKNOWN, "both", "Do both."),
    (HELPS, HARMS, UNKNOWN, "fine-tuning", "Fine-tune; on top of it retrieval makes it worse."),
    (HELPS, NONE, UNKNOWN, "fine-tuning", "Fine-tune; on top of it retrieval adds nothing that matters."),
    (HARMS, HELPS, UNKNOWN, "retrieval", "Retrieve; on top of it fine-tuning makes it worse."),
    (UNKNOWN, HELPS, UNKNOWN, "retrieval", "Retrieve; fine-tuning is not shown to add to it."),
    (UNKNOWN, UNKNOWN, HELPS, "fine-tuning", "Fine-tune; retrieval is not shown to add to it."),
    (HARMS, UNKNOWN, HARMS, "retrieval", "Retrieve; on top of it fine-tuning makes it worse."),
]


@pytest.mark.parametrize(("tuning_adds", "retrieval_adds", "direct", "chosen", "words"), TOGETHER)
def test_where_both_help_what_each_adds_to_the_other_decides(tuning_adds, retrieval_adds, direct, chosen, words):
    asked = effects(HELPS, HELPS)
    asked |= {"both beside retrieval": tuning_adds, "both beside fine-tuning": retrieval_adds}
    assert choice(asked | {"fine-tuning beside retrieval": direct}) == (chosen, words)


def test_a_second_help_that_harms_on_top_of_the_first_is_said_even_if_alone_nothing_can_be_told():
    found = effects(HELPS, UNKNOWN) | {"both beside retrieval": HARMS}
    assert choice(found)[1] == "Retrieve; on top of it fine-tuning makes it worse."
    found = effects(UNKNOWN, HELPS) | {"both beside fine-tuning": HARMS}
    assert choice(found)[1] == "Fine-tune; on top of it retrieval makes it worse."


def test_every_combination_of_effects_has_an_advice_that_never_names_what_harms():
    names = list(effects(HELPS, HELPS))
    for combination in itertools.product((HELPS, HARMS, NONE, UNKNOWN), repeat=len(names)):
        found = dict(zip(names, combination, strict=True))
        chosen, words = choice(found)
        assert words.endswith(".")
        for name in ("retrieval", "fine-tuning"):
            assert chosen != name or found[name] == HELPS
        assert chosen != "both" or HELPS in (found["both beside retrieval"], found["both beside fine-tuning"])


def test_without_retrieval_the_advice_is_about_fine_tuning_alone():
    words = {effect: choice({"fine-tuning": effect})[1] for effect in (HELPS, HARMS, NONE, UNKNOWN)}
    assert words[HELPS] == "Fine-tune." and words[HARMS] == "Do not fine-tune: it makes it worse."
    assert "no gain above" in words[NONE] and "cannot tell whether" in words[UNKNOWN]


def test_a_gain_stands_alone_only_where_lines_move():
    assert visible("both", {"both": HELPS}) == ""
    for effect in (NONE, UNKNOWN):
        assert visible("both", {"both": effect}) == (
            "A gain, but too small to be seen: no more lines are shown to be written as they stand. "
        )
    assert "fewer lines are written" in visible("retrieval", {"retrieval": HARMS})
    assert visible("neither", {"both": UNKNOWN}) == "" == visible("both", {})


def test_one_or_two_files_that_carry_a_difference_are_named():
    assert carried_by([-9.0, -1.0, -1.0, -1.0], ["a", "b", "c", "d"]) == ["a"]
    assert carried_by([-4.0, -1.0, -4.0, -1.0, -1.0, -1.0], list("abcdef")) == ["a", "c"]
    assert carried_by([-1.0] * 12, list("abcdefghijkl")) == []
    assert carried_by([1.0, 1.0, 8.0, -1.0], list("abcd")) == ["c"]


def test_an_interval_beyond_zero_that_the_correction_takes_back_says_so():
    found = {"value": -0.119, "interval": [-0.214, -0.025], "holm": 0.0701, "effect": UNKNOWN}
    assert stated(found) == "-0.119 [-0.214, -0.025], cannot tell (corrected p 0.07)"
    assert stated(found | {"interval": [-0.214, 0.025]}) == "-0.119 [-0.214, +0.025], cannot tell"
    assert stated(found | {"holm": 0.04, "effect": HELPS}) == "-0.119 [-0.214, -0.025]"


def test_the_sentence_says_how_much_was_read():
    question = {"base": "SmolLM2", "steps": 22, "tokens_read": 22528, "tokens": 815332}
    assert read_of(question) == "; SmolLM2: 22 steps read 22,528 of 815,332 tokens, 2.8%"
    assert read_of(question | {"tokens_read": 300, "tokens": 100}).endswith("of 100 tokens, 3.0 times")
    assert read_of(question | {"tokens": None}) == ""
    whole = question | {"dataset": "own", "documents": 24, "lines": 1020, "conditions": [], "carried_by": []}
    whole |= {"rows": [{"name": "fine-tuning", "metric": "bits_per_byte", "effect": HELPS} | row(-0.03, -0.01)]}
    whole["rows"] += [{"name": "last half of the steps", "metric": "bits_per_byte", "effect": NONE} | row(0, 0)]
    assert sentence(whole | {"advice": "Fine-tune."}) == (
        "On your code (own, 1,020 lines of 24 files; SmolLM2: 22 steps read 22,528 of 815,332 tokens, 2.8%): bits per"
        " byte fine-tuning -0.020 [-0.030, -0.010]; more steps would not help. Fine-tune."
    )
