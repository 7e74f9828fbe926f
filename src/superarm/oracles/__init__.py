"""Feasible sets of super arms, and the oracles that maximise over them."""

from superarm.oracles.choices import Choices, ChoiceTable
from superarm.oracles.exhaustive import Exhaustive
from superarm.oracles.knapsack import DensityGreedy, Knapsack, Knapsacks
from superarm.oracles.matching import Assignments, Hungarian, Matchings
from superarm.oracles.paths import BellmanFord, Dijkstra, Paths
from superarm.oracles.subsets import Subsets, SubsetsUpTo, TopK
from superarm.oracles.trees import Kruskal, SpanningTrees

__all__ = [
    "Assignments",
    "BellmanFord",
    "ChoiceTable",
    "Choices",
    "DensityGreedy",
    "Dijkstra",
    "Exhaustive",
    "Hungarian",
    "Knapsack",
    "Knapsacks",
    "Kruskal",
    "Matchings",
    "Paths",
    "SpanningTrees",
    "Subsets",
    "SubsetsUpTo",
    "TopK",
]
