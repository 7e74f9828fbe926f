"""From many places to many: what the best ways between them cost, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Vector
from superarm.oracles.reach import Tree
from superarm.roads.routing.query import By
from superarm.roads.routing.search import Search
from superarm.roads.routing.trees import Branches


@dataclass(frozen=True, eq=False)
class Row:
    """The best ways from one place to several; not a number where none leads, shape (m,) each.

    Attributes:
        energy_wh: expected.
        energy_std_wh: of what will be measured.
        seconds: expected.
        std_s: of what will be measured.
        fastest_s: the least time that the way can take.
        length_m: driven.
    """

    energy_wh: Vector
    energy_std_wh: Vector
    seconds: Vector
    std_s: Vector
    fastest_s: Vector
    length_m: Vector


def row_of(search: Search, goals: Sequence[int], by: By) -> Row:
    """Return the best ways from the start of a search to some edges.

    Args:
        search: from where and for whom; its goal does not matter.
        goals: positions of edges.
        by: what is least: expected dissipation, or expected time.
    """
    found = np.full((6, len(goals)), np.nan)
    targets, permit, start = np.array(goals, dtype=np.intp), search.permit, search.ends.start
    costs = search.seconds if by == "time" else search.posterior.cost_wh(search.drivetrain)
    open_costs = np.maximum(costs, 0.0)
    open_costs[permit.closed] = np.inf
    open_costs[list(search.ends.closed)] = np.inf
    if np.isinf(open_costs[start]):
        return Row(*found)
    paths = permit.paths_of(start, begins=True)
    branches = Branches(search, Tree.away(paths, open_costs, start))
    reached = np.flatnonzero(np.isfinite(branches.tree.costs[targets]))
    if reached.size:
        places, starts = branches.tree.paths(targets[reached])
        sums, (std_wh, std_s) = branches.sums_of(places, starts), branches.stds_of(places, starts)
        lengths = np.add.reduceat(permit.network.length_m[places], starts[:-1])
        times = sums.seconds, std_s, sums.fastest_s
        found[:, reached] = sums.energy_wh, std_wh, *times, lengths
    return Row(*found)
