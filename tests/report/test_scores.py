"""results/scores.csv holds each score of eval.json once."""

import io
import json

import pandas as pd

from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.scores_table import scores_csv
from tests.evaluation.synthetic import dump

COLUMNS = ["model", "suite", "dataset", "language", "metric", "value", "interval_low", "interval_high", "items"]
KEYS = ["model", "suite", "dataset", "language", "metric"]


def written_table(results):
    """The table as a notebook reads it, by model, suite, dataset, language and metric."""
    table = pd.read_csv(io.StringIO(scores_csv(read_evaluation(results))))
    assert list(table.columns) == COLUMNS
    assert not table.duplicated(KEYS).any()
    return table.set_index(KEYS)


def ends(score):
    return (
        None if score.isna().interval_low and score.isna().interval_high else [score.interval_low, score.interval_high]
    )


def test_each_score_of_eval_json_is_one_row(make_results):
    results = make_results()
    table = written_table(results)
    evaluation = json.loads((results / "evaluation/gate/eval.json").read_text())
    expected = set()
    for model, suites in evaluation["scores"].items():
        for suite, datasets in suites.items():
            for dataset, languages in datasets.items():
                for language, score in languages.items():
                    for metric in [name for name, value in score.items() if isinstance(value, dict)]:
                        row = table.loc[(model, suite, dataset, language, metric)]
                        assert row.value == score[metric]["value"]
                        assert ends(row) == score[metric]["interval"]
                        assert row["items"] == score["documents"]
                        expected.add((model, suite, dataset, language, metric))
    assert set(table.index) == expected
    assert {"perplexity", "qa"} == set(table.index.get_level_values("suite"))


def test_latency_has_a_row_per_metric_of_each_measured_model_and_intervals_may_be_missing(make_results):
    results = make_results(documents=2)  # too few for an interval
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    timed = {
        "first_token_seconds": {"value": 0.125, "interval": [0.12, 0.13]},
        "answer_seconds": {"value": 1.5, "interval": None},
        "tokens_per_second": {"value": 371.6, "interval": [370.0, 372.0]},
    }
    evaluation["latency"] = {"base": {"not_applicable": "no GPU"}, "sft": timed}
    dump(path, evaluation)
    table = written_table(results)
    latency = table.xs("latency", level="suite").reset_index()
    assert latency.model.tolist() == ["sft"] * 3 and latency["items"].tolist() == [10] * 3
    assert latency[["dataset", "language"]].isna().all(axis=None)
    for row in latency.itertuples():
        assert (row.value, ends(latency.loc[row.Index])) == (timed[row.metric]["value"], timed[row.metric]["interval"])
    assert table.drop("latency", level="suite").interval_low.isna().any()
