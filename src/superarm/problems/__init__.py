"""Worlds to try agents in; `superarm.evaluation` compares agents there."""

from superarm.problems.availability import Always, Availability, PoissonSubset
from superarm.problems.clicks import ClickRates
from superarm.problems.structures import complete_matchings, complete_trees, grid_paths
from superarm.problems.synthetic import ContextualProblem, DriftingProblem, FiniteProblem

__all__ = [
    "Always",
    "Availability",
    "ClickRates",
    "ContextualProblem",
    "DriftingProblem",
    "FiniteProblem",
    "PoissonSubset",
    "complete_matchings",
    "complete_trees",
    "grid_paths",
]
