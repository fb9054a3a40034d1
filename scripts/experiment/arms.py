"""Add the arms of `ablate` to the experiment as further datasets and stages; equal ones are made only once.

    arms = expand(experiment)
    arms.stages                  # {"sft.s2": Stage(...), "sft.slow.s1": Stage(...), ...}
    arms.models["slow"]          # ["sft.slow.s1", "sft.slow.s2", "sft.slow.s3"], one per seed
    arms.models[REFERENCE]       # ["sft", "sft.s2", "sft.s3"]

A stage is trained once for each seed from the first stage on that some arm changes; what stands before that is shared
by all seeds. Arms that train a stage with the same settings on the same data share it, too. The names of stages and
datasets of an experiment have no dots, so these never meet them.
"""

import hashlib
from dataclasses import dataclass, field

from scripts.common.errors import UserError
from scripts.experiment.merge import merged
from scripts.experiment.no_effect_settings import weight_settings
from scripts.experiment.settings.corpus import Dataset
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import Record, as_json, to_json
from scripts.experiment.settings.tokens import Mixture
from scripts.experiment.settings.training import Stage
from scripts.experiment.stage_seeds import models_by_seed

REFERENCE = "reference"  # the experiment as it is
CHANGED = {"corpus": ("compose",), "tokens": ("mix",), "training": ("train",), "seed": None}  # what an arm may change


@dataclass(frozen=True)
class Arms:
    """What `ablate` adds to an experiment, or without it what the `seeds` of its stages add.

    Attributes:
        datasets, mixtures, stages: by name, beside the experiment's own.
        seeds: of these stages.
        models: arm, the reference first → its model of each seed; empty without `ablate`.
    """

    datasets: dict[str, Dataset] = field(default_factory=dict)
    mixtures: dict[str, Mixture] = field(default_factory=dict)
    stages: dict[str, Stage] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    models: dict[str, list[str]] = field(default_factory=dict)

    @property
    def scored(self) -> list[str]:
        """The models of all arms and seeds, each once."""
        return list(dict.fromkeys(model for models in self.models.values() for model in models))


def arm_experiment(experiment: Experiment, arm: str, name: str) -> Experiment:
    """The experiment with the settings of an arm laid over it.

    Raises:
        UserError: a setting is wrong, or is one that an arm cannot change.
    """
    overlay = experiment.ablate.arms[arm]
    own_settings = experiment.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"ablate", "extends"})
    variant = Experiment.parse(merged(own_settings, overlay), name, "ablate", "arms", arm)
    for key, value in overlay.items():
        inner = CHANGED.get(key, ())
        forbidden = [f"{key}.{inner_key}" for inner_key in value or () if inner_key not in inner] if inner else []
        for key_name in [key] if inner == () or (key == "training" and value is None) else forbidden:
            raise UserError(
                f"{name}: ablate.arms.{arm}.{key_name}: an arm may change corpus.compose (also a dataset's `filter`),"
                " tokens.mix, training.train and seed; for the rest make an experiment of its own (`extends`), and"
                " compare the two with `stagecraft compare`"
            )
    return variant


def chain(train: dict[str, Stage], model: str) -> list[str]:
    """The stages that lead to a model, the first one first."""
    stages = [model]
    while (origin := train[stages[-1]].origin) != "base":
        stages.append(origin)
    return stages[::-1]


def seed_of(seed: int, number: int) -> int:
    """The seed of an arm's n-th run; the first one is its own."""
    if number == 0:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4]) >> 1


def compared_model(experiment: Experiment) -> str:
    """The stage whose model the arms are compared by."""
    return experiment.ablate.model or list(experiment.stages)[-1]


