r"""Vehicles of all kinds, and those who measure them, that learn together.

What is learned is by how much more (or less) every edge dissipates than its physics say. For a car
that is a `superarm.roads.models.RoadModel`: a few coefficients that all roads share (a scale, so
much per passage, per second, per light, per bend, per energy of motion), and deviations of roads
from that. Counted in its own prior deviation :math:`\sigma_e` it is :math:`h_e`, an arm of variance
one. What it is of a car's dissipation :math:`D_e` it is of every other vehicle's :math:`D_{c,e}`,
so that with :math:`E_c` the energy that physics expect of vehicle c on some stretch of edges e

.. math:: \mathrm{measured} = E_c + \sum_e D_{c,e} \frac{\sigma_e}{D_e} h_e
    + (g_k + t)\,m + \sum_e \varepsilon_e + b_\mathrm{begin} - b_\mathrm{end} ,

and a lorry's trip teaches the cars and the other way round. :math:`g_k` is the gain of key k,
a logger that reads five per cent too much; t is what all of one trip has in common (weather,
load, the driver's mood); both are in proportion to m, the energy, or half of the dissipation where
the energy is less (what is won downhill may leave next to nothing). The noise of an edge is a
constant and a share of its own m, independent. Where speeds are not reported, b is the energy of
motion at the ends of a stretch: what one stretch lacks its neighbour has, and a whole trip, from
rest to rest, has none of it. Roads and gains are arms of one belief, whose rewards are -h and g:
whatever is uncertain about a logger is uncertain about the roads only it has driven, and a total of
many edges says no more about them than one trip can.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from superarm import __version__
from superarm.arms import Arms
from superarm.arrays import Rows, Vector
from superarm.beliefs import DenseGP, EnsembleGP
from superarm.beliefs.covariance import KernelCovariance
from superarm.beliefs.ensemble import EnsembleState
from superarm.beliefs.ensemble.gp import UNEXPLAINED
from superarm.beliefs.ensemble.roots import MOST_FEATURES, GraphRoot, PriorRoot
from superarm.beliefs.prior import FinitePrior
from superarm.beliefs.sums.dense import MOST_ARMS
from superarm.beliefs.universe import Universe
from superarm.errors import CapacityError, DataError
from superarm.kernels import Beside, GraphMatern, PerArm
from superarm.roads.models.kept import Kept
from superarm.roads.models.priors import ENERGY_SPREAD, RoadModel
from superarm.roads.models.times import TimeModel, TimePosterior, TravelTimes
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.energy import JOULE_PER_WH, deterministic_energy, potential_difference
from superarm.roads.physics.free_flow import free_flow_s
from superarm.roads.vehicle import CLASSES, Vehicle

SPREAD = replace(ENERGY_SPREAD, share=0.2, graph=0.3, alike=0.3)
"""What is believed of roads. Wider than in SUMO, and shared with neighbours and roads alike: real
surfaces, winds and habits differ more than simulated ones, and along whole streets."""

MODEL_VERSION = "4"
"""Changes when the same trips would lead to another belief."""

MOST_NETWORK_EDGES = 2_000_000
"""The largest network served: at a million, learning and routes hold 11 GiB together."""

DRAWS = ((20_000, 63), (50_000, 31), (MOST_NETWORK_EDGES, 15))
"""Up to how many edges how many posterior draws sum up what is believed beside its mean."""

TOLERANCE = 1.0
"""The most that any sum of roads may be off, in its posterior deviations. Measured, after a million
trips: edges are off by 0.0014 of them, the worst by 0.1, routes by 0.011, the worst by 0.06
(`benchmarks/results/country.md`); deviations from 15 draws err by 0.18 anyway."""

KEY_DEVIATION = 0.05
"""How far loggers are off, as a share: the prior standard deviation of gains."""

VOUCHED_DEVIATION = 0.3
"""Likewise of a key that an administrator has let in again: its bias is learned, not suspected."""

TRIP_DEVIATION = 0.15
"""What all of a trip has in common, as a share, before anything is known about that."""

EDGE_DEVIATION = 0.1
"""By what share one passage of an edge differs from another in the same trip, besides noise that is
the same for all edges: long edges vary more than short ones."""

NOISE_WH = 2.0
"""Standard deviation of a car's energy on any edge, besides: ends of edges are known to so much."""

MOTION_DEVIATION = 0.3
"""Of the energy of motion where speeds are not reported, as a share of that at the speed limit: as
of a speed anywhere between none and the limit."""

SLOTS = 256
"""How many keys have a gain that is learned; those that come later count as noise."""

GAIN_VARIANCE = 1.01
"""Of the arm of a gain: what it is counted in."""

KNOWN = "known"
"""The folder, beside the network's file, in which what takes long is kept: 4 GB for a million
edges."""

_WORTH_A_FILE = 50_000  # edges; what makes fewer takes some seconds
_SLOTS_OF_LARGE = 64
_REMEMBERED = 256
_SAMPLE = 512
_LEAST_WH = 1e-9


