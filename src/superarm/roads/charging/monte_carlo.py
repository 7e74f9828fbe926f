"""Drives in thought: how often a charge lasts over legs with stops between."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.compiling import compiled
from superarm.gaussian import cholesky_with_jitter
from superarm.pausing import pause
from superarm.roads.battery import Battery
from superarm.roads.network.access import Marks
from superarm.roads.routing.arrival import DRAWS, drawn_in_blocks, fill_normals, normals


@dataclass(frozen=True, eq=False)
class Draws:
    """Drives of a whole sequence in thought.

    Attributes:
        energies_wh: of every edge and draw, shape (k, DRAWS).
        starts: where legs begin, shape (legs,).
        expected_wh: of every leg.
        needs_wh: what must be there at the beginning of every leg, by draw, shape (legs, DRAWS).
    """

    energies_wh: Matrix
    starts: Rows
    expected_wh: Vector
    needs_wh: Matrix

    @classmethod
    def of(cls, mean: Vector, covariance: Matrix, sizes: Rows, count: int = DRAWS) -> "Draws":
        """Drive all legs so many times, jointly.

        Args:
            mean: of the energy of every edge, in driving order, shape (k,).
            covariance: of these, shape (k, k).
            sizes: of the legs.
            count: of drives.
        """
        factor = cholesky_with_jitter(covariance)
        if count == DRAWS:
            chance = normals(mean.size)
        else:
            chance = np.empty((mean.size, count))
            fill_normals(chance)
        energies = np.concatenate(list(drawn_in_blocks(mean, factor, chance)))
        starts = np.cumsum(sizes) - sizes
        needs = [_most_used(part) for part in np.split(energies, starts[1:])]
        expected = np.array([part.sum() for part in np.split(mean, starts[1:])])
        return cls(energies, starts, expected, np.array(needs))

    def lasting(self, battery: Battery, leaves_wh: Sequence[float] | Vector) -> float:
        """Return how often the charge lasts if stops are left with so much at least."""
        return share_lasting(self.energies_wh, self.starts, battery, np.asarray(leaves_wh))


def _most_used(energies: Matrix) -> Vector:
    """Return the most that is used up at any moment of a leg, by draw; never less than nothing."""
    used, most = np.zeros(energies.shape[1]), np.zeros(energies.shape[1])
    for energy in energies:
        used += energy
        np.maximum(most, used, out=most)
        pause()
    return most


def since_stops(covariance: Matrix, sizes: Rows) -> Vector:
    """Return the deviation of what was used since the last stop, at the end of every edge."""
    found, begin = np.empty(int(sizes.sum())), 0
    for size in sizes.tolist():
        part = covariance[begin : begin + size, begin : begin + size]
        total = np.cumsum(np.cumsum(part, axis=0), axis=1).diagonal()
        found[begin : begin + size] = np.sqrt(np.maximum(total, 0.0))
        begin += size
    return found


def share_lasting(energies: Matrix, starts: Rows, battery: Battery, leaves_wh: Vector) -> float:
    """Return the share of drives on which the charge stays at or above the reserve.

    Args:
        energies: of every edge in driving order and of every drive, shape (k, m).
        starts: where the legs begin.
        battery: at the start.
        leaves_wh: what stops between legs are left with at least.
    """
    count, leaves = 0, np.asarray(leaves_wh, dtype=np.float64)
    for begin in range(0, energies.shape[1], DRAWS):
        lasts = _lasting(
            np.ascontiguousarray(energies[:, begin : begin + DRAWS]),
            starts,
            battery.charge_wh,
            battery.capacity_wh,
            battery.reserve_wh,
            leaves,
        )
        count += int(lasts.sum())
        pause()
    return count / energies.shape[1]


@compiled
def _lasting(  # noqa: PLR0913, PLR0917 - drives, legs and a battery
    energies: Matrix,
    starts: Rows,
    charge_wh: float,
    capacity: float,
    reserve: float,
    leaves: Vector,
) -> Marks:
    size, drives = energies.shape
    charge = np.full(drives, charge_wh)
    lasts = np.full(drives, charge_wh >= reserve)
    leg = 0
    for place in range(size):
        while leg < leaves.size and place == starts[leg + 1]:
            for drive in range(drives):
                charge[drive] = max(charge[drive], leaves[leg])
            leg += 1
        for drive in range(drives):
            charge[drive] = min(charge[drive] - energies[place, drive], capacity)
            if charge[drive] < reserve:
                lasts[drive] = False
    return lasts