def expand(experiment: Experiment, name: str = "config") -> Arms:
    """The datasets, stages and models of all arms.

    Args:
        experiment: whose own settings are checked.
        name: its file, for errors.

    Raises:
        UserError: see `arm_experiment`.
    """
    if experiment.ablate is None:
        return with_seeds(experiment.stages)
    model, arms = compared_model(experiment), Arms()
    variants = {REFERENCE: experiment}
    variants |= {arm: arm_experiment(experiment, arm, name) for arm in experiment.ablate.arms}
    data = {arm: renamed_data(experiment, arm, variant, arms) for arm, variant in variants.items()}
    changed = changed_stages(variants, data, model)
    known = {
        (stage, as_json(weight_settings(settings)), experiment.seed): stage
        for stage, settings in experiment.stages.items()
    }
    for arm, variant in variants.items():
        train, models = variant.stages, []
        for number in range(experiment.ablate.seeds):
            names = {"base": "base"}
            for stage in chain(train, model):
                again = stage in changed
                seed = seed_of(variant.seed, number) if again else experiment.seed
                settings = train[stage].model_copy(
                    update={
                        "origin": names[train[stage].origin],
                        "data": data[arm].get(train[stage].data, train[stage].data),
                    }
                )
                key = stage, as_json(weight_settings(settings)), seed
                if key not in known:
                    middle = "" if arm == REFERENCE else f".{arm}"
                    known[key] = f"{stage}{middle}.s{number + 1}"
                    arms.stages[known[key]], arms.seeds[known[key]] = settings, seed
                names[stage] = known[key]
            models.append(names[model])
        arms.models[arm] = models
    return arms


def with_seeds(train: dict[str, Stage]) -> Arms:
    """The stages with `seeds`, once for each of them."""
    arms = Arms()
    for stage, models in models_by_seed(train).items():
        for model, seed in zip(models, train[stage].seeds, strict=True):
            arms.stages[model], arms.seeds[model] = train[stage].model_copy(update={"seeds": None}), seed
    return arms


def renamed_data(experiment: Experiment, arm: str, variant: Experiment, arms: Arms) -> dict[str, str]:
    """The name that each dataset and mixture has in an arm, where it is not the experiment's own; new ones are added to
    `arms`."""
    names: dict[str, str] = {}
    originals, variants = experiment.corpus.compose, arms.datasets
    for dataset, settings in variant.corpus.compose.items():
        add_variant(dataset, settings, originals, variants, arm, names)
    originals, variants = experiment.tokens.mix, arms.mixtures
    for mixture, settings in variant.tokens.mix.items():
        parts = {names.get(part, part): weights for part, weights in settings.parts.items()}
        add_variant(mixture, settings.model_copy(update={"parts": parts}), originals, variants, arm, names)
    return names


def add_variant(name: str, settings: Record, originals: dict, variants: dict, arm: str, names: dict[str, str]) -> None:
    """Give `settings` the name of an equal one in `variants`, or a new one, unless they are the experiment's own."""
    if name in originals and to_json(originals[name]) == to_json(settings):
        return
    equal = [
        variant
        for variant in variants
        if variant.split(".")[0] == name and to_json(variants[variant]) == to_json(settings)
    ]
    names[name] = equal[0] if equal else f"{name}.{arm}"
    variants.setdefault(names[name], settings)


def with_arms(experiment: Experiment, arms: Arms) -> Experiment:
    """The experiment with the datasets, mixtures and stages of its arms beside its own."""
    if not arms.stages:
        return experiment
    corpus, tokens, training = experiment.corpus, experiment.tokens, experiment.training
    return experiment.model_copy(
        update={
            "corpus": corpus.model_copy(update={"compose": {**corpus.compose, **arms.datasets}}),
            "tokens": tokens.model_copy(update={"mix": {**tokens.mix, **arms.mixtures}}),
            "training": training.model_copy(update={"train": {**training.train, **arms.stages}}),
        }
    )


def changed_stages(variants: dict[str, Experiment], data: dict[str, dict[str, str]], model: str) -> set[str]:
    """The stages on the way to the model that some arm trains otherwise, and all behind them.

    Where arms change nothing but the seed, it is the stage of the model.
    """
    changed, reference_stages = set(), variants[REFERENCE].stages
    for arm, variant in variants.items():
        train = variant.stages
        for stage in chain(train, model):
            same_settings = stage in reference_stages and weight_settings(reference_stages[stage]) == weight_settings(
                train[stage]
            )
            if not same_settings or train[stage].data in data[arm] or train[stage].origin in changed:
                changed.add(stage)
    return changed | {model}
