"""Print the plans of all stages in one table, also before any data exists.

    stagecraft plan --profile a40
    stagecraft plan --profile local --experiment config/mine.yaml --rows 20000

Tokens are counted where shards are there, else estimated from the sizes of the sources, and said to be so; `--rows`
plans for so many packed rows instead. It exits with 1 if a stage does not fit. The report shows what was measured.
"""

import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from scripts.common.disk import free_bytes
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.checks import check_dataset_sources
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST, Layout, raw_manifest
from scripts.experiment.load import experiment_of
from scripts.experiment.machine_files import MONITORING, load_machine, load_monitoring, read_yaml
from scripts.experiment.model_folder import description
from scripts.experiment.settings.corpus import Dataset, Filter, OwnDataset, Split
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import to_dict
from scripts.experiment.shards import PackedRows
from scripts.sources.providers.git import borrow_objects
from scripts.sources.providers.git_process import empty_repository, run_git
from scripts.sources.tables.source import Source
from scripts.sources.tables.sources_table import sources_of
from scripts.tokens.packing.mixing import most_rows, validation_rows
from scripts.training.model.nope import expand_layers
from scripts.training.planning.plan_stage import PlanInputs, plan, with_layers
from scripts.training.planning.resolved_stage import rows_of_splits
from scripts.training.planning.states import GIB, disk_warning

# Of 60 source distributions with 746 MB, filters and deduplication kept 197 MB, 50 million Qwen tokens (DECISIONS.md).
KEPT_OF_RAW = 197 / 746
BYTES_PER_TOKEN = 3.94


class Rows(NamedTuple):
    """Packed rows of a stage's dataset; None where nothing is known of them."""

    train: int | None
    validation: int | None
    source: str  # where the numbers come from


def bytes_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return 0


def committed_bytes(source: Source, filters: Filter, repository: Path) -> int:
    """Bytes of the files of a repository on this machine that the filter reads, at the pinned commit; 0 where it is not
    here, or has no such commit. `repository`: an empty one of our own, as git opens no other."""
    if not borrow_objects(Path(source.location), repository):
        return 0
    listed = run_git(repository, "ls-tree", "-r", "-l", "-z", source.pin)
    size = 0
    for entry in listed.stdout.split("\0"):
        facts, _, path = entry.partition("\t")
        length = facts.rpartition(" ")[2]
        folders = {part.lower() for part in path.split("/")[:-1]}
        known = filters.language_by_ending.get(Path(path).suffix.lower())
        if known and length.isdigit() and int(length) < filters.max_bytes and not folders & filters.unread_folders:
            size += int(length)
    return size


def kept_bytes(sources: list[Source], filters: Filter) -> tuple[float, int]:
    """(bytes of text that all sources give, how many of them are known): the others count as the mean of those."""
    known = []
    with tempfile.TemporaryDirectory() as work:
        repository = empty_repository(Path(work))
        for source in sources:
            manifest = raw_manifest(source.raw_name)
            if source.kind == "git" and (size := committed_bytes(source, filters, repository)):
                known.append(size)
            elif manifest.is_file():
                known.append(KEPT_OF_RAW * read_json(manifest)["bytes"])
            elif source.kind == "path" and (size := bytes_of(Path(source.location))):
                known.append(KEPT_OF_RAW * size)
    if known:
        return (sum(known) / len(known) * len(sources), len(known))
    return (0, 0)


def estimated_bytes(dataset: Dataset, sources: list[Source], filters: Filter) -> tuple[float, str] | None:
    """(bytes of text, what the estimate rests on) of a dataset that is not there yet; None where nothing is known."""
    if dataset.kind in ("code", "instruct"):
        used = [source for source in sources if not dataset.sources or source.name in dataset.sources]
        size, known = kept_bytes(used, filters)
        if not known:
            return None
        of = f" of {len(used)}" if known < len(used) else ""
        return size, f"estimated from the sizes of {known}{of} sources"
    path = Path(dataset.path) if dataset.path else None
    size = bytes_of(path) if path else 0
    if not size:
        return None
    limit = getattr(dataset, "max_megabytes", None)
    if limit:
        size = min(size, limit * 1e6)
    return size, f"estimated from the {size / 1e6:,.1f} MB at {path}"


