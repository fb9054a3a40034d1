"""Reruns that can be trusted: after each change, `-n` names exactly the jobs that the change concerns."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.report.content.eval_json import read_evaluation
from tests import forked
from tests.workflow.conftest import row, source

REPORT = {"page", "verdict"}
GATE = {"gate"} | REPORT
PERPLEXITY = {"perplexity base", "perplexity pretrain", "perplexity sft"}
KEYWORDS = {"keywords base", "keywords pretrain", "keywords sft"}
SFT = {"train sft", "perplexity sft", "keywords sft"} | GATE
STAGES = {"train pretrain", "perplexity pretrain", "keywords pretrain"} | SFT
TRAINING = {"base"} | STAGES | PERPLEXITY | KEYWORDS
CORPUS = {
    "signatures 0",
    "deduplicate",
    "split",
    "compose code",
    "compose instruct",
    "tokenizer",
    "pack code 128",
    "pack instruct 1024",
    "contamination",
    "baselines",
    "cards",
} | TRAINING
ALL = {"filter alpha", "filter beta"} | CORPUS


def touch_everything(clone):
    for path in sorted(clone.root.rglob("*")):
        if ".snakemake" not in path.parts and path.is_file() and not path.is_symlink():
            os.utime(path)


def test_a_workflow_that_ended_well_leaves_no_checkpoints(finished):
    """The stages are recorded as finished, so nothing would resume from one; the logs are kept."""
    runs = list(finished.root.glob("results/work/train/*/*"))
    assert {run.parent.name for run in runs} == {"pretrain", "sft"}
    assert all((run / "metrics.jsonl").is_file() and (run / "published.json").is_file() for run in runs)
    assert not list(finished.root.glob("results/work/train/*/*/checkpoint-*"))


def setting(*keys_and_value):
    *keys, last, value = keys_and_value

    def edit(config):
        for key in keys:
            config = config.setdefault(key, {})
        config[last] = value

    return lambda clone: clone.experiment(edit)


def code(file, old, new):
    return lambda clone: clone.replace(file, old, new)


def repin_beta(clone):
    folder = clone.root / "sources-beta"
    source("beta", folder)
    (folder / "new.py").write_text("def answer():\n    return 42\n" * 20)
    table = clone.root / "config/tiny.tsv"
    kept = [line for line in table.read_text().splitlines(keepends=True) if not line.startswith("beta")]
    table.write_text("".join(kept) + row("beta", folder))


def move_beta(clone):
    source("beta", clone.root / "moved-beta")
    table = clone.root / "config/tiny.tsv"
    before = next(line.split("\t")[2] for line in table.read_text().splitlines() if line.startswith("beta"))
    clone.replace("config/tiny.tsv", before, str(clone.root / "moved-beta"))


def add_gamma(clone):
    table = clone.root / "config/tiny.tsv"
    table.write_text(table.read_text() + row("gamma", source("gamma", clone.root / "sources-gamma")))


def another_machine(clone):
    clone.replace("config/machines/local.yaml", "micro_batch_size: 2", "micro_batch_size: 1\nhost_memory_gib: 64")


def another_plan(clone):
    """Another speed of the machine, another plan, and other code to make plans with."""
    clone.replace(
        "config/machines/local.yaml", "micro_batch_size: 2", "micro_batch_size: 2\ncpu_tflops: 0.021\nmfu: 0.31"
    )
    code("scripts/training/planning/speed.py", "OVERLAP = 0.5", "OVERLAP = 0.4")(clone)
    code("scripts/training/planning/plan_stage.py", "VALIDATION_SHARE = 1 / 3", "VALIDATION_SHARE = 1 / 2")(clone)
    code(
        "scripts/training/planning/plan_stage.py",
        "*rows, load_monitoring",
        "*[0, 0], load_monitoring",
    )(clone)
    (clone.root / "results/training/plan").mkdir(parents=True, exist_ok=True)
    (clone.root / "results/training/plan/sft.json").write_text("{}")


def code_that_no_job_uses(clone):
    """A constant of Muon, a method of the trainer, a value of a class, a setting, a bound of a setting."""
    code("scripts/training/engine/muon.py", "MOMENTUM = 0.95", "MOMENTUM = 0.9")(clone)
    unused = "    def unused(self):\n        return 1\n\n"
    sampler = "    def _get_train_sampler"
    code("scripts/training/engine/trainer.py", sampler, f"{unused}{sampler}")(clone)
    begin = "    def __init__(self, work: Path, keep"
    code("scripts/training/engine/callbacks.py", begin, f"    unused = 1\n\n{begin}")(clone)
    clip = "    max_grad_norm: Number = Field("
    code("scripts/experiment/settings/training.py", clip, f"    unused: Number | None = Field(None)\n{clip}")(clone)
    code("scripts/experiment/settings/corpus.py", "ge=0, lt=1", "ge=0, lt=0.9")(clone)


def bookkeeping(clone):
    (clone.root / "config/monitoring/default.yaml").write_text("save_steps: 7\nlog_steps: 7\nkeep_checkpoints: 7\n")


def delete_weights(clone):
    (clone.root / "results/training/train/sft/model.safetensors").unlink()


def flip_a_bit_of_weights(clone):
    path = clone.root / "results/training/train/sft/model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def rename(clone):
    setting("experiment", "another name")(clone)
    (clone.root / "results/work/experiment").unlink()  # else the results are another experiment's


CHANGES = {
    "a constant that two rules use": (
        code("scripts/tokens/packing/shards.py", "FIRST, TARGET = 1, 2", "FIRST, TARGET = 1, 4"),
        {"pack code 128", "pack instruct 1024", "cards"} | STAGES,
    ),
    "a helper that all use": (
        code(
            "scripts/common/files.py",
            "    path.parent.mkdir(parents=True, exist_ok=True)\n",
            "    path.parent.mkdir(0o755, True, True)\n",
        ),
        {"fetch alpha", "fetch beta"} | ALL,
    ),
    "a filter threshold": (setting("corpus", "filter", "min_lines", 11), ALL),
    "the fill-in-the-middle rate": (
        setting("corpus", "compose", "code", "fim_rate", 0.4),
        {"compose code", "pack code 128", "contamination", "baselines", "cards"} | STAGES | PERPLEXITY,
    ),
    "the sft learning rate": (setting("training", "train", "sft", "learning_rate", 2e-3), SFT),
    "seeds of a stage, the experiment's own first": (
        setting("training", "train", "sft", "seeds", [42, 7]),
        {"train sft.seed7", "perplexity sft.seed7", "keywords sft.seed7"} | GATE,
    ),
    "a deleted file of weights": (delete_weights, SFT),
    "a changed bit of weights": (flip_a_bit_of_weights, SFT),
    "the experiment's name": (rename, GATE | {"cards"}),
    "a licence in the sources table": (code("config/tiny.tsv", "PSF-2.0", "MIT"), GATE | {"cards"}),
    "a setting of one suite": (setting("evaluation", "perplexity", "documents", 5), PERPLEXITY | {"baselines"} | GATE),
    "a setting of another suite": (setting("evaluation", "keywords", "max_new_tokens", 5), KEYWORDS | GATE),
    "a suite added": (setting("evaluation", "qa", {}), {"qa base", "qa pretrain", "qa sft", "contamination"} | GATE),
    "a case of the keywords": (
        code("config/cases/keywords.yaml", "Write a", "Please write a"),
        KEYWORDS | {"contamination"} | GATE,
    ),
    "texts to be rated by people": (
        setting("evaluation", "human_ratings", {"of": "keywords"}),
        {"human_ratings"} | GATE,
    ),
    "a gate": (setting("evaluation", "gate", "confidence", 0.9), GATE),
    "one source's pin": (repin_beta, {"fetch beta", "filter beta"} | CORPUS),
    "one source's location, with the same pin": (move_beta, GATE | {"cards"}),  # eval.json names the location
    "a source added": (add_gamma, {"fetch gamma", "filter gamma"} | CORPUS),
}
NO_JOB = {
    "touch on every file": touch_everything,
    "a comment": code("scripts/corpus/filter.py", "\nfrom ", "\n# a comment\nfrom "),
    "a docstring": code("scripts/corpus/filter.py", '"""', '"""Another first line.\n\n'),
    "an unused helper beside one that all use": code(
        "scripts/common/cli.py", "\nimport ", "\ndef unused():\n    return 1\n\n\nimport "
    ),
    "code that no job uses": code_that_no_job_uses,
    "how log lines look": code("scripts/common/cli.py", "level=logging.INFO,", "level=logging.DEBUG,"),
    "how often a stage logs and saves": bookkeeping,
    "another plan, and another speed of the machine": another_plan,
    "another machine file": another_machine,
}


def test_changes_that_concern_no_job_run_none(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    assert clone.jobs() == set()
    hashed = json.loads((clone.root / ".snakemake/stagecraft/hashes.json").read_text())["content"]
    assert str(clone.root / "results/training/train/sft/model.safetensors") in hashed  # even a dry run keeps them
    for edit in NO_JOB.values():
        edit(clone)
    assert clone.jobs() == set()


@pytest.mark.parametrize("change", CHANGES)
def test_exactly_the_jobs_that_a_change_concerns_would_run(finished, tmp_path, change):
    clone = finished.copy(tmp_path / "clone")
    edit, expected = CHANGES[change]
    edit(clone)
    assert clone.jobs() == expected


def test_snakemakes_own_report_is_made_without_a_warning(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    done = clone.snakemake("--report", "report.html", "results/eval.json")
    assert (clone.root / "report.html").is_file()
    assert "Warning" not in done.stdout + done.stderr


def why(clone) -> list[str]:
    line = [forked.python(), "-m", "scripts.cli", "why", "--experiment", "tiny"]
    done = subprocess.run(line, cwd=clone.root, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_why_names_the_first_cause_of_each_job(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    assert why(clone) == ["nothing would run"]
    setting("training", "train", "sft", "learning_rate", 2e-3)(clone)
    setting("evaluation", "qa", {})(clone)
    manifest = clone.root / "results/corpus/compose/code/manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    lines = why(clone)
    causes = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}
    assert causes["train sft"].startswith("learning_rate 0.001 → 0.002")
    assert causes["qa base, qa pretrain, qa sft"] == "not made yet"
    assert causes["compose code"].startswith("results/corpus/compose/code/manifest.json has another content")
    assert any("pack" in jobs and "because of compose code" in cause for jobs, cause in causes.items()), lines


def test_items_that_were_edited_are_refused_by_a_page_made_alone_and_by_a_comparison(finished, tmp_path):
    results = finished.copy(tmp_path / "clone").root / "results"
    read_evaluation(results)
    items = results / "evaluation/perplexity/sft/items.jsonl.zst"
    edited = [item | {"language": "c"} for item in read_jsonl(items)]
    items.unlink()
    write_jsonl(items, edited)
    with pytest.raises(UserError, match=f"{items}: not what {results}/evaluation/gate/eval.json was made from"):
        read_evaluation(results)


def test_another_profile_reruns_nothing(finished):
    assert finished.jobs("results/eval.json", "--profile", "a40") == set()


def test_shards_rebuilt_with_the_same_content_cost_no_training(finished, tmp_path):
    """A filter threshold that drops nothing more: the data target rebuilds, and nothing that stands on it runs."""
    clone = finished.copy(tmp_path / "clone")
    setting("corpus", "filter", "max_bytes", 999_999)(clone)
    assert "train pretrain" in clone.jobs()
    clone.snakemake("data")
    assert clone.jobs() == GATE  # eval.json names the setting itself


def test_a_missing_shard_is_made_again_with_what_was_made_from_it(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    (clone.root / "results/tokens/pack/instruct-1024/train.tokens.bin").unlink()
    jobs = clone.jobs()
    assert {"pack instruct 1024", "train sft"} <= jobs and not {"pack code 512", "train pretrain"} & jobs


def test_every_input_that_made_it_is_named_in_eval_json(finished):
    evaluation = json.loads((finished.root / "results/eval.json").read_text())
    text = json.dumps(evaluation)
    for stage in ("base", "train/pretrain", "train/sft"):
        manifest = json.loads((finished.root / f"results/training/{stage}/manifest.json").read_text())
        assert manifest["files"]["model.safetensors"]["sha256"] in text
    for name in ("alpha", "beta"):
        (manifest,) = (finished.root / "data/raw").glob(f"{name}-????????????.json")
        assert json.loads(manifest.read_text())["sha256"] in text


def test_the_a40_experiment_resolves_and_plans_in_the_same_clone(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    shutil.rmtree(clone.root / "results")  # of another experiment
    done = clone.snakemake(
        "-n", "results/eval.json", "--profile", "a40", "--configfile", "config/experiments/qwen2.5-7b-code.yaml"
    )
    text = done.stdout + done.stderr
    assert "gres=gpu:a40:2" in text and "nodes=4" in text
    assert (
        yaml.safe_load(Path("profiles/a40/config.yaml").read_text())["configfile"]
        == "config/experiments/qwen2.5-7b-code.yaml"
    )
