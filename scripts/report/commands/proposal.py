"""What `stagecraft start` proposes for a base, a machine and a time: how to train, how much to read, how much to score.

    proposal = propose(found_base("Qwen/Qwen2.5-Coder-7B"), machine, hours=8, tokens=2_400_000)
    proposal.stage["method"], proposal.sentence      # "lora", "reads 2.4 of 2.4 million tokens, once, 0.6 h ..."

The method is the fastest that fits by the machine's plan. How much is read follows from the time and the plan's speed;
without a GPU from what two products of matrices take on this machine.
"""

import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.errors import UserError
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.model_folder import Shape, shape_of_folder
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Base, Stage
from scripts.hosts.hardware import cpu_precision
from scripts.tokens.tokenization.base_tokenizer import small_files
from scripts.tokens.tokenization.chat_template import template_source
from scripts.tokens.tokenization.tokenizer_files import TokenizerFiles
from scripts.training.planning.choice import choose
from scripts.training.planning.parameters import count_parameters
from scripts.training.planning.resolved_stage import global_batch_size, total_ranks

DEFAULT = Path("config/config.yaml")
METHODS = (
    {"method": "full"},
    {"method": "lora"},
    {"method": "lora", "quantize": "8bit"},
    {"method": "lora", "quantize": "4bit"},
)
LORA = {"r": 16, "alpha": 32, "dropout": 0}
LENGTHS = (4096, 2048, 1024, 512)  # of rows on GPUs: the longest that the base knows and the machine holds
CPU_LENGTH, CPU_BATCH = 256, 4  # tokens of a row, and rows of a step, without a GPU
CPU_HOURS, GPU_HOURS = 1 / 6, 1.0  # where no time is given
SHARE = 0.25  # of the time, for the stage; its control takes as much, and the evaluation the rest
CPU_SHARE = 0.4  # of what a processor reaches in large products, that a stage reaches
EPOCHS = 1  # over code; more of them teach little (Muennighoff et al. 2023 find up to 4 useful, of scarce data)
FEWEST_STEPS = 50  # of a pass over the data, before a step gets more rows than one of each process
FEWEST_CURVE = 8  # steps, below which a quarter of them says nothing
SHORT = 60  # steps, below which a stage is scored twice and warmed up for two steps


class FoundBase(NamedTuple):
    """A base model, and what its files say of it.

    Attributes:
        settings: `training.base` of the experiment; empty for the default's own base.
        infill: whether its tokenizer has the tokens of fill-in-the-middle.
        template: whether it has a chat template.
    """

    settings: dict[str, Any]
    shape: Shape
    infill: bool
    template: bool


class Proposal(NamedTuple):
    """Settings of the experiment.

    Attributes:
        stage: of the stage that reads the user's data, but for `from` and `data`.
        steps: of the optimizer, in that stage.
        perplexity: of suite perplexity.
        sentence: what will be read, in how long.
    """

    stage: dict[str, Any]
    steps: int
    perplexity: dict[str, Any]
    sentence: str


def found_base(given: str | None) -> FoundBase:
    """The base that a user names: a folder, a .gguf file, a name on the hub with or without `@REVISION`, or None for
    the default's. Raises UserError: it is not there, cannot be asked for, or is of an unknown architecture."""
    if given is None:
        settings = read_yaml(DEFAULT)["training"]["base"]
        return FoundBase({}, Shape(**settings["shape"]), infill=False, template=True)
    settings: dict[str, Any] = {"model": given}
    if "==" in given:
        raise UserError(
            f"--base {given}: a package needs `package`, `sha256` and `file` in the experiment; here give a folder, a"
            " .gguf file or a name on the hub"
        )
    if Path(given).exists():
        settings["model"] = str(Path(given).resolve())
    elif given.endswith(".gguf") or given.startswith((".", "/", "~")) or given.count("/") != 1:
        raise UserError(f"--base {given}: no such folder or .gguf file, and no name on the hub (ORGANISATION/NAME)")
    else:
        name, _, revision = given.partition("@")
        settings = {"model": name, "revision": commit_of(name, revision or None)}
    folder = small_files(Base(**settings))
    if folder is None:
        raise UserError(
            f"--base {given}: its config.json cannot be read from the hub; download the model, and give its folder"
        )
    shape = None
    if (folder / "config.json").is_file():
        shape = shape_of_folder(folder)
    if shape is None:
        raise UserError(
            f"--base {given}: {folder}/config.json is missing, or of an architecture that stagecraft cannot plan for;"
            " give a model whose layers are alike, as Qwen2, Llama or Mistral"
        )
    if "revision" in settings:  # no folder will tell its shape before the first job
        written = {key: getattr(shape, key) for key in read_yaml(DEFAULT)["training"]["base"]["shape"]}
        settings["shape"] = written | {"head_dim": shape.head_dim}
    files = TokenizerFiles(folder)
    return FoundBase(settings, shape, files.infill is not None, template_source(files) is not None)


