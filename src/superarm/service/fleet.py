r"""Vehicles of all kinds that learn together.

What is learned is one function f of the roads, in Wh of the reference vehicle: how much more (or
less) an edge costs than its physics say. With :math:`E_c` the prior energy of vehicle c and
:math:`s_c` the ratio of its prior spread to the reference's,

.. math:: (\mathrm{measured} - E_c) / s_c = f + \mathrm{noise} ,

so that a lorry's trip teaches the cars and the other way round. Beliefs are about rewards, -f.
"""

from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from superarm.arrays import Vector
from superarm.beliefs import DenseGP, InducedGP
from superarm.beliefs.sums.dense import MOST_ARMS
from superarm.beliefs.sums.induced import MOST_ENTRIES, N_INDUCING
from superarm.errors import CapacityError
from superarm.navigation import EnergyModel, RoadNetwork, Vehicle

CLASSES: dict[str, Vehicle] = {
    "car": Vehicle(),
    "van": Vehicle(mass_kg=3500.0, front_area_m2=4.6, drag_coefficient=0.4),
    "truck": Vehicle(
        mass_kg=18_000.0, rolling_resistance=0.007, front_area_m2=9.2, drag_coefficient=0.6
    ),
}
"""Vehicle classes by name; the first is the reference."""

MODEL_VERSION = "1"
"""Changes when the same trips would lead to another belief."""

MOST_NETWORK_EDGES = 100_000
"""The largest network served."""

_REMEMBERED = 256


@dataclass(frozen=True, eq=False)
class Drivetrain:
    """What one vehicle makes of the network: prior costs, potential and scale.

    Attributes:
        cost_wh: prior dissipation of every edge, never negative, shape (n,).
        potential_wh: what to add for the energy taken from the battery, shape (n,).
        scale: s_c.
    """

    vehicle: Vehicle
    cost_wh: Vector
    potential_wh: Vector
    scale: float

    @cached_property
    def energy_wh(self) -> Vector:
        """The prior energy of every edge."""
        return self.cost_wh + self.potential_wh


class Fleet:
    """All vehicles on one network, and the belief they share."""

    def __init__(self, network: RoadNetwork) -> None:
        """Prepare the reference vehicle."""
        self.network = network
        self.reference = EnergyModel(
            network, next(iter(CLASSES.values())), "physical", "dissipation"
        )
        self._drivetrain = lru_cache(_REMEMBERED)(self._made)

    @property
    def noise_std_wh(self) -> float:
        """The standard deviation of one measured edge, of the reference vehicle."""
        return self.reference.noise_std_wh

    def drivetrain(self, vehicle: Vehicle) -> Drivetrain:
        """Return what a vehicle makes of the network; kept for the vehicles last asked for."""
        return self._drivetrain(tuple(asdict(vehicle).values()))

    def _made(self, values: tuple[float, ...]) -> Drivetrain:
        vehicle = Vehicle(*values)
        model = EnergyModel(self.network, vehicle, "physical", "dissipation")
        return Drivetrain(
            vehicle,
            model.prior_cost_wh,
            model.potential_wh,
            model.spread_wh / self.reference.spread_wh,
        )

    @property
    def n_features(self) -> int:
        """How many edges sum the belief up; zero where the covariance of all of them is held."""
        size = self.network.n_edges
        if size <= MOST_ARMS:
            return 0
        if size > MOST_NETWORK_EDGES:
            msg = (
                f"{self.network.name} has {size:,} edges; the service takes up to "
                f"{MOST_NETWORK_EDGES:,}. Cut a region out, or run one service per region"
            )
            raise CapacityError(msg)
        return min(N_INDUCING, MOST_ENTRIES // size)

    def prior(self) -> DenseGP | InducedGP:
        """Return the belief before the first trip: rewards -f of all edges."""
        model, noise = self.reference, self.noise_std_wh**2
        if self.n_features == 0:
            return DenseGP.from_kernel(model.arms, model.kernel, noise, keep_evidence=False)
        return InducedGP.from_kernel(
            model.arms, model.kernel, noise, n_inducing=self.n_features, keep_evidence=False
        )

    def fingerprint(self) -> str:
        """Return what a database must agree with: the network and the model."""
        return f"{self.network.fingerprint()}-{MODEL_VERSION}"
