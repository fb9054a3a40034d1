"""Checks of an experiment that take more than one setting: of its datasets, its stages and its gates."""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.evaluation.suites import configured, problem_files, scored_datasets, suites_of
from scripts.evaluation.suites.latency import METRICS as TIMED
from scripts.experiment.model_folder import check_shape, check_weights, read_object
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.corpus import ChatDataset, TextDataset
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import Record, check_name, to_dict
from scripts.experiment.settings.training import Base, Stage
from scripts.languages import syntaxes


def check_datasets(experiment: Experiment, name: str) -> None:
    """Check sources, split and datasets.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: they do not agree.
    """
    split = experiment.corpus.split
    if split.validation + split.test >= 1:
        raise UserError(f"{name}: corpus.split: validation and test leave nothing to train on")
    kinds = {dataset.kind for dataset in experiment.corpus.compose.values()}
    if experiment.sources and not kinds & {"code", "instruct"}:
        raise UserError(f"{name}: sources: no dataset is made from repositories; leave it out")
    for dataset, settings in experiment.corpus.compose.items():
        if settings.kind in ("code", "instruct"):
            if not experiment.sources:
                raise UserError(f"{name}: sources: required, dataset {dataset} is made from repositories")
        else:
            check_own_dataset(settings, f"{name}: corpus.compose.{dataset}")
    if experiment.sources:
        check_grammars(experiment, name)


def check_grammars(experiment: Experiment, name: str) -> None:
    """Check that chats, which are made of files of languages with a grammar alone, have some."""
    corpus = experiment.corpus
    read = corpus.filter.read_languages()
    if read & syntaxes().keys():
        return
    datasets = [dataset for dataset, settings in corpus.compose.items() if settings.kind == "instruct"]
    if datasets:
        raise UserError(
            f"{name}: corpus.compose.{datasets[0]}: needs a grammar, and there is none of"
            f" {', '.join(sorted(read))}, which corpus.filter names; there are those of {', '.join(syntaxes())}"
        )


def check_own_dataset(settings: ChatDataset | TextDataset, key: str) -> None:
    """Check a dataset that is made from the user's own files or a hub dataset."""
    if settings.validation + settings.test >= 1:
        raise UserError(f"{key}: validation and test leave nothing to train on")
    if (settings.path is None) == (settings.hub is None):
        raise UserError(f"{key}: give either `path` or `hub`")
    if (settings.hub is None) != (settings.revision is None):
        raise UserError(f"{key}.revision: required with `hub` (a commit of 40 hex digits), and only there")
    if settings.test_path and not settings.path:
        raise UserError(f"{key}.test_path: only with `path`; of a hub dataset give another one as `path`")
    if settings.hub and settings.sha256:
        raise UserError(f"{key}.sha256: only with `path`; a hub dataset is pinned by its revision")


def check_dataset_sources(experiment: Experiment, sources: dict[str, Record]) -> None:
    """Check that each dataset's sources are in the table, and that they can be split as the experiment says. Raises
    UserError: one is not, or they cannot."""
    split = experiment.corpus.split
    needed = 2 + (split.validation > 0)
    if split.by == "repository" and 0 < len(sources) < needed:
        raise UserError(
            f"corpus.split.by: repository needs at least {needed} sources, for train, validation and test;"
            f" {experiment.sources} has {len(sources)}: {', '.join(sorted(sources))}; use `by: file`"
        )
    for dataset, settings in experiment.corpus.compose.items():
        for number, source in enumerate(getattr(settings, "sources", None) or ()):
            check_name(f"corpus.compose.{dataset}.sources.{number}", source, list(sources))


def dated_sources(experiment: Experiment, sources: dict[str, Record]) -> list[str]:
    """The sources whose history is read: all with a split by time, else none. Raises UserError: one has no history."""
    if experiment.corpus.split.by != "time":
        return []
    undated = next((source for source in sources.values() if source.kind != "git"), None)
    if undated:
        raise UserError(
            f"corpus.split.by: time needs sources of kind git, but {undated.name} is of kind {undated.kind}, which has"
            f" no history; take it out of {experiment.sources}, or use `by: repository`"
        )
    return list(sources)


def decontaminated(experiment: Experiment, suites: dict[str, Record]) -> list[str]:
    """The files of problems that no document of the sources may share text with.

    Args:
        suites: by name, with benchmarks out of a repository where they are put.

    Raises:
        UserError: documents are to be decontaminated, but no file is known, or one is not there.
    """
    settings, key = experiment.corpus.filter.decontaminate, "corpus.filter.decontaminate"
    if not settings or not experiment.sources:
        return []
    if isinstance(settings, list):
        for file in settings:
            if not Path(file).is_file():
                raise UserError(f"{key}: {file}: no such file")
        return settings
    scored = []
    for suite in ("code", "keywords"):
        if suite in suites:
            scored += problem_files(suite, suites[suite])
    if not scored:
        raise UserError(
            f"{key}: give files, as neither evaluation.code nor evaluation.keywords names a file of problems"
        )
    return scored


