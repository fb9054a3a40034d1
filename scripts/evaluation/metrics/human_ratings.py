"""Ratings by people: the share called correct."""

from scripts.evaluation.metrics.metric import means

SUITE = means("correct")
