"""What rule `ablation` reads: the scores of the models of all arms, and which of them are compared.

ablation_files(dag, "scores.json")      # [results/evaluation/perplexity/sft.slow.s1/scores.json, ...]
"""

from pathlib import Path

from scripts.experiment.checks.ablation import ablated_suites
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.settings.ablate import ArmScores
from scripts.experiment.suites import scored_datasets


def compared_suites(dag: ExperimentView) -> list[str]:
    """The suites that the models of all arms are scored by; none without arms."""
    return ablated_suites(dag.experiment) if dag.arms.models else []


def ablation_files(dag: ExperimentView, name: str) -> list[Path]:
    """The file of this name of each of these suites and each model of the arms."""
    return [dag.layout.suite(suite, model) / name for suite in compared_suites(dag) for model in dag.arms.scored]


def arm_scores(dag: ExperimentView) -> ArmScores:
    """What is compared."""
    evaluation = dag.experiment.evaluation
    return ArmScores(
        models=dag.arms.models,
        datasets={suite: scored_datasets(dag.suites[suite]) for suite in compared_suites(dag)},
        metrics=dag.experiment.ablate.metrics,
        k=evaluation.code.k if evaluation.code else [],
        confidence=evaluation.gate.confidence,
        unit=dag.experiment.corpus.split.unit,
    )
