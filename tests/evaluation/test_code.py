"""Suite code: planted solutions score exactly as planted; a real model runs from file to scores."""

import json
import sys
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl, sha256_file
from scripts.evaluation.benchmarks.formats import read
from scripts.evaluation.generation.model import ScoredModel
from scripts.evaluation.metrics import scoring
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.gates import suite_gate
from scripts.evaluation.results.items import read_scored
from scripts.evaluation.suites import code
from scripts.evaluation.suites.code import Settings as Code
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_dict, to_json
from scripts.experiment.settings.suites import Benchmark, Gate
from scripts.judge.problem import OUTCOMES
from tests import forked
from tests.evaluation.benchmarks.test_formats import HUMANEVAL, MULTIPL_E, written

pytestmark = pytest.mark.usefixtures("sandbox")


def settings(paths: list[Path], styles: tuple[str, ...] = ("completion",), **changes) -> Code:
    benchmarks = [Benchmark(path=str(path), prompt=style) for path, style in zip(paths, styles, strict=True)]
    return Code(benchmarks=benchmarks, **{"max_new_tokens": 16, "memory_megabytes": 512, **changes})


# What stands in place of a canonical solution, and what becomes of it.
PLANTED = {
    "wrong": "    return object()\n",
    "exception": "    raise RuntimeError('planted')\n",
    "compile error": "    return (\n",
    "memory": "    return bytearray(1 << 40)\n",
    "environment error": "    import package_that_nobody_has\n",
    "timeout": "    while True: pass\n",
}


@pytest.fixture
def completions(monkeypatch):
    """Makes the suite take prepared completions in place of a model's: a list per problem, in their order."""

    def prepare(prepared):
        monkeypatch.setattr(ScoredModel, "generate", lambda model, prompts, *_, **__: (prepared, {"name": "prepared"}))

    return prepare


def test_planted_solutions_score_as_planted(benchmarks, completions, model_folder, tmp_path):
    path = benchmarks / "HumanEval.jsonl.gz"
    planted = dict(zip([3, 17, 40, 77, 100, 163], PLANTED, strict=True))
    problems = read(path)
    completions([[PLANTED[planted[n]] if n in planted else p.canonical] for n, p in enumerate(problems)])
    result = code.code(model_folder, settings([path], timeout=6), 42, tmp_path)
    score = result["scores"]["HumanEval"]["python"]
    assert (score["documents"], score["pass@1"]) == (164, pytest.approx(158 / 164))
    assert {outcome: score[outcome] for outcome in (*PLANTED, "passed")} == {**dict.fromkeys(PLANTED, 1), "passed": 158}
    assert read_json(tmp_path / "scores.json") == json.loads(json.dumps(result))
    items = list(read_jsonl(tmp_path / "items.jsonl.zst"))
    outcomes = {item["id"]: item["verdicts"][0]["outcome"] for item in items}
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "passed"} == {
        f"HumanEval/{number}": outcome for number, outcome in planted.items()
    }
    assert [item["id"] for item in items] == sorted(problem.id for problem in problems)
    assert result["data"] == {"HumanEval": sha256_file(path)}
    assert result["sandbox"] == "full"


def test_several_samples_languages_and_forms_are_scored_separately(completions, model_folder, tmp_path):
    right, wrong = "    return x + 1\n", "    return x\n"
    completions([[right, wrong, wrong], [wrong, wrong, wrong]] * 2)
    second = {**HUMANEVAL, "task_id": "HumanEval/1"}
    plain = written(tmp_path / "plain.v1.jsonl", [HUMANEVAL, second])
    chat = written(tmp_path / "chat.jsonl", [HUMANEVAL, second])
    both = settings([plain, chat], ("completion", "chat"), samples=3, k=[1, 3], temperature=0.8)
    scores = code.code(model_folder, both, 42, tmp_path / "out")["scores"]
    assert list(scores) == ["plain", "chat"]
    for name in scores:
        score = scores[name]["python"]
        assert (score["passed"], score["wrong"]) == (1, 5)
        assert score["pass@1"] == pytest.approx((1 / 3 + 0) / 2)
        assert score["pass@3"] == pytest.approx((scoring.pass_at_k(3, 1, 3) + 0) / 2) == 0.5


