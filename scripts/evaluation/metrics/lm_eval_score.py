"""The score of an item of an lm-eval task, 0 to 1: whichever of the task's metrics was chosen for it."""

from scripts.evaluation.metrics.metric import means

SUITE = means("task_score")
