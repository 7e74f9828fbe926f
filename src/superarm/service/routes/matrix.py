"""From many places to many: what the best ways between them cost, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.errors import InfeasibleError
from superarm.oracles.reach import Tree
from superarm.service.routes.many import Branches
from superarm.service.routes.search import Search

By = Literal["energy", "time"]


@dataclass(frozen=True, eq=False)
class Row:
    """The best ways from one place to several; not a number where none leads, shape (m,) each.

    Attributes:
        energy_wh: expected.
        energy_std_wh: of what will be measured.
        seconds: expected.
        std_s: of what will be measured.
        length_m: driven.
    """

    energy_wh: Vector
    energy_std_wh: Vector
    seconds: Vector
    std_s: Vector
    length_m: Vector


def row_of(search: Search, goals: Sequence[int], by: By) -> Row:
    """Return the best ways from the start of a search to some edges.

    Args:
        search: from where and for whom; its goal does not matter.
        goals: positions of edges.
        by: what is least: expected dissipation, or expected time.
    """
    size = len(goals)
    found = np.full((5, size), np.nan)
    targets, permit = np.array(goals, dtype=np.intp), search.permit
    costs = search.seconds if by == "time" else search.posterior.cost_wh(search.drivetrain)
    for group in _groups(search, targets):
        open_costs = np.maximum(costs, 0.0)
        try:
            open_costs[permit.closed_between(search.ends.start, int(targets[group[0]]))] = np.inf
        except InfeasibleError:
            continue
        open_costs[list(search.ends.closed)] = np.inf
        branches = Branches(search, Tree.away(permit.paths, open_costs, search.ends.start))
        reached = group[np.isfinite(branches.tree.costs[targets[group]])]
        if not reached.size:
            continue
        places, starts = branches.tree.paths(targets[reached])
        sums, (std_wh, std_s) = branches.sums_of(places, starts), branches.stds_of(places, starts)
        lengths = np.add.reduceat(permit.network.length_m[places], starts[:-1])
        found[:, reached] = sums.energy_wh, std_wh, sums.seconds, std_s, lengths
    return Row(*found)


def _groups(search: Search, targets: Rows) -> list[Rows]:
    """Return places of targets by the area of their own that they lie in, if in one.

    Roads that are open to those alone who begin or end there differ from goal to goal.
    """
    zones = search.permit.zones[targets]
    return [np.flatnonzero(zones == zone) for zone in np.unique(zones)]