def check_tokens(experiment: Experiment, name: str) -> None:
    """Check mixtures.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: a mixture has the name of a dataset, or a part that is not a dataset.
    """
    for mixture, settings in experiment.tokens.mix.items():
        if mixture in experiment.corpus.compose:
            raise UserError(f"{name}: tokens.mix.{mixture}: this names a dataset; give the mixture another name")
        for part in settings.parts:
            check_name(f"{name}: tokens.mix.{mixture}.parts", part, list(experiment.corpus.compose))


def check_training(experiment: Experiment, name: str) -> None:
    """Check base model and stages.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: their settings do not agree, or name a stage, dataset or model that is not there.
    """
    base, stages = experiment.training.base, experiment.training.train
    check_base(base, f"{name}: training.base")
    if experiment.release.gguf and base.no_rope_layers:
        raise UserError(
            f"{name}: release.gguf: llama.cpp runs no model whose RoPE is off in chosen layers; leave it out"
        )
    if "base" in stages:
        raise UserError(f"{name}: training.train.base: this names the base model; give the stage another name")
    for stage, settings in stages.items():
        key = f"{name}: training.train.{stage}"
        check_name(f"{key}.data", settings.data, [*experiment.corpus.compose, *experiment.tokens.mix])
        if (settings.steps is None) == (settings.epochs is None):
            raise UserError(f"{key}: give either `steps` or `epochs`")
        check_origins(stage, stages, name)
        no_layers = not base.no_rope_layers and not Path(base.model).is_dir()
        if settings.trainable == "no_rope_layers" and no_layers:
            raise UserError(f"{key}.trainable: no layers are chosen; list them in training.base.no_rope_layers")
        check_optimization(settings, key)
        check_adapter(settings, stages, key)
        later = [name for name, other in stages.items() if other.origin == stage]
        if settings.seeds and later:
            raise UserError(
                f"{key}.seeds: {later[0]} starts from this stage; only a stage from which no other starts can have"
                " seeds"
            )


def check_base(base: Base, key: str) -> None:
    """Check that the base model can be made or found."""
    if base.shape is not None:
        check_shape(base.shape, f"{key}.shape")
    template = base.chat_template
    if template not in (None, "chatml") and base.model != "scratch" and not Path(template).is_file():
        raise UserError(f"{key}.chat_template: no file {template!r}; give one, or `chatml`")
    if base.model == "scratch":
        check_scratch(base, key)
    elif base.package is not None or base.file is not None:
        if base.package is None or base.file is None or base.sha256 is None:
            missing = next(name for name in ("package", "file", "sha256") if getattr(base, name) is None)
            raise UserError(f"{key}.{missing}: required where the base is a GGUF file out of a package")
        if "model" in base.model_fields_set:
            raise UserError(f"{key}.model: give `model` or `package`, not both")
    elif base.is_gguf:
        if not Path(base.model).is_file():
            raise UserError(f"{key}.model: no file {base.model!r}")
    elif "model" not in base.model_fields_set:
        raise UserError(f"{key}.model: required; give it, or `package`, `sha256` and `file`")
    elif not Path(base.model).is_dir():
        if base.model.startswith(("/", ".")) or base.model.count("/") != 1:
            raise UserError(f"{key}.model: no folder {base.model!r} here, and no hub name (ORGANISATION/NAME)")
        if base.revision is None:
            raise UserError(f"{key}.revision: required with a hub model (a commit of 40 hex digits)")
    else:
        check_model_folder(base, key)


def check_scratch(base: Base, key: str) -> None:
    """Check a base with random weights, whose tokenizer the experiment trains."""
    if base.chat_template is not None:
        raise UserError(f"{key}.chat_template: not with `scratch`, whose tokenizer has ChatML")
    if base.shape is None:
        raise UserError(f"{key}.shape: required with model `scratch`")
    if "vocab_size" in base.shape:
        raise UserError(f"{key}.shape.vocab_size: not with `scratch`; give tokens.tokenizer.vocab_size")


def check_model_folder(base: Base, key: str) -> None:
    """Check that a base model's folder has its weights, and the shape that the experiment gives, if it gives one."""
    folder = Path(base.model)
    if not (folder / "config.json").is_file():
        return  # rule `base` says what is missing
    check_weights(folder)
    config = read_object(folder / "config.json")
    for name, value in (base.shape or {}).items():
        if name in config and config[name] != value:
            raise UserError(
                f"{key}.shape.{name}: {value}, but {base.model}/config.json says {config[name]}; leave `shape` out"
            )


def check_origins(stage: str, stages: dict[str, Stage], name: str) -> None:
    """Check that a stage leads back to the base model."""
    chain = [stage]
    while (origin := stages[chain[-1]].origin) != "base":
        check_name(f"{name}: training.train.{chain[-1]}.from", origin, ["base", *stages])
        if origin in chain:
            raise UserError(f"{name}: training.train.{stage}.from: a cycle: {' from '.join([*chain, origin])}")
        chain.append(origin)


