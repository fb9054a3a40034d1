"""The models of stages that are trained with several `seeds`: the first has the stage's name, others end in theirs.

models_by_seed(experiment.stages)      # {"sft": ["sft", "sft.seed2", "sft.seed3"]}
further_models(experiment.stages)      # ["sft.seed2", "sft.seed3"]
seeds_of_models(experiment.stages)     # {"sft": 1, "sft.seed2": 2, "sft.seed3": 3}
"""

from scripts.experiment.settings.training import Stage


def models_by_seed(train: dict[str, Stage]) -> dict[str, list[str]]:
    """Stage with `seeds` → its models, in the order of its seeds."""
    found = {}
    for name, stage in train.items():
        if stage.seeds:
            found[name] = [name, *(f"{name}.seed{seed}" for seed in stage.seeds[1:])]
    return found


def further_models(train: dict[str, Stage]) -> list[str]:
    """The models of all seeds but each stage's first."""
    models = []
    for of_stage in models_by_seed(train).values():
        models += of_stage[1:]
    return models


def seeds_of_models(train: dict[str, Stage]) -> dict[str, int]:
    """The seed of each model of a stage with `seeds`; all other stages have the experiment's."""
    seeds = {}
    for stage, models in models_by_seed(train).items():
        seeds |= dict(zip(models, train[stage].seeds, strict=True))
    return seeds


def with_further_seeds(train: dict[str, Stage]) -> dict[str, Stage]:
    """The stages, and behind them one like the first for each further seed; none has `seeds` of its own any more."""
    stages = dict(train)
    for stage, models in models_by_seed(train).items():
        for model in models:
            stages[model] = train[stage].model_copy(update={"seeds": None})
    return stages
