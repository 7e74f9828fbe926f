"""Worlds to try agents in; `superarm.evaluation` compares agents there.

=====================  =============================================================================
`FiniteProblem`        a fixed list of arms with a truth drawn from a prior; arms come and go
`ContextualProblem`    contexts new in every round, one true function of them
`DriftingProblem`      a truth that jumps or wanders
`ClickRates`           a shop whose truth is no draw from any prior of this package
`Always`               who is on offer: all arms
`PoissonSubset`        who is on offer: a random number of them
`grid_paths`           paths across a grid, for a first try
`complete_matchings`   everybody with everybody, likewise
`complete_trees`       spanning trees of a complete graph, likewise
=====================  =============================================================================

For roads see `superarm.roads.bandit`.
"""

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