def test_a_fault_of_the_tests_makes_the_score_not_measured(completions, model_folder, tmp_path):
    broken = {**HUMANEVAL, "task_id": "HumanEval/1", "test": "import nothing_to_be_had\n" + HUMANEVAL["test"]}
    del broken["canonical_solution"]
    tried = {**broken, "test": f"try:\n    import nothing_to_be_had\nfinally:\n    pass\n{HUMANEVAL['test']}"}
    path = written(tmp_path / "b.jsonl", [HUMANEVAL, broken])
    with pytest.raises(
        UserError, match=r"b: 1 problems, such as HumanEval/1, need nothing_to_be_had; name an environment"
    ):
        code.code(model_folder, settings([path]), 42, tmp_path / "out")
    path = written(tmp_path / "b.jsonl", [HUMANEVAL, tried])
    completions([["    return x + 1\n"]] * 2)
    score = code.code(model_folder, settings([path]), 42, tmp_path / "out/base")["scores"]["b"]["all"]
    assert (score["pass@1"], score["passed"], score["test error"]) == (None, 1, 1)
    suite = scoring.pass_suite([1])
    compared = SuiteComparison(suite, read_scored(tmp_path / "out", suite, ["base"], ["b"], "file"), ["base"], 0.95)
    assert compared.measure("pass@1", ("b", "all"), "base") == {"value": None, "interval": None}
    gate = Gate(name="g", dataset="b", model="base", metric="pass@1", above=0.1)
    assert suite_gate(gate, compared, "key").outcome == "not measured"


def test_a_benchmark_whose_own_solutions_fail_is_refused_before_anything_is_generated(model_folder, tmp_path):
    wrong = {**HUMANEVAL, "task_id": "HumanEval/1", "canonical_solution": "    return x\n"}
    path = written(tmp_path / "b.jsonl", [HUMANEVAL, wrong])
    with pytest.raises(UserError, match=r"b: 1 of 2 published solutions do not pass here: HumanEval/1 \(wrong: Asser"):
        code.code(model_folder, settings([path]), 42, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_completions_of_multipl_e_are_scored_as_right_or_wrong(completions, model_folder, tmp_path):
    completions([[f"    return {value};\n}}\nint main() {{}}" for value in ("x + 1", "x")]])
    path = written(tmp_path / "m.jsonl", [MULTIPL_E])
    sampled = settings([path], samples=2, temperature=0.5)
    scores = code.code(model_folder, sampled, 42, tmp_path / "out")["scores"]["m"]["cpp"]
    assert (scores["passed"], scores["wrong"]) == (1, 1)


def test_a_model_is_scored_by_the_command_and_twice_alike(model_folder, tmp_path):
    path = written(tmp_path / "two.jsonl", [HUMANEVAL, {**HUMANEVAL, "task_id": "HumanEval/1"}])
    sampled = settings([path], samples=2, temperature=0.5)
    for name in "ab":
        command = [sys.executable, "-m", "scripts.evaluation.suites.code", "--model", model_folder, "--seed", "42"]
        command += ["--settings", to_json(sampled), "--out", tmp_path / name]
        done = forked.run(command)
        assert done.returncode == 0, done.stderr
    assert read_json(tmp_path / "a/scores.json")["settings"] == to_dict(sampled) | {"seed": 42}
    for file in ("items.jsonl.zst", "scores.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    (first, _) = read_jsonl(tmp_path / "a/items.jsonl.zst")
    assert all(code.startswith(HUMANEVAL["prompt"]) for code in first["written"])
    score = read_json(tmp_path / "a/scores.json")["scores"]["two"]["python"]
    assert sum(score[outcome] for outcome in OUTCOMES) == 4
    scored = read_scored(tmp_path, scoring.pass_suite([1]), ["a", "b"], ["two"], "file")
    assert scored["two"].ids == ["HumanEval/0", "HumanEval/1"]


EDITS = {
    "evaluation.code.benchmarks.0.path: no/file.jsonl: no such file": {"benchmarks": [{"path": "no/file.jsonl"}]},
    "evaluation.code.samples: with temperature 0 all samples are the same; set a temperature above 0": {"samples": 5},
    "evaluation.code.k: pass@10 needs as many `samples`, not 5": {"samples": 5, "temperature": 0.8, "k": [1, 10]},
}


@pytest.mark.parametrize("line", EDITS)
def test_settings_that_do_not_agree_are_one_line_errors(tmp_path, line):
    path = written(tmp_path / "b.jsonl", [HUMANEVAL])
    config = read_yaml(Path("config/examples/from-scratch.yaml"))
    config["evaluation"]["code"] = {"benchmarks": [{"path": str(path)}], **EDITS[line]}
    with pytest.raises(UserError) as error:
        to_dict(load_experiment(config, "x.yaml"))
    assert str(error.value) == f"x.yaml: {line}"


def test_two_benchmarks_with_the_same_name_are_a_one_line_error(tmp_path):
    paths = [written(tmp_path / name, [HUMANEVAL]) for name in ("b.jsonl", "b.v2.jsonl")]
    config = read_yaml(Path("config/examples/from-scratch.yaml"))
    config["evaluation"]["code"] = {"benchmarks": [{"path": str(path)} for path in paths]}
    with pytest.raises(UserError, match=r"benchmarks\.1\.path: .*b\.v2\.jsonl has the name of .*b\.jsonl; rename one"):
        to_dict(load_experiment(config, "x.yaml"))
