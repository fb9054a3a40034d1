"""The profile that `stagecraft start` takes where none is given: one for this host's GPUs, or `local`.

profile = chosen_profile(None)      # "profiles/here", written with config/machines/here.yaml where there are GPUs
"""

from pathlib import Path
from typing import Any

import pynvml
import yaml

from scripts.common.files import atomic
from scripts.experiment.machine_files import load_machine
from scripts.hosts.gpus import cards
from scripts.report.commands.proposal import DEFAULT, memory
from scripts.training.planning.overview import machine_of

HERE = "here"
# part of a card's name → dense bf16 of NVIDIA's data sheets (10^12 operations per second)
TFLOPS = {
    **{"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "A800": 312, "A40": 149.7, "A10": 125, "A6000": 154.8},
    **{"L40S": 362, "L4": 121, "RTX 4090": 165.2, "RTX 3090": 71, "RTX 4080": 97.5, "RTX 5090": 209.5},
}
USABLE = 0.98  # of a card's memory


def own_gpus() -> list[tuple[str, float]]:
    """(name, GiB) of this host's GPUs; none where there is no driver."""
    try:
        pynvml.nvmlInit()
        found = [(card.name, card.memory_gib) for card in cards()]
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return []
    return found


def machine_settings(name: str, gib: float, count: int) -> dict[str, Any]:
    """The machine file for `count` GPUs of this name and memory."""
    settings: dict[str, Any] = {"nodes": 1, "gpus": count, "gpu_kind": name, "gpu_memory_gib": round(gib * USABLE, 1)}
    settings["host_memory_gib"] = round(memory() / 2**30 * USABLE)
    settings |= {"micro_batch_size": "auto", "sharding": "auto", "gradient_checkpointing": "auto"}
    for part, tflops in TFLOPS.items():
        if part.lower() in name.lower():
            settings["gpu_tflops"] = tflops
            break
    return settings


def profile_for(gpus: list[tuple[str, float]]) -> str:
    """The profile `here`, with a machine file for this host's GPUs of the kind that has the most memory; files that are
    there stay as they are."""
    name, gib = max(gpus, key=lambda gpu: gpu[1])
    count = sum(gpu[0] == name for gpu in gpus)
    profile: dict[str, Any] = {"configfile": str(DEFAULT), "cores": "all", "resources": {"network": 2, "gpu": count}}
    profile["default-resources"] = {"machine": HERE}
    profile["set-resources"] = {"training_job": {"gpu": count}, "gpu_job": {"gpu": 1}}
    files = {
        Path(f"config/machines/{HERE}.yaml"): machine_settings(name, gib, count),
        Path(f"profiles/{HERE}/config.yaml"): profile,
    }
    for file, content in files.items():
        if file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic(file) as temporary:
            temporary.write_text(
                f"# Made by `stagecraft start` for this host: {count} × {name}, {gib:.0f} GiB. Yours to change.\n"
                + yaml.safe_dump(content, sort_keys=False)
            )
        print(f"written: {file} ({count} × {name}, {gib:.0f} GiB)")
    return f"profiles/{HERE}"


def chosen_profile(given: str | None) -> str:
    """The profile that was given; else one for this host's GPUs, or `local` where it has none."""
    gpus = own_gpus()
    if given is None:
        return profile_for(gpus) if gpus else "profiles/local"
    if gpus and not load_machine(machine_of(given)).gpus:
        print(f"note: this host has {len(gpus)} GPUs ({gpus[0][0]}), which profile {Path(given).name} does not use")
    return given
