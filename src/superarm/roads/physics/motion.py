r"""Mechanical energy as a potential: what a measured energy says about losses.

A vehicle that climbs or speeds up stores energy, and gets most of it back. Height and the square of
the speed at the ends of what was measured price that with one constant c, whatever the sign,

.. math::
    W = \frac{c}{3600} \Big( m g\,\Delta z + \tfrac12 (m + m_\mathrm{rot})\,\Delta (v^2) \Big),
    \qquad \eta^- \le c \le 1/\eta^+ ,

so that W telescopes along a route, and what remains of the energy is *dissipation*: rolling, air,
auxiliaries, and what stopping and starting lose. With P the power at the wheels and l that of the
losses there, the battery gives :math:`P/\eta^+` or takes :math:`\eta^- P`, which is at least
:math:`c P`, so that dissipation is at least :math:`c \int l \ge 0` for every speed profile. Here c
is :math:`1/\eta^+`. Trips begin and end at rest: a route that is only planned needs no speeds.
"""

import numpy as np
from numpy.typing import ArrayLike

from superarm.arrays import Rows, Vector, as_vector
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.energy import JOULE_PER_WH, potential_energy
from superarm.roads.vehicle import Vehicle


def kinetic_energy(vehicle: Vehicle, speed_ms: ArrayLike) -> Vector:
    """Return the energy of motion at some speeds, priced like height, in Wh."""
    speed = np.asarray(speed_ms, dtype=np.float64)
    mass = vehicle.mass_kg + vehicle.rotating_mass_kg
    return np.asarray(
        0.5 * mass * speed**2 / (JOULE_PER_WH * vehicle.powertrain_efficiency), dtype=np.float64
    )


def mechanical_difference(
    network: RoadNetwork, vehicle: Vehicle, edges: Rows, speed_ms: ArrayLike | None = None
) -> Vector:
    """Return W of every edge of a route, in Wh, shape (k,).

    Args:
        network: the roads.
        vehicle: what drives on them.
        edges: positions of the edges in driving order, shape (k,).
        speed_ms: at which each is entered, and that at the end last, shape (k + 1,); without them
            only heights count.
    """
    height = potential_energy(network, vehicle)
    stored = height[network.to_junction[edges]] - height[network.from_junction[edges]]
    if speed_ms is None:
        return stored
    speeds = as_vector("speed_ms", speed_ms, edges.size + 1)
    return np.asarray(stored + np.diff(kinetic_energy(vehicle, speeds)))
