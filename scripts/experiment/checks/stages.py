"""Whether the settings of the base model and the stages agree with each other."""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.model_folder import check_weights
from scripts.experiment.model_shape import check_shape
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import check_name
from scripts.experiment.settings.training import Base, Stage


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
    if base.chat_template is not None:
        if base.model == "scratch":
            raise UserError(f"{key}.chat_template: not with `scratch`, whose tokenizer has ChatML")
        if base.chat_template != "chatml" and not Path(base.chat_template).is_file():
            raise UserError(f"{key}.chat_template: no file {base.chat_template!r}; give one, or `chatml`")
    if base.model == "scratch":
        if base.shape is None:
            raise UserError(f"{key}.shape: required with model `scratch`")
        if "vocab_size" in base.shape:
            raise UserError(f"{key}.shape.vocab_size: not with `scratch`; give tokens.tokenizer.vocab_size")
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
    elif (Path(base.model) / "config.json").is_file():  # without one rule `base` says what is missing
        check_weights(Path(base.model))


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
            "clip",
            not OPTIMIZERS[optimizer].clips,
            f"not with `optimizer: {optimizer}`, whose step does not depend on the gradient's length",
        ),
        (
            "optimizer",
            lora and not OPTIMIZERS[optimizer].adapters,
            f"{optimizer} trains whole matrices; with `method: lora` use {with_adapters}",
        ),
        ("learning_rate", settings.learning_rate == "auto" and lora, "`auto` is for `method: full`"),
        ("global_batch", settings.global_batch == "auto" and lora, "`auto` is for `method: full`"),
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
    elif settings.trainable != "all":
        raise UserError(f"{key}.trainable: not with `method: lora`, where `lora.targets` says what is trained")
    origin = stages.get(settings.origin)
    if settings.quantize != "none" and origin and origin.method == "lora" and not origin.lora.merge:
        raise UserError(f"{key}.quantize: {settings.origin} saves only an adapter; set `lora: {{merge: true}}`")