@dataclass(frozen=True, eq=False)
class Drivetrain:
    """What one vehicle makes of the network.

    Attributes:
        cost_wh: dissipation of every edge by physics, never negative, shape (n,).
        potential_wh: what to add for the energy taken from the battery, shape (n,).
        noise_wh: standard deviation of one measured edge, whatever its length.
        unit: which share of the dissipation of every edge one unit of h is, shape (n,).
    """

    vehicle: Vehicle
    cost_wh: Vector
    potential_wh: Vector
    noise_wh: float
    unit: Vector

    @cached_property
    def weights_wh(self) -> Vector:
        """What one unit of h is on every edge."""
        return self.cost_wh * self.unit

    @cached_property
    def energy_wh(self) -> Vector:
        """The energy of every edge by physics."""
        return self.cost_wh + self.potential_wh

    @cached_property
    def noise_variance(self) -> Vector:
        """Of one measured passage of every edge."""
        return passage_variance(self.energy_wh, self.cost_wh, self.noise_wh)


def measure(energy_wh: Vector, cost_wh: Vector) -> Vector:
    """Return m, what errors in proportion are in proportion to: the energy, unless that is small.

    Gains and what trips have in common go by the same m, so that the parts of one trip never tell
    them apart: only many trips do.
    """
    return np.where(np.abs(energy_wh) >= cost_wh / 2, energy_wh, cost_wh / 2)


def passage_variance(energy_wh: Vector, cost_wh: Vector, noise_wh: float) -> Vector:
    """Return the noise variance of one passage of edges with these energies and dissipations."""
    share: Vector = EDGE_DEVIATION * measure(energy_wh, cost_wh)
    return share**2 + noise_wh**2


def require_size(network: RoadNetwork) -> None:
    """Refuse a network that is too large to be served."""
    if network.n_edges > MOST_NETWORK_EDGES:
        msg = (
            f"{network.name} has {network.n_edges:,} edges; the service takes up to "
            f"{MOST_NETWORK_EDGES:,}. Cut a region out, or run one service per region"
        )
        raise CapacityError(msg)


def fingerprint_of(network: RoadNetwork) -> str:
    """Return what a database must agree with: the network and the model."""
    return f"{network.fingerprint()}-{MODEL_VERSION}"


