"""Feasible sets of super arms, and the oracles that maximise over them.

==============================  ======================  ============================================
what may be chosen              feasible set            oracle
==============================  ======================  ============================================
k of n                          `Subsets`               `TopK`, exact
up to k of n                    `SubsetsUpTo`           `TopK`, exact
what weighs at most so much     `Knapsacks`             `Knapsack`, exact; `DensityGreedy`, half of
                                                        the best at least
pairs, each node once           `Matchings`             `Hungarian`, exact
every left node once            `Assignments`           `Hungarian`, exact
a spanning tree                 `SpanningTrees`         `Kruskal`, exact
a path                          `Paths`                 `Dijkstra`, exact where no index is
                                                        positive; `BellmanFord` without negative
                                                        cycles
one of a group, on a budget     `Choices`               `ChoiceTable`, exact; costs are whole
                                                        numbers
anything that is small          what can list them      `Exhaustive`, exact, by trying all
==============================  ======================  ============================================

Of a graph's paths `Tree` gives the cheapest from one place to all others, or back, and `front`
those that are best by two costs.

Rows count among the arms of the round. An oracle of your own has ``select(feasible, indices)``, and
a feasible set ``max_size`` and ``contains``; with ``take`` it works where arms come and go, with
``super_arms`` it can be enumerated.
"""

from superarm.oracles.choices import Choices, ChoiceTable
from superarm.oracles.exhaustive import Exhaustive
from superarm.oracles.fronts import FrontRoute, front
from superarm.oracles.knapsack import DensityGreedy, Knapsack, Knapsacks
from superarm.oracles.matching import Assignments, Hungarian, Matchings
from superarm.oracles.paths import BellmanFord, Dijkstra, Paths
from superarm.oracles.reach import Tree
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
    "FrontRoute",
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
    "Tree",
    "front",
]
