r"""How far the charge lasts: where it stays above the reserve with some confidence.

From the start every edge is driven to by the way that is expected to dissipate least. At its end
the charge is :math:`c_e = \min(\mathrm{capacity}, c_{e'} - E_e)` with the expected energies E and
the edge e' before, and the edge is reached with confidence q if :math:`c - z_q \sigma` is at or
above the reserve at its end and at the ends of all edges before, :math:`\sigma` the deviation of
what will have been measured until there (`superarm.roads.routing.trees`). Where a climb comes first
that is more careful than it need be: what a trip has in common is then counted by its energy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from superarm.arrays import Rows, Vector
from superarm.compiling import compiled
from superarm.oracles.reach import Tree
from superarm.roads.battery import Battery
from superarm.roads.routing.search import Search
from superarm.roads.routing.trees import Branches


@dataclass(frozen=True, eq=False)
class Reached:
    """What is reached with some confidence.

    Attributes:
        confidence: at least this likely.
        edges: which edges are, to their ends.
    """

    confidence: float
    edges: Rows


def reached(
    search: Search, battery: Battery, confidences: Sequence[float], *, back: bool
) -> list[Reached]:
    """Return what can be reached from the start of a search, and back again if asked.

    Args:
        search: from where and for whom.
        battery: at the start.
        confidences: between zero and one.
        back: whether the charge must last for the way back, too.
    """
    start, permit = search.ends.start, search.permit
    costs = np.maximum(search.posterior.cost_wh(search.drivetrain), 0.0)
    permit.closed_between(start, start)  # says so if the start is closed
    costs[permit.closed] = np.inf
    costs[list(search.ends.closed)] = np.inf
    away = Branches(search, Tree.away(permit.paths_of(start, begins=True), costs, start))
    energy = search.posterior.energy_wh(search.drivetrain)
    spread, sums = search.posterior.spread, away.sums
    deviation = np.sqrt(sums.variance_wh(away.share, spread))
    level = np.empty(energy.size)
    found = []
    home: Branches | None = None
    dip = cap = whole = deviation
    if back:
        home = Branches(search, Tree.to(permit.paths_of(start, begins=False), costs, start))
        # the edge itself is driven on the way out
        dip, cap = _dips(home.tree.outward, home.tree.onward, energy, battery.capacity_wh)
        whole = np.sqrt((sums + home.sums - home.values).variance_wh(away.share, spread))
    for confidence in confidences:
        z = float(ndtri(confidence))
        slack = _slack(
            away.tree.outward, away.tree.onward, energy, z * deviation, level,
            battery.charge_wh, battery.capacity_wh,
        ) - battery.reserve_wh  # fmt: skip
        if home is not None:
            least = np.minimum(level - dip, cap) - z * whole
            slack = np.minimum(slack, least - battery.reserve_wh)
        with np.errstate(invalid="ignore"):
            found.append(Reached(confidence, np.flatnonzero(slack >= 0)))
    return found


@compiled
def _slack(  # noqa: PLR0913, PLR0917 - a tree, energies and a battery
    outward: Rows,
    onward: Rows,
    energy: Vector,
    margin: Vector,
    level: Vector,
    charge: float,
    capacity: float,
) -> Vector:
    """Return the least charge less its margin on the way to every edge; fill in the charges."""
    slack = np.full(onward.size, np.nan)
    level[:] = np.nan
    for row in outward:
        before = onward[row]
        left, least = (level[before], slack[before]) if before >= 0 else (charge, charge)
        level[row] = min(left - energy[row], capacity)
        slack[row] = min(least, level[row] - margin[row])
    return slack


@compiled
def _dips(outward: Rows, onward: Rows, energy: Vector, capacity: float) -> tuple[Vector, Vector]:
    r"""Return d and q: who leaves an edge with charge c has at least min(c - d, q) on the way home.

    Of the edge after with d' and q', and its energy E: :math:`d = \max(0, E + d')` and, since what
    is won back into a full battery is lost, :math:`q = \min(\mathrm{capacity} - d', q')`.
    """
    most = np.full(onward.size, np.nan)
    cap = np.full(onward.size, np.inf)
    for row in outward:
        after = onward[row]
        most[row] = 0.0
        if after >= 0:
            most[row] = max(0.0, energy[after] + most[after])
            cap[row] = min(capacity - most[after], cap[after])
    return most, cap
