"""scripts/report/content/final_model.py: gains on the user's data and losses on general data, in one sentence."""

from scripts.report.content.eval_json import in_order
from scripts.report.content.final_model import changes, headline


def row(dataset, value, interval, reading, metric="bits_per_byte", against="base"):
    about = {"model": "sft", "against": against, "dataset": dataset, "language": "all", "metric": metric}
    return {**about, "value": value, "interval": interval, "direction": reading}


def evaluation(*rows, general=("others",)):
    experiment = {"evaluation": {"general": list(general)} if general else {}}
    return {"verdict": "met", "stages": {"sft": {}}, "comparisons": list(rows), "inputs": {"experiment": experiment}}


def texts(*rows):
    return list(map(str, changes(evaluation(*rows))))


GAIN = row("code", -0.5489, [-0.6208, -0.4839], "better")
MATCH = row("function", 0.04, [0.01, 0.07], "better", "edit_similarity")
LOSS = row("others", 0.12, [0.1, 0.14], "worse")


def test_gains_on_ones_own_data_and_losses_on_general_data_are_listed_with_their_intervals():
    assert texts(GAIN, MATCH, LOSS) == [
        "sft against base: better on ours by 0.5489 bits per byte [0.4839, 0.6208] on code, by 0.0400 edit similarity"
        " [0.0100, 0.0700] on function; worse in general by 0.1200 bits per byte [0.1000, 0.1400] on others."
    ]
    assert headline(evaluation(GAIN, LOSS)) == "All gates are met, but sft is worse on others"


def test_unclear_and_unmeasured_differences_are_neither_gain_nor_loss():
    unknown = row("others", 0.01, [-0.02, 0.04], "no difference shown")
    missing = row("line", None, None, "not measured", "completion_match")
    assert texts(GAIN, unknown, missing) == texts(GAIN), "on the terminal; the page lists them"
    (change,) = changes(evaluation(GAIN, unknown, missing))
    assert list(change.readings) == ["better on ours", "not measured on ours:", "not known in general:"]
    assert change.readings["not known in general:"] == ["others (bits per byte)"]
    assert texts(unknown) == ["sft against base: no difference is shown."]


def test_each_model_compared_with_has_a_sentence_and_without_a_general_set_there_are_no_sides():
    two = evaluation(GAIN, LOSS | {"against": "pretrain"})
    starts = [str(change).partition(":")[0] for change in changes(two)]
    assert starts == ["sft against base", "sft against pretrain"]
    (plain,) = map(str, changes(evaluation(GAIN, LOSS, general=())))
    assert plain.startswith("sft against base: better on code (bits per byte -0.5489") and "worse on others" in plain


def test_the_headline_lists_what_is_worse_and_the_sizes_of_completion_say_that_they_are_some():
    rows = [LOSS | {"dataset": name, "suite": "completion"} for name in ("line", "block")]
    assert headline(evaluation(LOSS, *rows)).endswith("worse on others, line completion and block completion")


def test_the_last_stage_is_the_one_trained_last_whatever_its_name():
    train = {"own": {"from": "pretrain"}, "pretrain": {"from": "base"}, "align": {"from": "own"}}
    assert list(in_order({name: {} for name in sorted(train)}, train)) == ["pretrain", "own", "align"]
