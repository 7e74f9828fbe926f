"""Worlds to try agents in, and a fair comparison of agents."""

from superarm.comparison import Result, World, compare
from superarm.problems.availability import Always, Availability, PoissonSubset
from superarm.problems.structures import complete_matchings, complete_trees, grid_paths
from superarm.problems.synthetic import ContextualProblem, FiniteProblem

__all__ = [
    "Always",
    "Availability",
    "ContextualProblem",
    "FiniteProblem",
    "PoissonSubset",
    "Result",
    "World",
    "compare",
    "complete_matchings",
    "complete_trees",
    "grid_paths",
]
