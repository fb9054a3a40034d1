"""A stage's folder: model and tokenizer, metrics, summary, the command and the environment that made them."""

import importlib.metadata
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from accelerate import PartialState

from scripts.common.files import write_json
from scripts.common.manifest import read_manifest, write_manifest
from scripts.training.engine.trainer import StageTrainer
from scripts.training.model import logits_fingerprint
from scripts.training.model.loading import add_adapter
from scripts.training.model.lora import CONFIG, finish
from scripts.training.monitoring.metric_log import digest


def environment(threads: int, facts: dict) -> dict:
    """What the stage ran on and with; `facts` are its summary's."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    packages = ["torch", "transformers", "accelerate", "deepspeed", "numpy", *["liger-kernel"] * facts["liger"]]
    return {
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "platform": platform.platform(),
        "processor": platform.machine(),
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "processes": PartialState().num_processes,
        "threads": threads,
        "git_commit": commit.stdout.strip() or None,
        **{name: facts[name] for name in ("attention", "liger", "compile")},
    }


def publish(trainer: StageTrainer, stage: dict, origin: Path, work: Path, out: Path, facts: dict, threads: int) -> None:
    """Save the model and all beside it to `out`, the manifest last."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work, prefix="model.") as temporary:
        trainer.save_model(temporary)  # on all ranks: sharded weights are gathered here
        if not trainer.is_world_process_zero():
            return
        made = Path(temporary)
        (made / "training_args.bin").unlink()  # a pickle, and it holds paths
        adapter = finish(made, stage, origin, out) if stage["method"] == "lora" else {}
        for name in read_manifest(origin)["files"]:
            weights = name.endswith((".safetensors", ".index.json")) or name == CONFIG
            if not (made / name).exists() and not weights:
                shutil.copyfile(origin / name, made / name)  # the tokenizer
        manifest = write_manifest(made, sorted(path.name for path in made.iterdir()), **adapter)
        logits_fingerprint.save(
            made, add_adapter(logits_fingerprint.load(origin), made) if adapter else logits_fingerprint.load(made)
        )
        for name in [*manifest["files"], logits_fingerprint.NAME]:
            (made / name).replace(out / name)
        shutil.copyfile(work / "metrics.jsonl", out / "metrics.jsonl")
        shutil.copyfile(work / "alerts.jsonl", out / "alerts.jsonl")
        shutil.rmtree(out / "tensorboard", ignore_errors=True)
        shutil.copytree(work / "tensorboard", out / "tensorboard")
        (out / "command.txt").write_text(
            shlex.join([sys.executable, "-m", "scripts.training.train", *sys.argv[1:]]) + "\n"
        )
        write_json(out / "environment.json", environment(threads, facts))
        write_json(out / "summary.json", {**facts, **digest(work / "metrics.jsonl")})
        (made / "manifest.json").replace(out / "manifest.json")