def stage_rows(
    experiment: Experiment, sources: list[Source], layout: Layout, stage: str, assumed_rows: int | None = None
) -> Rows:
    """The packed rows of a stage. `assumed_rows`: plan for so many training rows, whatever is there."""
    settings = experiment.training.train[stage]
    packed = PackedRows(experiment, layout)
    if assumed_rows:
        split = split_of(experiment, packed.datasets_of(settings.data)[0])
        return Rows(
            assumed_rows,
            round(assumed_rows * split.validation / (1 - split.validation - split.test)),
            "of the rows asked for",
        )
    manifest = packed.stage(stage) / MANIFEST
    if manifest.is_file():
        return Rows(*rows_of_splits(read_json(manifest), settings), "counted")
    rows = {
        part: dataset_rows(experiment, sources, part, settings.sequence_length)
        for part in packed.datasets_of(settings.data)
    }
    first = next(iter(rows.values()))
    if any(part.train is None for part in rows.values()):
        return Rows(None, None, "unknown: neither shards nor sources are here")
    mixture = experiment.tokens.mix.get(settings.data)
    if mixture is None:
        return first
    train = most_rows(mixture.parts, {name: part.train for name, part in rows.items()})[0]
    if mixture.million_tokens:
        train = min(train, int(mixture.million_tokens * 1e6 // settings.sequence_length))
    validation = validation_rows(mixture.parts, {name: part.validation for name, part in rows.items()})
    return Rows(train, sum(validation.values()), f"a mixture, {first.source}")


def split_of(experiment: Experiment, name: str) -> Split | OwnDataset:
    """What says which shares of a dataset are for validation and test: the dataset itself, or all sources' split."""
    dataset = experiment.corpus.compose[name]
    if hasattr(dataset, "validation"):
        return dataset
    return experiment.corpus.split


def dataset_rows(experiment: Experiment, sources: list[Source], name: str, length: int) -> Rows:
    """The estimated rows of a dataset at a length."""
    dataset = experiment.corpus.compose[name]
    estimate = estimated_bytes(dataset, sources, experiment.corpus.filter)
    if estimate is None:
        return Rows(None, None, "unknown: neither shards nor sources are here")
    size, source = estimate
    split = split_of(experiment, name)
    rows = size / BYTES_PER_TOKEN / length
    train = max(1, round(rows * (1 - split.validation - split.test)))
    return Rows(train, round(rows * split.validation), source)


class StagePlan(NamedTuple):
    name: str
    rows: Rows
    plan: dict  # empty where the stage cannot be run
    error: str


def machine_of(profile: str) -> Path:
    """The machine file that a profile names."""
    resources = read_yaml(Path(profile) / "config.yaml").get("default-resources", [])
    if isinstance(resources, dict):
        pairs = resources.items()
    else:
        pairs = (str(resource).split("=", 1) for resource in resources)
    return Path(f"config/machines/{dict(pairs).get('machine', 'local')}.yaml")


def stage_plans(flow: ExperimentView, machine: Machine, assumed_rows: int | None = None) -> list[StagePlan]:
    """The plan of each stage, with its error in the place of those that cannot be run. `assumed_rows`: packed training
    rows to plan for, instead of those that are counted or estimated."""
    shape, layers, plans = flow.shape, [], []
    if shape:
        layers = expand_layers(flow.experiment.training.base.no_rope_layers, shape.num_hidden_layers)
    unknown = ""
    if not shape or not shape.vocab_size:
        unknown = "training.base.shape" + ".vocab_size" * bool(shape)
    free = free_bytes(flow.layout.results) / GIB
    monitoring = load_monitoring(MONITORING / f"{flow.experiment.monitoring}.yaml")
    for name, settings in flow.stages.items():
        rows = stage_rows(flow.expanded, list(flow.sources.values()), flow.layout, name, assumed_rows)
        settings = with_layers(settings, layers)
        inputs = PlanInputs(name, settings, machine, shape, rows.train, rows.validation, monitoring)
        try:
            planned = plan(inputs)
        except UserError as error:
            plans.append(StagePlan(name, rows, {}, str(error)))
            continue
        planned.setdefault("warnings", []).extend(disk_warning(inputs.resolve(), planned, free))
        if unknown:
            planned["warnings"].append(f"{unknown}: not given; without it nothing says whether {name} fits its memory")
        if rows.train is None and not planned.get("steps"):
            unplanned = "steps and hours follow from the data, of which nothing is here yet"
            instead = "`stagecraft plan --rows 20000` plans for so many packed rows"
            planned["warnings"].append(f"{name}: {unplanned}; {instead}")
        plans.append(StagePlan(name, rows, planned, ""))
    return plans


def machine_warnings(machine: Machine) -> list[str]:
    """One line for each figure without which the plan of a machine with GPUs says less."""
    if machine.gpus:
        lacks = {"gpu_memory_gib": "whether a stage fits", "gpu_tflops": "how long it takes"}
    else:
        lacks = {}
    return [
        f"machine: {key}: not given; without it nothing says {unknown}"
        for key, unknown in lacks.items()
        if getattr(machine, key) is None
    ]


class Plans(NamedTuple):
    """The plans of an experiment's stages, and what they are for.

    Attributes:
        path: of the machine file.
        base: what the base is, in words.
    """

    path: Path
    machine: Machine
    stages: list[StagePlan]
    base: str


def plans_of(profile: str, configfile: Path | None, assumed_rows: int | None = None) -> Plans:
    """The plans of the experiment that `--profile` and `--configfile` mean to Snakemake, on the profile's machine."""
    experiment, path = experiment_of(profile, configfile)[1], machine_of(profile)
    sources = {source.name: source for source in sources_of(experiment)}
    check_dataset_sources(experiment, sources)
    flow, machine = ExperimentView(experiment, sources, Layout(Path(experiment.results))), load_machine(path)
    return Plans(
        path, machine, stage_plans(flow, machine, assumed_rows), description(to_dict(experiment.training.base))
    )


def cell(value: float | str | None, form: str = ",", unit: str = "") -> str:
    """A number with its unit; nothing for None, and `auto` as it is where it is not known yet what it comes to."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:{form}}{unit}"


def hours_per(stage: StagePlan, tokens: float) -> float | None:
    speed = stage.plan.get("tokens_per_second")
    return tokens / speed / 3600 if speed else None


ROWS = (
    ("training data", lambda s: s.rows.source),
    ("  tokens", lambda s: cell(s.plan.get("tokens"))),
    ("optimizer steps", lambda s: cell(s.plan.get("steps"))),
    ("  of warm-up", lambda s: cell(s.plan.get("warmup"))),
    ("  between validations", lambda s: cell(s.plan.get("eval"))),
    ("  between checkpoints", lambda s: cell(s.plan.get("save"))),
    ("learning rate", lambda s: cell(s.plan.get("learning_rate"), ".3g")),
    ("global batch (rows)", lambda s: cell(s.plan.get("global_batch_size"))),
    ("  micro-batch", lambda s: cell(s.plan.get("micro_batch_size"))),
    ("  accumulated passes", lambda s: cell(s.plan.get("gradient_accumulation"))),
    ("recomputed layers", lambda s: s.plan.get("recomputed_layers", "")),
    ("sharding", lambda s: s.plan.get("sharding", "") + ", offload" * bool(s.plan.get("offload"))),
    ("memory per GPU", lambda s: cell(s.plan.get("gpu_gib"), ".1f", " GiB")),
    ("  most in", lambda s: s.plan.get("peak", "")),
    ("memory per host", lambda s: cell(s.plan.get("host_total_gib"), ".1f", " GiB")),
    ("disk for checkpoints", lambda s: cell(s.plan.get("checkpoints_gib"), ".1f", " GiB")),
    ("  published", lambda s: cell(s.plan.get("published_gib"), ".1f", " GiB")),
    ("tokens per second", lambda s: cell(s.plan.get("tokens_per_second"), ",.0f")),
    ("MFU, causal", lambda s: cell(s.plan.get("mfu"), ".1%")),
    ("hours", lambda s: cell(s.plan.get("hours"), ",.1f")),
    ("hours per 100 million tokens", lambda s: cell(hours_per(s, 1e8), ",.1f")),
)


def overview_table(stages: list[StagePlan], machine: Path) -> Table:
    """A column per stage; rows that no stage has anything for are left out."""
    table = Table("", *(stage.name for stage in stages), title=f"Plan on {machine}")
    for label, value in ROWS:
        cells = [value(stage) for stage in stages]
        if any(cells):
            table.add_row(label, *cells)
    return table


def parts_table(stages: list[StagePlan], machine: Machine) -> Table:
    """Memory per GPU, part by part."""
    table = Table("GiB per GPU", *(stage.name for stage in stages), title="Memory, part by part")
    for part in dict.fromkeys(chain.from_iterable(stage.plan.get("gpu_parts_gib", {}) for stage in stages)):
        table.add_row(part, *(cell(stage.plan.get("gpu_parts_gib", {}).get(part), ".2f") for stage in stages))
    table.add_row("all of it", *(cell(stage.plan.get("gpu_gib"), ".2f") for stage in stages), style="bold")
    table.add_row("the machine has", *(cell(machine.gpu_memory_gib, "g") for _ in stages))
    return table


def print_plans(profile: str, configfile: Path | None, rows: int | None) -> None:
    """Print the plans of all stages; exits with 1 if a stage does not fit. `rows`: packed training rows to plan for,
    instead of those that are counted or estimated."""
    if rows is not None and rows < 1:
        raise UserError(f"--rows {rows}: packed training rows to plan for, at least 1")
    plans = plans_of(profile, configfile, rows)
    console = Console()
    console.print(f"base: {plans.base}", markup=False, soft_wrap=True)
    console.print(overview_table(plans.stages, plans.path))
    if any(stage.plan.get("gpu_parts_gib") for stage in plans.stages):
        console.print(parts_table(plans.stages, plans.machine))
    for line in machine_warnings(plans.machine):
        console.print(f"warning: {line}", markup=False, soft_wrap=True)
    for stage in plans.stages:
        if stage.error:
            console.print(f"error: {stage.error}", markup=False, soft_wrap=True)
        for line in stage.plan.get("warnings", []):
            console.print(f"warning: {line}", markup=False, soft_wrap=True)
    if any(stage.error for stage in plans.stages):
        sys.exit(1)
