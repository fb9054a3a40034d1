"""scripts/report/content/wording.py: the headline says what the final model is worse on, whatever the gates say."""

from scripts.report.content.eval_json import in_order
from scripts.report.content.wording import headline, tone


def row(dataset, direction, **about):
    return {"model": "sft", "against": "base", "dataset": dataset, "language": "all", "direction": direction, **about}


def evaluation(*rows):
    return {"verdict": "met", "stages": {"pretrain": {}, "sft": {}}, "comparisons": list(rows)}


def test_the_headline_lists_what_is_clearly_worse_and_the_sizes_of_completion_say_that_they_are_some():
    gain, unknown = row("code", "better"), row("general", "no difference shown")
    assert (headline(evaluation(gain, unknown)), tone(evaluation(gain, unknown))) == ("All gates are met", "met")
    others = [row("others", "worse", language="python"), row("others", "worse", model="pretrain")]
    assert headline(evaluation(*others)) == "All gates are met", "of one language, or of an earlier stage"
    rows = [row("others", "worse"), *(row(name, "worse", suite="completion") for name in ("line", "block"))]
    worse = "All gates are met, but sft is worse on others, line completion and block completion"
    assert (headline(evaluation(gain, *rows)), tone(evaluation(*rows))) == (worse, "met-not-secured")


def test_the_last_stage_is_the_one_trained_last_whatever_its_name():
    train = {"own": {"from": "pretrain"}, "pretrain": {"from": "base"}, "align": {"from": "own"}}
    assert list(in_order({name: {} for name in sorted(train)}, train)) == ["pretrain", "own", "align"]
