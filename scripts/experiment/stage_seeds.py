"""The models of stages that are trained with several `seeds`: the first has the stage's name, others end in theirs.

models_by_seed(experiment.stages)      # {"sft": ["sft", "sft.seed2", "sft.seed3"]}
further_models(experiment.stages)      # ["sft.seed2", "sft.seed3"]
"""

from scripts.experiment.settings.training import Stage


def models_by_seed(train: dict[str, Stage]) -> dict[str, list[str]]:
    """Stage with `seeds` → its models, in the order of its seeds."""
    return {
        name: [name, *(f"{name}.seed{seed}" for seed in stage.seeds[1:])]
        for name, stage in train.items()
        if stage.seeds
    }


def further_models(train: dict[str, Stage]) -> list[str]:
    """The models of all seeds but each stage's first."""
    return [model for models in models_by_seed(train).values() for model in models[1:]]
