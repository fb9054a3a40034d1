"""Scores, comparisons and outcomes over a synthetic tree; sums are checked in plain Python."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.options import given
from scripts.evaluation.gate import evaluate
from scripts.evaluation.gate import gate as gate_rule
from scripts.evaluation.results.gates import verdict
from scripts.evaluation.results.inputs import gather
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import to_dict, to_json
from tests.evaluation.synthetic import (
    CODES,
    LEVELS,
    SOURCES,
    build,
    dump,
    gate,
    make_items,
    score_items,
    sha,
    write_model,
)

ROOT = Path(__file__).parents[2]
DATA = {"code": sha("code"), "instruct": sha("instruct")}


def command(experiment: Experiment, out: str = "results/evaluation/gate/eval.json") -> list[str]:
    inputs = ["--experiment", to_json(experiment), "--sources", json.dumps(SOURCES), "--codes", json.dumps(CODES)]
    return [sys.executable, "-m", "scripts.evaluation.gate", *inputs, "--out", out]


def start(root: Path, experiment: Experiment) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command(experiment), cwd=root, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], "no gates"),
        (["met", "met"], "met"),
        (["met", "met, not secured"], "met, not secured"),
        (["met", "not met, not secured"], "not met"),
        (["not met", "met, not secured"], "not met"),
        (["met", "not measured"], "not measured"),
        (["not measured", "met, not secured"], "not measured"),
        (["not measured", "not met"], "not met"),
    ],
)
def test_verdict_is_the_weakest_outcome(outcomes, expected):
    assert verdict(outcomes) == expected


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    """The evaluation of a tree without gates."""
    root = tmp_path_factory.mktemp("evaluated")
    return evaluate(build(root, []), root / "results")


def test_each_stage_is_compared_with_its_origin_and_the_base_once(evaluation):
    rows = [row for row in evaluation["comparisons"] if row["language"] == "all" and row["dataset"] == "code"]
    pairs = [(row["model"], row["against"]) for row in rows]
    assert pairs == [("pretrain", "base"), ("sft", "pretrain"), ("sft", "base")]
    code = {
        model: [i for i in make_items(model, 10, level) if i["dataset"] == "code"] for model, level in LEVELS.items()
    }
    for row, (model, against) in zip(rows, pairs, strict=True):
        change = sum(i["nll"] for i in code[model]) - sum(i["nll"] for i in code[against])
        assert row["value"] == pytest.approx(change / math.log(2) / sum(i["bytes"] for i in code["base"]))
        assert row["direction"] == "better"


def test_shares_have_wilsons_interval_and_changes_mcnemars_p(evaluation):
    score = evaluation["scores"]["sft"]["qa"]["instruct"]["all"]
    assert (score["documents"], score["exact_match"]["value"]) == (30, 0.6)  # 18 of 30, as written
    assert score["exact_match"]["interval"] == pytest.approx([0.4232, 0.7541], abs=1e-4)  # Wilson by table
    assert score["strict_match"]["interval"] == pytest.approx([0, 0.1135], abs=1e-4)  # none right is no certainty
    low, high = score["f1"]["interval"]
    assert low < score["f1"]["value"] == 0.8 < high  # no share: bootstrap
    rows = {
        (row["model"], row["against"], row["metric"]): row
        for row in evaluation["comparisons"]
        if (row["suite"], row["language"]) == ("qa", "all")
    }
    row = rows["sft", "base", "exact_match"]  # 2 of 10 become 6 of 10 in each of three languages
    assert row["value"] == pytest.approx(0.4)
    assert row["direction"] == "better"
    assert row["mcnemar"] == {"gained": 12, "lost": 0, "p": pytest.approx(5.32e-4, rel=1e-2)}  # z is √12
    worse = rows["pretrain", "base", "exact_match"]
    assert worse["mcnemar"] == {"gained": 0, "lost": 3, "p": pytest.approx(0.0833, rel=1e-2)}
    # 2.80 standard errors, each sqrt(0.4 * 0.6 / 29); fewer than 6 changes could show nothing at all
    assert row["detectable"] == pytest.approx(2.80 * (0.24 / 29) ** 0.5, rel=0.15)
    assert worse["detectable"] == rows["pretrain", "base", "strict_match"]["detectable"] == pytest.approx(6 / 30)
    assert rows["sft", "base", "f1"]["mcnemar"] is None


def test_planted_gates_come_out_as_planted(tmp_path):
    bits = score_items([i for i in make_items("sft", 10, LEVELS["sft"]) if i["dataset"] == "code"])["bits_per_byte"]
    gates = [
        gate("met", below=2 * bits),
        gate("met, not secured", below=1.001 * bits),
        gate("not met, not secured", below=0.999 * bits),
        gate("not met", below=bits / 2),
        gate("met", against="base", below=0),
        gate("not met", against="base", above=0),
        gate("met", language="rust", metric="perplexity", above=1),
    ]
    evaluation = evaluate(build(tmp_path, gates), tmp_path / "results")
    assert [result["outcome"] for result in evaluation["gates"]] == [planted["name"] for planted in gates]
    assert evaluation["verdict"] == "not met"
    assert evaluation["gates"][4]["interval"][1] < 0
    assert [evaluation["gates"][5][key] for key in ("side", "bound", "against")] == ["above", 0, "base"]


def test_inputs_name_all_that_made_the_result(tmp_path):
    experiment = build(tmp_path, [])
    inputs = gather(experiment, SOURCES, CODES, tmp_path / "results", tmp_path / "data/raw")
    assert inputs["experiment"] == to_dict(experiment)
    assert inputs["seed"] == 42
    assert inputs["sources"]["alpha"]["pin"] == SOURCES["alpha"]["pin"] == inputs["sources"]["alpha"]["archive"]["pin"]
    assert inputs["sources"]["beta"]["archive"]["sha256"] == sha("beta")
    assert inputs["code"] == CODES
    assert set(inputs["data"]) == {
        *("corpus/filter/alpha", "corpus/filter/beta", "corpus/deduplicate", "corpus/split"),
        *("corpus/compose/code", "corpus/compose/instruct", "tokens/tokenizer"),
        *("tokens/pack/code-512", "tokens/pack/instruct-1024"),
    }
    assert inputs["models"]["sft"]["model.safetensors"] == sha("model.safetensors")
    assert inputs["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert inputs["versions"]["numpy"] == __import__("numpy").__version__


def test_same_inputs_give_the_same_bytes_whatever_the_order_of_items_and_the_log_has_the_verdict(tmp_path):
    experiment = build(tmp_path, [gate("met", below=100), gate("too much", above=100)])
    path, written = tmp_path / "results/evaluation/gate/eval.json", []
    for turned in (False, True):
        items = make_items("sft", 10, LEVELS["sft"])
        write_model(tmp_path, "sft", items[::-1] if turned else items, DATA)
        done = start(tmp_path, experiment)
        assert done.returncode == 0 and done.stderr.rstrip().endswith("gates: not met (1 met, 1 not met)")
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert json.loads(written[0])["stages"]["sft"]["summary"]["steps"] == 40


def test_gate_on_a_language_without_documents_names_the_key(tmp_path):
    experiment = build(tmp_path, [gate("none", language="java", below=1)])
    with pytest.raises(UserError, match=r"evaluation\.gate\.gates\.0\.language: code has no .*'java'; it has: all, go"):
        evaluate(experiment, tmp_path / "results")


def test_malformed_manifest_is_a_one_line_error(tmp_path, monkeypatch):
    experiment = build(tmp_path, [])
    dump(tmp_path / "results/tokens/tokenizer/manifest.json", {"files": ["tokenizer.json"]})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", command(experiment)[2:])
    with pytest.raises(UserError) as refused:
        gate_rule(**given(gate_rule))
    message = str(refused.value)
    assert message.startswith("results/tokens/tokenizer/manifest.json: not a manifest") and "\n" not in message
    assert not (tmp_path / "results/evaluation/gate").exists()


def test_killed_run_leaves_no_file(tmp_path):
    experiment = build(tmp_path, [])
    pipe = tmp_path / "results/evaluation/perplexity/sft/items.jsonl.zst"
    pipe.unlink()
    os.mkfifo(pipe)  # whoever reads it waits
    process = subprocess.Popen(command(experiment), cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    while True:
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:  # not read yet
            assert process.poll() is None
            time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    os.close(writer)
    assert not (tmp_path / "results/evaluation/gate").exists()
