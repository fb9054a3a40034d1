"""`plan` and `calibrate` on a stage that ran: measured, kept in the machine file, used by the next plan."""

import json
import re
from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.experiment.no_effect_settings import weight_settings
from scripts.experiment.provenance import Provenance, write_provenance
from scripts.experiment.settings.training import Stage
from scripts.training.planning import calibrate, overview
from tests import forked
from tests.training.conftest import LENGTH, SHAPE, STAGE, VOCABULARY, machine
from tests.training.test_train import command

pytestmark = pytest.mark.slow
FILE = """# A laptop, as its owner wrote about it.
nodes: 1
gpus: 0
micro_batch: 2  # rows
"""


@pytest.fixture
def ran(origin, shards, tmp_path, monkeypatch) -> Path:
    """A checkout in which the only stage of an experiment was trained by its launcher, on config/machines/mine.yaml."""
    for name in ("config/machines", "profiles/mine", "results/training/train", "results/tokens/pack"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "config/machines/mine.yaml").write_text(FILE)
    for name in ("scripts", "config/deepspeed", "config/sources.tsv", "config/monitoring"):
        (tmp_path / name).symlink_to(Path(name).resolve())
    profile = {"configfile": "config/mine.yaml", "default-resources": ["machine=mine"]}
    (tmp_path / "profiles/mine/config.yaml").write_text(yaml.safe_dump(profile))
    settings = {key: STAGE[key] for key in ("from", "data", "sequence_length", "global_batch", "steps")}
    settings |= {key: STAGE[key] for key in ("learning_rate", "precision", "eval_rows")}
    experiment = read_yaml(Path("config/config.yaml"))
    experiment["training"] = {"base": {"model": "scratch", "shape": SHAPE}, "train": {"sft": settings}}
    experiment["tokens"]["tokenizer"]["vocab_size"] = VOCABULARY
    experiment["evaluation"].pop("gate"), experiment["evaluation"].pop("completion", None)
    (tmp_path / "config/mine.yaml").write_text(yaml.safe_dump(experiment))
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"results/tokens/pack/code-{LENGTH}").symlink_to(shards)
    words = command(origin, shards, tmp_path, machine().model_dump(exclude_none=True))
    words[words.index("--machine") + 1] = "config/machines/mine.yaml"
    words[words.index("--settings") + 1] = json.dumps(settings)
    words[words.index("--out") + 1] = "results/training/train/sft"
    words[words.index("--stage") + 1] = "sft"
    done = forked.run(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    record_provenance(json.dumps(weight_settings(Stage.from_json(json.dumps(settings)))))
    return tmp_path


def record_provenance(settings: str) -> None:
    """What the workflow writes when a stage has finished: here it was trained without one."""
    output = {"results/training/train/sft/manifest.json": "0" * 64}
    write_provenance(Provenance("train", "", {"settings": repr(settings)}, [], "", {}, output, {}, {}, 0.0, 1.0))


def test_another_experiments_stage_of_the_same_name_and_other_machines_are_not_measured(ran):
    assert planned().measured
    write_json(ran / "config/machines/mine.yaml", {"nodes": 1, "gpus": 0, "cpu_ranks": 2, "micro_batch": 2})
    assert not planned().measured
    (ran / "config/machines/mine.yaml").write_text(FILE)
    record_provenance(json.dumps({"learning_rate": 1}))
    assert not planned().measured


def planned() -> overview.StagePlan:
    [stage] = overview.plans_of("profiles/mine", None).stages
    return stage


def test_a_measured_run_makes_the_next_plan_its_own_and_nothing_else_of_the_machine_file_changes(ran, monkeypatch):
    summary = read_json(ran / "results/training/train/sft/summary.json")
    assert summary["plan"]["steps"] == summary["steps"] == 12 and summary["plan"]["machine"] == "mine"
    before = planned()
    assert before.rows.source == "counted" and before.plan.get("seconds") is None
    calibrate.calibrate("profiles/mine", None)
    text = (ran / "config/machines/mine.yaml").read_text()
    assert text.startswith(FILE) and re.fullmatch(
        r"cpu_tflops: \S+  # measured by `stagecraft calibrate`\n", text[len(FILE) :]
    )
    after = planned()
    assert after.plan["seconds"] == pytest.approx(summary["seconds"], rel=0.01)
    assert after.plan | before.plan == after.plan, "only the speed is new"
    page = ran / "plan.html"
    overview.show([after], Path("m.yaml"), load_machine(Path("config/machines/mine.yaml")), page)
    shown = re.sub("<[^>]*>", "", page.read_text())
    assert f"{summary['tokens_per_second']:,.0f}" in shown and "tokens per second" in shown
    calibrate.calibrate("profiles/mine", None)  # once more: the line is rewritten, and says the same
    assert (ran / "config/machines/mine.yaml").read_text().count("cpu_tflops") == 1
    for change in ({"resumed_at_step": 4}, {"micro_batch": 1}, {"sharding": "zero2"}):  # a run unlike its plan
        unlike = after._replace(measured=after.measured | change)
        with pytest.raises(UserError, match="no stage of this experiment has finished with this machine file and"):
            calibrate.calibrated(load_machine(Path("config/machines/mine.yaml")), [unlike])


def test_for_a_gpu_mfu_and_the_memory_beyond_the_plan_are_measured():
    """In closed form: 100 steps of 2 s, 0.5 of them communication, took 2.5 s each, so the passes 2 in place of 1.5."""
    plan = {"steps": 100, "step_seconds": 2.0, "communication_seconds": 0.5, "offload_seconds": 0.0, "seconds": 210.0}
    plan |= {"micro_batch": 1, "gradient_accumulation": 8, "sharding": "zero2", "gpu_gib": 40.0}
    ran = {"steps": 100, "seconds": 262.5, "micro_batch": 1, "gradient_accumulation": 8, "sharding": "zero2"}
    stage = overview.StagePlan("sft", None, plan, "", ran | {"memory_gib": 41.5})
    file = machine(gpus=1, gpu_tflops=100, mfu=0.4, memory_overhead_gib=0.25)
    assert calibrate.calibrated(file, [stage]) == {"mfu": 0.3, "memory_overhead_gib": 1.75}
    with pytest.raises(UserError, match="set `gpu_tflops`"):
        calibrate.calibrated(machine(gpus=1), [stage._replace(plan={})])


@pytest.mark.parametrize("text", ["{nodes: 1, gpus: 0, micro_batch: 2}\n", "a: [\n"])
def test_a_machine_file_in_one_line_is_left_alone_and_the_error_says_what_to_add(text):
    with pytest.raises(UserError, match=r"mine\.yaml: must have one key per line .* add by hand: cpu_tflops: 0\.02"):
        calibrate.rewritten(text, {"cpu_tflops": 0.02}, Path("mine.yaml"))