class Fleet:
    """All vehicles on one network, and the belief they share."""

    def __init__(self, network: RoadNetwork, known: Path | None = None) -> None:
        """Prepare the reference vehicle.

        Args:
            network: the roads.
            known: a folder to keep in what takes long for large networks.
        """
        self.network = network
        self.reference = RoadModel(network, next(iter(CLASSES.values())), spread=SPREAD)
        self._kept: Kept | None = None
        if known is not None and self.n_draws:
            self._kept = Kept(known, f"{self.fingerprint()}-{__version__}")
            self.reference = replace(self.reference, neighbours=self._graph(self._kept))
        self._drivetrain = lru_cache(_REMEMBERED)(self._made)
        step = max(network.n_edges // _SAMPLE, 1)
        self._sample = np.arange(0, network.n_edges, step)
        self._usual = self._spread(self.reference.vehicle)

    def drivetrain(self, vehicle: Vehicle) -> Drivetrain:
        """Return what a vehicle makes of the network; kept for the vehicles last asked for."""
        return self._drivetrain(vehicle)

    def _made(self, vehicle: Vehicle) -> Drivetrain:
        energy, potential = self.physics(vehicle)
        return Drivetrain(
            vehicle,
            np.maximum(energy - potential, 0.0),
            potential,
            self.noise_wh(vehicle),
            self.unit,
        )

    @cached_property
    def _deviation_wh(self) -> Vector:
        """The prior standard deviation of a car's dissipation on every edge."""
        return np.sqrt(self.reference.kernel.diagonal(self.reference.arms))

    @cached_property
    def unit(self) -> Vector:
        """Which share of the dissipation of every edge one unit of h is, shape (n,)."""
        energy, potential = self.physics(self.reference.vehicle)
        return self._deviation_wh / np.maximum(energy - potential, _LEAST_WH)

    def physics(self, vehicle: Vehicle, edges: Rows | None = None) -> tuple[Vector, Vector]:
        """Return energy and difference of potential of some edges, or all, in Wh."""
        energy = deterministic_energy(self.network, vehicle, "physical", edges)
        if vehicle.auxiliary_power_w:
            seconds = free_flow_s(self.network, edges)
            energy = energy + vehicle.auxiliary_power_w / JOULE_PER_WH * seconds
        return energy, potential_difference(self.network, vehicle, edges)

    def noise_wh(self, vehicle: Vehicle) -> float:
        """Return the standard deviation of one measured edge: as energies, larger for lorries."""
        share = self._spread(vehicle) / self._usual if self._usual > 0 else 1.0
        return max(NOISE_WH * share, 1e-3)

    def _spread(self, vehicle: Vehicle) -> float:
        energy, _ = self.physics(vehicle, self._sample)
        return float(np.sqrt((energy**2).mean()))

    @cached_property
    def n_slots(self) -> int:
        """How many keys have a gain of their own."""
        return SLOTS if self.network.n_edges + SLOTS <= MOST_ARMS else _SLOTS_OF_LARGE

    @property
    def n_arms(self) -> int:
        """Roads and gains together."""
        return self.network.n_edges + self.n_slots

    @property
    def n_draws(self) -> int:
        """How many draws sum the belief up; zero where the covariance of all arms is held."""
        require_size(self.network)
        if self.n_arms <= MOST_ARMS:
            return 0
        return next(draws for most, draws in DRAWS if self.network.n_edges <= most)

    @cached_property
    def arms(self) -> Arms:
        """All roads, then the gains of all slots."""
        empty = np.zeros((self.n_slots, self.roads.n_features))
        return Arms(np.arange(self.n_arms), np.concatenate([self.roads.contexts, empty]))

    @cached_property
    def roads(self) -> Arms:
        """All roads; terms and deviations are counted such that each has variance one."""
        arms, features = self.reference.arms, self.network.contexts.shape[1]
        contexts = arms.contexts.copy()
        contexts[:, features:] /= self._deviation_wh[:, None]
        return Arms(arms.ids, contexts)

    @cached_property
    def kernel(self) -> Beside:
        """The prior covariance of -h and of gains, which are independent of all else."""
        return Beside(self.reference.kernel, self.network.n_edges, PerArm(GAIN_VARIANCE))

    def gain_unit(self, deviation: float) -> float:
        """Return the gain that one unit of its arm stands for, if gains deviate so much."""
        return float(deviation / np.sqrt(GAIN_VARIANCE))

    @cached_property
    def marginal_prior(self) -> FinitePrior:
        """Means and variances before the first trip, without any covariance."""
        if not self.n_draws:
            return FinitePrior.of_kernel(self.arms, self.kernel, 1.0, None)
        # without a look at any covariance, which would factorise a graph that is not needed here
        return FinitePrior(
            universe=Universe(self.arms),
            covariance=KernelCovariance(self.arms, self.kernel),
            mean=np.zeros(self.n_arms),
            variance=self.kernel.diagonal(self.arms),
            noise_variance=np.ones(self.n_arms),
        )

    def prior(self) -> DenseGP | EnsembleGP:
        """Return the belief before the first trip."""
        if self.n_draws == 0:
            return DenseGP.from_kernel(self.arms, self.kernel, 1.0, keep_evidence=False)
        return EnsembleGP.from_kernel(
            self.arms,
            self.kernel,
            1.0,
            n_draws=self.n_draws,
            tolerance=TOLERANCE,
            root=self.root,
        )

    def resumed(self, state: EnsembleState) -> EnsembleGP:
        """Return a belief from what was kept of it.

        Raises:
            DataError: if it is no belief about these roads, or has another number of draws.
        """
        if state.n_draws != self.n_draws:
            msg = f"it keeps {state.n_draws} draws, and {self.n_draws} are needed for this network"
            raise DataError(msg)
        return state.resumed(self.marginal_prior, self.root, TOLERANCE)

    def _graph(self, kept: Kept) -> GraphMatern:
        """Return the graph's kernel, told its variances and its order of elimination."""
        graph = self.reference.graph

        def made() -> dict[str, Vector | Rows]:
            return {"variances": graph.raw_variances, "order": graph.order}

        found = kept.found_or_made("graph", made)
        return graph.knowing(found["variances"], found["order"])

    @cached_property
    def root(self) -> PriorRoot:
        """The root of the prior covariance, from its files where these are worth while."""
        if self._kept is None or self.network.n_edges < _WORTH_A_FILE:
            return PriorRoot.of_kernel(self.arms, self.kernel, UNEXPLAINED, MOST_FEATURES)

        def made() -> dict[str, Any]:
            root = PriorRoot.of_kernel(self.arms, self.kernel, UNEXPLAINED, MOST_FEATURES)
            (graph,) = root.graphs
            found = {"features": root.features, "own": root.own, "nodes": graph.nodes}
            return found | {"scales": graph.scales, "unexplained": np.array(root.unexplained)}

        found = self._kept.found_or_made("root", made)
        graph = GraphRoot(self.reference.graph, found["nodes"], found["scales"])
        return PriorRoot(found["features"], found["own"], (graph,), float(found["unexplained"]))

    @cached_property
    def time_model(self) -> TimeModel:
        """What is believed of travel times before the first trip."""
        model = TimeModel(self.network)
        if self._kept is None or self.network.n_edges < _WORTH_A_FILE:
            return model

        def made() -> dict[str, Any]:
            return {"features": model.features, "own": model.own_variance}

        found = self._kept.found_or_made("times", made)
        return model.knowing(found["features"], found["own"])

    @cached_property
    def usual_times(self) -> TimePosterior:
        """The same, as routes are predicted from it."""
        return TravelTimes.before(self.time_model).posterior

    def fingerprint(self) -> str:
        """Return what a database must agree with: the network and the model."""
        return fingerprint_of(self.network)
