r"""The deterministic energy of a road segment (Eq. PriorEnergy), and its split by height.

.. math::
    E = \frac{m g\,\Delta z + m g C_r \ell \cos\alpha + \tfrac12 C_d A \rho\,\ell v^2}{3600\,\eta}

in Wh, with the climb :math:`\Delta z` between the junctions. Energy is *dissipation* plus a
difference of potential, and that difference telescopes along a path: both sums differ only by the
end points.
"""

from typing import NamedTuple, get_args

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.roads.conventions import Efficiency
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.free_flow import free_flow_s
from superarm.roads.vehicle import Vehicle

JOULE_PER_WH = 3600.0


def deterministic_energy(
    network: RoadNetwork,
    vehicle: Vehicle,
    efficiency: Efficiency = "paper",
    edges: Rows | None = None,
) -> Vector:
    r"""Return the energy of edges at their speed limits, in Wh, shape (n,).

    Args:
        network: the roads.
        vehicle: what drives on them.
        efficiency: ``"paper"`` divides by :math:`\eta^+` whatever the sign; ``"physical"``
            multiplies negative mechanical energy (braking) by :math:`\eta^-` instead.
        edges: positions of the edges wanted, shape (k,), in any order; by default all.
    """
    if efficiency not in get_args(Efficiency):
        msg = f"efficiency must be one of {get_args(Efficiency)}, got {efficiency!r}"
        raise ValueError(msg)
    some = slice(None) if edges is None else edges
    climb, rolling, drag = _forces(network, vehicle, some)
    mechanical = (climb + rolling + drag) / JOULE_PER_WH
    if efficiency == "physical":
        return np.where(
            mechanical > 0,
            mechanical / vehicle.powertrain_efficiency,
            mechanical * vehicle.recuperation_efficiency,
        )
    return mechanical / vehicle.powertrain_efficiency


def _forces(
    network: RoadNetwork, vehicle: Vehicle, some: slice | Rows
) -> tuple[Vector, Vector, Vector]:
    """Return the work against height, rolling resistance and air on edges, in J."""
    length, climb = network.length_m[some], network.climb_m[some]
    weight = vehicle.mass_kg * vehicle.gravity
    cosine = np.sqrt(1 - network.sine_of_incline[some] ** 2)
    rolling = weight * vehicle.rolling_resistance * length * cosine
    area = vehicle.drag_coefficient * vehicle.front_area_m2 * vehicle.air_density
    drag = 0.5 * area * length * network.speed_ms[some] ** 2
    return weight * climb, rolling, drag


class EnergyParts(NamedTuple):
    """What the energy of some edges is made of, in Wh; the parts add up to it.

    Attributes:
        climb: difference of potential, won back downhill.
        rolling: of tyres.
        drag: of the air, at the limit.
        braking: what recuperation loses downhill.
        auxiliary: heating and lights, at the limit.
    """

    climb: float
    rolling: float
    drag: float
    braking: float
    auxiliary: float


def energy_parts(network: RoadNetwork, vehicle: Vehicle, edges: Rows) -> EnergyParts:
    """Return what the physical energy of edges, driven one after the other, is made of."""
    _, rolling, drag = (float(part.sum()) for part in _forces(network, vehicle, edges))
    per_joule = 1 / (JOULE_PER_WH * vehicle.powertrain_efficiency)
    climb = float(potential_difference(network, vehicle, edges).sum())
    whole = float(deterministic_energy(network, vehicle, "physical", edges).sum())
    seconds = float(free_flow_s(network, edges).sum())
    rest = whole - climb - (rolling + drag) * per_joule
    auxiliary = vehicle.auxiliary_power_w / JOULE_PER_WH * seconds
    return EnergyParts(climb, rolling * per_joule, drag * per_joule, rest, auxiliary)


def potential_energy(network: RoadNetwork, vehicle: Vehicle) -> Vector:
    r"""Return :math:`m g z / (3600\,\eta^+)` of every junction, in Wh, shape (m,)."""
    weight = vehicle.mass_kg * vehicle.gravity
    per_metre = weight / (JOULE_PER_WH * vehicle.powertrain_efficiency)
    return per_metre * network.junction_height_m


def potential_difference(
    network: RoadNetwork, vehicle: Vehicle, edges: Rows | None = None
) -> Vector:
    """Return the potential at the end minus that at the start of edges, in Wh, shape (n,)."""
    some = slice(None) if edges is None else edges
    potential = potential_energy(network, vehicle)
    return potential[network.to_junction[some]] - potential[network.from_junction[some]]


def dissipation(network: RoadNetwork, vehicle: Vehicle, efficiency: Efficiency = "paper") -> Vector:
    """Return energy minus potential difference, in Wh, shape (n,): what is lost, never negative."""
    energy = deterministic_energy(network, vehicle, efficiency)
    return energy - potential_difference(network, vehicle)
