"""Rehearse an experiment: all of its data, its plan, then every stage and every suite with a tiny model.

    stagecraft rehearse --profile a40 --experiment qwen2.5-7b-code

It finds in minutes what would fail after days: a chat template that does not fit, rows
without targets, a gate on a dataset without test documents, packages, permissions and partitions of the machine. It
runs on the machine of the profile, with its queue, sharding and number of ranks, below results/rehearsal/NAME:

1. the data, as the experiment says, with the real tokenizer, down to the packed rows;
2. the plan of each stage as configured, with the rows that were counted;
3. 3 steps of each stage with a model of two narrow layers, the real vocabulary and row length, and each suite on 2
   items (of perplexity and chats: per language and dataset).

Its scores and gates mean nothing. Raw archives are shared with the real run; all else is removed by `rm -r`.
"""

import logging
import shutil
import subprocess
import sys
import time
from pathlib import Path

from scripts.common.discovery import constants_in
from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.evaluation.suites import configured
from scripts.experiment.layout import Layout
from scripts.experiment.load import experiment_of, load_experiment
from scripts.experiment.machine_files import MONITORING, load_machine, read_yaml
from scripts.experiment.settings.experiment import Evaluation, Experiment
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import as_json, to_json
from scripts.experiment.settings.training import Base, Stage
from scripts.experiment.shards import PackedRows
from scripts.tokens.tokenization.base_tokenizer import small_files
from scripts.tokens.tokenization.tokenizer_files import FILES
from scripts.training.planning.resolved_stage import total_ranks

SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def small_config(config: dict) -> dict:
    """config.json with two narrow layers; what it says for each layer is cut to two."""
    layers = config.get("num_hidden_layers")
    cut = {key: value[:2] for key, value in config.items() if isinstance(value, list) and len(value) == layers}
    if config.get("head_dim"):
        width = {"head_dim": SIZES["hidden_size"] // SIZES["num_attention_heads"]}
    else:
        width = {}
    return {**config, **cut, **SIZES, **width}


def make_small_base(base: Base, out: Path) -> None:
    """Write the small model and the real tokenizer to `out`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = small_files(base)
    if folder is None or not (folder / "config.json").is_file():
        raise UserError(
            f"training.base.model: config.json and the tokenizer of {base.model} cannot be read; a rehearsal needs a "
            "network, or a folder"
        )
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    config = small_config(read_json(folder / "config.json"))
    torch.manual_seed(0)
    try:
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    except (KeyError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: no model that transformers can make: {error}") from error
    model.save_pretrained(out)
    for name in FILES:
        if name != "config.json" and (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)


ROOT = Path("results/rehearsal")
STEPS, ITEMS = 3, 2
# settings that a stage of three steps cannot have; null takes a key away
UNSET = ("epochs", "max_samples", "warmup_steps", "early_stopping")


def small_stage(settings: Stage, ranks: int) -> dict:
    """What a stage's rehearsal changes of its settings."""
    named = settings.model_fields_set
    changes = {key: None for key in UNSET if key in named}
    changes |= {"steps": STEPS, "global_batch_size": ranks, "eval_steps": 1, "eval_rows": ranks}
    if isinstance(settings.trainable, list):  # patterns may name layers that a model of two has not
        changes["trainable"] = "all"
    return changes


def small_suites(evaluation: Evaluation) -> dict:
    """What the rehearsal changes of the suites' settings."""
    small, changes = constants_in("scripts.evaluation.suites", "small"), {"gate": {"fail": False}}
    for suite, settings in configured(evaluation).items():
        changes[suite] = small[suite](settings, ITEMS)
    return changes


def rehearsal_of(path: Path, experiment: Experiment, machine: Machine, folder: Path, base: Path) -> dict:
    """The experiment file of a rehearsal: what it changes, laid over the file at `path`. `folder`: the results root of
    the rehearsal; `base`: where the small base model is, unless the experiment makes its base from scratch."""
    training = experiment.training
    if training.base.model == "scratch":
        small = {"shape": {"num_hidden_layers": 2}}
    else:
        small = {"model": str(base), "package": None, "file": None, "revision": None, "sha256": None, "shape": None}
    if training.base.no_rope_layers:
        small["no_rope_layers"] = [1]
    ranks = total_ranks(machine)
    # without GPUs bf16 is emulated on many processors: a step over 150,000 logits a token then takes minutes
    precision = {} if machine.gpus else {"precision": "fp32"}
    return {
        "extends": str(path),
        "experiment": f"{experiment.experiment} (rehearsal)",
        "results": str(folder),
        "training": {
            "base": small,
            "train": {name: small_stage(stage, ranks) | precision for name, stage in training.train.items()},
        },
        "evaluation": small_suites(experiment.evaluation),
    }


def plan_stages(experiment: Experiment, machine_path: Path, folder: Path) -> None:
    """Print the plan of each stage as configured, with the rows that the rehearsal packed."""
    layout, shape = Layout(folder), experiment.training.base.shape
    if shape is not None and experiment.training.base.model == "scratch":
        shape = shape | {"vocab_size": experiment.tokens.tokenizer.vocab_size}
    monitoring = MONITORING / f"{experiment.monitoring}.yaml"
    for name, stage in experiment.training.train.items():
        command = [sys.executable, "-m", "scripts.training.plan", "--stage", name, "--machine", str(machine_path)]
        command += ["--monitoring", str(monitoring), "--settings", to_json(stage)]
        command += ["--shape", as_json(shape)] if shape else []
        command += ["--folder", experiment.training.base.model]
        command += ["--shards", str(PackedRows(experiment, layout).stage(name))]
        out = folder.with_name(f"{folder.name}-plan") / f"{name}.json"
        if subprocess.run([*command, "--out", str(out)], check=False).returncode:
            raise UserError(f"training.train.{name}: refused by its plan; the line above says why")


def rehearse(profile: str, configfile: Path | None) -> None:
    """Run a rehearsal to its end. Raises UserError: a setting or file of the user's is wrong, or a job failed."""
    path, experiment = experiment_of(profile, configfile)
    settings = read_yaml(Path(profile) / "config.yaml")
    machine_path = Path(f"config/machines/{settings.get('default-resources', {}).get('machine', 'local')}.yaml")
    machine = load_machine(machine_path)
    folder = ROOT / path.stem
    base = folder.with_name(f"{folder.name}-base")
    if experiment.training.base.model != "scratch":
        make_small_base(experiment.training.base, base)
    changed = folder.with_name(f"{folder.name}.yaml")
    write_json(changed, rehearsal_of(path, experiment, machine, folder, base))  # JSON is YAML
    load_experiment(read_yaml(changed), str(changed))
    parts = {"data": "data", "stages and suites": str(folder / "eval.json")}
    for part, target in parts.items():
        began = time.monotonic()
        command = [sys.executable, "-m", "snakemake", target, "--profile", profile, "--configfile", str(changed)]
        if subprocess.run(command, check=False).returncode:
            raise UserError(f"rehearsal of {path}: {part} failed; the lines above say why")
        logging.info(f"rehearsal of {path}: {part} passed in {time.monotonic() - began:.0f} s")
        if part == "data":
            plan_stages(experiment, machine_path, folder)