def commit_of(name: str, revision: str | None) -> str:
    """The commit of a model on the hub at a branch, tag or commit. Raises UserError: the hub has none, or cannot be
    asked."""
    if revision and re.fullmatch("[0-9a-f]{40}", revision):
        return revision
    import httpx2
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return HfApi().model_info(name, revision=revision, timeout=30).sha
    except (HfHubHTTPError, HFValidationError) as error:
        raise UserError(
            f"--base {name}: {constants.ENDPOINT} has no such model{f' at {revision}' * bool(revision)}, or asks for a"
            " login (`hf auth login`)"
        ) from error
    except (OSError, httpx2.HTTPError) as error:
        raise UserError(
            f"--base {name}: {constants.ENDPOINT} cannot be reached ({type(error).__name__}); set HF_ENDPOINT to a"
            " mirror, or download the model elsewhere and give its folder"
        ) from error


def memory() -> int:
    """Bytes of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def hours_of(text: str) -> float:
    """The hours in `90s`, `10m`, `8h` or `2d`. Raises UserError: it is none of these."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|d)", text)
    if not match or not float(match[1]):
        raise UserError(f"--time {text}: a number and a unit, as 30m, 8h or 2d")
    return float(match[1]) * {"s": 1 / 3600, "m": 1 / 60, "h": 1, "d": 24}[match[2]]


