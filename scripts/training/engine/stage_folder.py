"""A stage's folder: model and tokenizer, metrics, summary, the command and the environment that produced them."""

import hashlib
import importlib.metadata
import platform
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from accelerate import PartialState
from torch import nn

from scripts.common.disk import free_bytes, size_text
from scripts.common.errors import UserError
from scripts.common.files import new_folder_beside, publish_files, read_json, write_json
from scripts.common.manifest import NAME, read_manifest, write_manifest
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.hosts.hardware import cpu_model, gpu_driver
from scripts.training.engine.callbacks import snapshot_folder
from scripts.training.engine.parallel import whole_model_loading
from scripts.training.engine.parameters import full_shape, split_parameters
from scripts.training.engine.pruning import checkpoints_of, folder_bytes
from scripts.training.engine.trainer import StageTrainer
from scripts.training.model.lora import CONFIG, finish_adapter_folder
from scripts.training.model.snapshots import snapshot_name
from scripts.training.monitoring.measurements import summarize_metrics
from scripts.training.planning.resolved_stage import ResolvedStage
from scripts.training.planning.states import checkpoint_bytes, checkpoints_at_once, saved_parameters, weight_bytes


class Folders(NamedTuple):
    origin: Path  # the model that the stage starts from
    shards: Path  # packed training and validation rows
    work: Path  # checkpoints and logs
    out: Path  # the stage's folder, written at the end


CODE = ("scripts", "config/deepspeed", "requirements.lock")  # what decides weights beside the settings
LONGEST_DIFF = 1 << 20  # characters


def package_hash(name: str) -> str | None:
    """A sha256 over an installed package's list of files with their hashes; torch is installed without a pinned one."""
    record = importlib.metadata.distribution(name).read_text("RECORD")
    if record:
        return hashlib.sha256(record.encode()).hexdigest()
    return None


def git_output(*arguments: str) -> str:
    """What git prints about this checkout; nothing where it is no repository, or where git is not installed, as on a
    cluster's nodes: no trained model is lost for that."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace")


def code_facts() -> dict:
    """The commit of the code that trains, and what was changed since; None for what git does not tell."""
    # a patch that `git apply` takes, whatever the user's configuration makes of a diff
    patch = ("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
    changes = git_output("diff", *patch, "HEAD", "--", *CODE)
    return {"git_commit": git_output("rev-parse", "HEAD").strip() or None, "git_diff": changes[:LONGEST_DIFF] or None}


def environment(threads: int, facts: dict) -> dict:
    """The software and hardware that the stage ran on; `facts` are those of its summary."""
    driver = gpu_driver()
    packages = ["torch", "transformers", "accelerate", "deepspeed", "numpy"]
    return {
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "torch_sha256": package_hash("torch"),
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "processor": platform.machine(),
        "cpu": cpu_model(),
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "gpu_driver": driver and driver.version,
        "processes": PartialState().num_processes,
        "threads": threads,
        **code_facts(),
        **{name: facts[name] for name in ("attention", "compiled")},
    }


def write_end_tokens(folder: Path, end_tokens: list[int]) -> None:
    """Make generation stop at the tokens that end an answer, in generation_config.json of a stage trained on chats.

    A base model's own names its `<|endoftext|>` alone, so that whatever loads the folder would write past the answer.
    Its other end tokens and settings stay. After a stage trained on texts alone the file stays as it is.

    Args:
        end_tokens: of the shards' manifest, `<|endoftext|>` last.
    """
    if len(end_tokens) < 2:
        return
    path = folder / "generation_config.json"
    config = read_json(path) if path.is_file() else {}
    known = config.get("eos_token_id", [])
    if not isinstance(known, list):
        known = [] if known is None else [known]
    pad = config.get("pad_token_id")
    ends = {
        "eos_token_id": list(dict.fromkeys([*end_tokens, *known])),
        "pad_token_id": end_tokens[-1] if pad is None else pad,
    }
    write_json(path, config | ends)


def publish_stage(
    trainer: StageTrainer,
    stage: ResolvedStage,
    folders: Folders,
    work: Path,
    facts: dict,
    threads: int,
    end_tokens: list[int],
) -> None:
    """Save the model and all other files of the stage to `folders.out`, the manifest last. On all ranks.

    Args:
        work: the run's own folder.
        end_tokens: of the shards' manifest.
        facts: content of summary.json, without the figures of the metric log.
        threads: of this process.
    """
    origin, out, settings = folders.origin, folders.out, stage.settings
    with new_folder_beside(out) as new_folder:
        trainer.save_model(str(new_folder))  # on all ranks: sharded weights are gathered here
        if not trainer.is_world_process_zero():
            return
        (new_folder / "training_args.bin").unlink()  # a pickle, and it holds paths
        adapter = {}
        if settings.method == "lora":
            with whole_model_loading(trainer.args):  # only this rank loads: under ZeRO-3 it would wait for the others
                adapter = finish_adapter_folder(new_folder, settings, origin, out)
        for name in read_manifest(origin)["files"]:
            weights = name.endswith((".safetensors", ".index.json")) or name == CONFIG
            if not (new_folder / name).exists() and not weights:
                shutil.copyfile(origin / name, new_folder / name)  # the tokenizer
        write_end_tokens(new_folder, end_tokens)
        for step in stage.curve_steps:
            add_snapshot(work, new_folder, step)
        write_manifest(new_folder, sorted(path.name for path in new_folder.iterdir()), **adapter)
        shutil.copyfile(work / "metrics.jsonl", new_folder / "metrics.jsonl")
        shutil.copyfile(work / "alerts.jsonl", new_folder / "alerts.jsonl")
        command = shlex.join([sys.executable, "-m", "scripts.training.train", *sys.argv[1:]])
        (new_folder / "command.txt").write_text(f"{command}\n")
        write_json(new_folder / "environment.json", environment(threads, facts))
        write_json(new_folder / "summary.json", {**facts, **summarize_metrics(work / "metrics.jsonl")})
        shutil.rmtree(out / "tensorboard", ignore_errors=True)
        shutil.copytree(work / "tensorboard", out / "tensorboard")
        publish_files(new_folder, out, last=NAME)


def add_snapshot(work: Path, new_folder: Path, step: int) -> None:
    """Copy the weights of a step of the curve into the stage's folder; a stage that stopped early has fewer."""
    folder = snapshot_folder(work, step)
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name.endswith((".safetensors", ".safetensors.index.json")):
                shutil.copyfile(path, new_folder / snapshot_name(step, path.name))