def check_optimization(settings: Stage, key: str) -> None:
    """Check a stage's optimizer and schedule."""
    optimizer, lora = settings.optimizer, settings.method == "lora"
    with_adapters = " or ".join(name for name, row in OPTIMIZERS.items() if row.adapters)
    stable = settings.scheduler == "warmup-stable-decay"
    named = settings.model_fields_set
    for setting, wrong, reason in (
        ("decay_share", not stable, "only with `scheduler: warmup-stable-decay`"),
        (
            "max_grad_norm",
            not OPTIMIZERS[optimizer].clips,
            f"not with `optimizer: {optimizer}`, whose step does not depend on the gradient's length",
        ),
        (
            "optimizer",
            lora and not OPTIMIZERS[optimizer].adapters,
            f"{optimizer} trains whole matrices; with `method: lora` use {with_adapters}",
        ),
        ("global_batch_size", settings.global_batch_size == "auto" and lora, "`auto` is for `method: full`"),
    ):
        if setting in named and wrong:
            raise UserError(f"{key}.{setting}: {reason}")
    if settings.steps is not None:
        warmup = settings.warmup_steps
        if warmup >= 1:
            warmup /= settings.steps
        if warmup + settings.decay_share * stable > 1:
            raise UserError(f"{key}.scheduler: warm-up and decay together are longer than `steps`")


def check_adapter(settings: Stage, stages: dict[str, Stage], key: str) -> None:
    """Check that `method`, `lora`, `quantize` and `trainable` agree."""
    if settings.method == "full":
        if settings.quantize != "none":
            raise UserError(f"{key}.quantize: only with `method: lora`; quantized weights cannot be trained")
        if "lora" in settings.model_fields_set:
            raise UserError(f"{key}.lora: only with `method: lora`")
    elif settings.curve and settings.lora.merge:
        raise UserError(f"{key}.curve: not with `lora.merge`, as the adapters on its way would have no base")
    elif settings.trainable != "all":
        raise UserError(f"{key}.trainable: not with `method: lora`, where `lora.targets` says what is trained")
    origin = stages.get(settings.origin)
    if settings.quantize != "none" and origin and origin.method == "lora" and not origin.lora.merge:
        raise UserError(f"{key}.quantize: {settings.origin} saves only an adapter; set `lora: {{merge: true}}`")


# metrics of a stage itself, from its summary.json; a suite measures all others on a dataset
STAGE_METRICS = ("loss", "gradient_norm", "memory_gib")


def check_gates(experiment: Experiment, name: str) -> None:
    """Check the gates.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: a gate names something that is not measured.
    """
    suites, stages = configured(experiment.evaluation), experiment.training.train
    measured = {}
    for suite, measures in suites_of({suite: to_dict(settings) for suite, settings in suites.items()}).items():
        measured |= dict.fromkeys(measures.metrics, suite)
    timed = TIMED if "latency" in suites else ()
    without_dataset = (*STAGE_METRICS, *timed)
    for stage, control in experiment.evaluation.gate.controls.items():
        key = f"{name}: evaluation.gate.controls"
        check_name(key, stage, stages)
        check_name(f"{key}.{stage}", control, [other for other in stages if other != stage])
        if stages[control].seeds and len(stages[control].seeds) != len(stages[stage].seeds or ()):
            raise UserError(f"{key}.{stage}: {control} must have no seeds, or as many as {stage}")
    for number, gate in enumerate(experiment.evaluation.gate.gates):
        key = f"{name}: evaluation.gate.gates.{number}"
        if gate in experiment.evaluation.gate.gates[:number]:
            raise UserError(f"{key}: the same as an earlier gate; remove one")
        if gate.metric in without_dataset:
            for setting in ("dataset", "language", "against"):
                if setting in gate.model_fields_set:
                    raise UserError(f"{key}.{setting}: not with `metric: {gate.metric}`, which needs no dataset")
            check_name(f"{key}.model", gate.model, stages if gate.metric in STAGE_METRICS else ["base", *stages])
            continue
        check_name(f"{key}.metric", gate.metric, [*measured, *timed, *STAGE_METRICS])
        if gate.dataset is None:
            raise UserError(f"{key}.dataset: required with `metric: {gate.metric}`")
        suite = measured[gate.metric]
        check_name(f"{key}.dataset", gate.dataset, scored_datasets(experiment.evaluation, suite))
        models = ["base", *stages]
        check_name(f"{key}.model", gate.model, models)
        if gate.against is not None:
            check_name(f"{key}.against", gate.against, models)
            seeds = [len(stages[name].seeds or ()) if name in stages else 0 for name in (gate.model, gate.against)]
            if all(seeds) and seeds[0] != seeds[1]:
                raise UserError(
                    f"{key}.against: {gate.model} has {seeds[0]} seeds, {gate.against} {seeds[1]}; give both the same"
                    " number"
                )