def cpu_tflops(precision: str) -> float:
    """What a stage reaches on this machine's processor (10^12 operations per second), from two products of matrices."""
    import torch

    from scripts.training.model.float32_products import float32_products

    float32_products()
    size, kind = 1024, {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    first, second = torch.ones(size, size, dtype=kind), torch.ones(size, size, dtype=kind)
    first @ second  # its memory and threads are made once
    start = time.perf_counter()
    for _ in range(8):
        first @ second
    return CPU_SHARE * 8 * 2 * size**3 / (time.perf_counter() - start) / 1e12


def candidates(base: FoundBase, machine: Machine, tokens: int) -> list[dict[str, Any]]:
    """The settings of the stage in each way that it could be trained, but for how long."""
    length = min(CPU_LENGTH, base.shape.max_position_embeddings)
    if not machine.gpus:
        common = {"sequence_length": length, "global_batch_size": CPU_BATCH * machine.cpu_ranks * machine.nodes}
        return [{**common, "method": "lora", "precision": cpu_precision()}]
    found = []
    for longest in LENGTHS:
        length = min(longest, base.shape.max_position_embeddings)
        rows = global_batch_size(count_parameters(base.shape), tokens, length)
        rows = min(rows, tokens // length // FEWEST_STEPS)
        ranks = total_ranks(machine)
        batch = max(1, -(-rows // ranks)) * ranks
        common = {"sequence_length": length, "global_batch_size": batch, "precision": "bf16"}
        found += [{**common, **method} for method in METHODS]
    return found


def fastest(base: FoundBase, machine: Machine, tokens: int) -> tuple[dict[str, Any], float | None]:
    """(the settings of the fastest way that fits with the longest rows, its tokens per second). Raises UserError: none
    fits; it is the plan's error for the smallest."""
    best, refused, length = None, None, None
    for settings in candidates(base, machine, tokens):
        if best and settings["sequence_length"] != length:
            break
        length = settings["sequence_length"]
        if settings["method"] == "lora":
            settings["lora"] = LORA
        stage = Stage(**{"from": "base", "data": "own", "learning_rate": 1e-4, "steps": 1, **settings})
        try:
            option = choose("own", stage, base.shape, machine)
        except UserError as error:
            refused = error
            continue
        speed = option.speed and option.speed.tokens_per_second
        if best is None or (speed or 0) > (best[1] or 0):
            best = (settings, speed)
    if best is None:
        raise refused
    return best


def propose(base: FoundBase, machine: Machine, hours: float | None, tokens: int) -> Proposal:
    """The settings for a base, a machine and a time.

    Args:
        hours: for all that is trained and scored; None for ten minutes, or an hour on GPUs.
        tokens: of the user's data that can be trained on.

    Raises:
        UserError: nothing fits the machine, or the time is too short for one step.
    """
    if not machine.gpus:
        here = {"host_memory_gib": machine.host_memory_gib or memory() / 2**30}
        here["cpu_tflops"] = machine.cpu_tflops or cpu_tflops(cpu_precision())
        machine = machine.model_copy(update=here)
    settings, speed = fastest(base, machine, tokens)
    if hours is None and machine.gpus:
        hours = GPU_HOURS
    elif hours is None:
        hours = CPU_HOURS
    per_step = settings["global_batch_size"] * settings["sequence_length"]
    steps = steps_in(hours, per_step, tokens, speed)
    stage = settings | schedule(steps)
    whole = steps == whole_pass(tokens, per_step)
    if whole:
        stage["epochs"] = EPOCHS
    else:
        stage["steps"] = steps
    stage["learning_rate"] = "auto"
    if not base.settings and not machine.gpus:
        stage["learning_rate"] = 1.0e-3  # it was chosen for the default's base
    stage["eval_rows"] = 8
    if machine.gpus:
        stage["eval_rows"] = max(64, total_ranks(machine))
    read = min(tokens, steps * per_step)
    parts = [f"reads {read / 1e6:.2g} of {tokens / 1e6:.2g} million tokens"]
    if whole:
        parts.append("once")
    if speed:
        parts.append(f"about {read / speed / 3600:.2g} h")
    else:
        parts.append("in a time that is not known, as the machine file names no `gpu_tflops`")
    how = " ".join(filter(None, [settings["method"], settings.get("quantize", "")]))
    sentence = f"{', '.join(parts)} ({steps:,} steps, {how})"
    return Proposal(stage, steps, scored(base, machine, hours), sentence)


def whole_pass(tokens: int, per_step: int) -> int:
    """The steps in which all data is read once."""
    return max(1, round(EPOCHS * tokens / per_step))


def steps_in(hours: float, per_step: int, tokens: int, speed: float | None) -> int:
    """The steps that fit into the stage's share of the time, at most those of a pass over the data. Raises UserError:
    not one step fits. `speed`: tokens per second; None where the plan does not know it."""
    if speed is None:
        return whole_pass(tokens, per_step)
    possible = int(SHARE * hours * 3600 * speed / per_step)
    if possible < 1:
        needed = per_step / speed / SHARE / 60
        raise UserError(
            f"--time: too short for one step of {per_step:,} tokens, which takes {per_step / speed:,.0f} s here;"
            f" with all that is scored give at least {needed:,.0f}m"
        )
    return min(whole_pass(tokens, per_step), possible)


def schedule(steps: int) -> dict[str, Any]:
    """The settings of a stage that follow from its number of steps."""
    if steps >= SHORT:
        return {"warmup_steps": 0.03, "eval_steps": 0.1}
    settings: dict[str, Any] = {"warmup_steps": min(2, steps - 1), "eval_steps": 0.5}
    if steps < FEWEST_CURVE:
        settings["curve"] = []
    return settings


def scored(base: FoundBase, machine: Machine, hours: float) -> dict[str, Any]:
    """The settings of suite perplexity."""
    # on a processor scoring takes as long as training: as many files as the default has for its ten minutes
    files, others, context = min(56, max(12, round(28 * hours / CPU_HOURS))), 12, 512
    if machine.gpus:
        files, others, context = 200, 50, 2048
    context = min(context, base.shape.max_position_embeddings)
    return {"documents": {"own": files, "other": others}, "context": context, "stride": context * 7 // 8}