def state_bytes(model: nn.Module, optimizer: str) -> float:
    """Bytes of the optimizer's state for the trained parameters of `model`."""
    parts = split_parameters(model)
    head = model.get_output_embeddings().weight
    outside = parts["decayed"] + parts["undecayed"]
    own_head = head is not model.get_input_embeddings().weight and any(parameter is head for parameter in outside)
    matrices = count(parts["muon"])
    return OPTIMIZERS[optimizer].state_bytes(matrices + count(outside), matrices, count([head] if own_head else []))


def count(parameters) -> int:
    """How many numbers the parameters hold, also those that ZeRO-3 has left on other ranks."""
    return sum(torch.Size(full_shape(parameter)).numel() for parameter in parameters)


def check_disk_space(stage: ResolvedStage, model: nn.Module, origin: dict, work: Path) -> None:
    """Check that checkpoints and the published model of a stage fit on the disk of `work`.

    Args:
        origin: manifest of the model that the stage starts from.
        work: the run's folder; checkpoints that already lie there are counted in.

    Raises:
        UserError: they do not fit.
    """
    settings, machine = stage.settings, stage.machine
    trained = count(parameter for parameter in model.parameters() if parameter.requires_grad)
    parameters = count(model.parameters())
    size = checkpoint_bytes(settings, machine, parameters, trained, state_bytes(model, settings.optimizer))
    if settings.method == "lora" and settings.lora.merge:
        published = sum(file["bytes"] for file in origin["files"].values())
    else:
        published = saved_parameters(settings, parameters, trained) * weight_bytes(settings, machine)
    published *= stage.weight_copies
    number = checkpoints_at_once(stage)
    present = sum(folder_bytes(folder) for folder in checkpoints_of(work))
    needed, free = number * size + published - present, free_bytes(work)
    if needed > free:
        raise UserError(
            f"training.train.{stage.name}: {number} checkpoints of {size_text(size)} and a model of"
            f" {size_text(published)} need {size_text(needed)} more in {work}, {size_text(free)} are free;"
            " make space there, or lower `keep_checkpoints`"
        )
