"""Routes from a posterior: which way, what it will cost, how sure that is, what else there is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.gaussian import Marginals
from superarm.navigation import RoadNetwork, Vehicle
from superarm.navigation.permits import Permit, Permits
from superarm.policies import Greedy, MarginalThompson, Rectified, UpperConfidenceBound
from superarm.protocols import IndexPolicy, Posterior
from superarm.service.model.fleet import Drivetrain
from superarm.service.model.posterior import RoadPosterior
from superarm.service.routes.battery import Battery, probability_of_arrival
from superarm.service.routes.intervals import INTERVAL
from superarm.theory import BayesUCBWidth

Mode = Literal["explore", "optimistic", "best"]

LEAST_PROBABILITY = 0.95
"""Exploring must not push the probability of arrival below this."""

MOST_SHARED = 0.7
"""An alternative shares less than this part of its length with every other route."""

MOST_ENERGY = 1.2
"""An alternative is expected to need at most this many times the energy of the best route."""

_ATTEMPTS = 10
_PENALTY = 1.5
_LEAST_PENALTY_WH = 1e-6  # roads that cost nothing become dear, too


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is expected of a route, jointly over its edges, measurement noise included.

    Attributes:
        edges: positions of its edges, in driving order.
        mean_wh: expected energy taken from the battery.
        std_wh: of the energy measured over the whole route.
        profile_mean_wh: expected energy from the start to the end of every edge, shape (k,).
        profile_std_wh: its standard deviation, shape (k,).
        arrival: probability that the charge stays above the reserve, if a battery was given.
    """

    edges: Rows
    mean_wh: float
    std_wh: float
    profile_mean_wh: Vector
    profile_std_wh: Vector
    arrival: float | None = None

    @property
    def interval_wh(self) -> tuple[float, float]:
        """The 90 per cent interval of the energy to be measured."""
        return self.mean_wh - INTERVAL * self.std_wh, self.mean_wh + INTERVAL * self.std_wh


@dataclass(frozen=True)
class RouteQuery:
    """What is asked for.

    Attributes:
        start: position of the edge to start on; it counts.
        goal: position of the edge to end on.
        mode: ``"explore"``, ``"optimistic"`` or ``"best"``.
        closed: positions of edges not to use.
        battery: if the charge matters.
        alternatives: how many other routes to look for.
        max_extra_energy: how much more than the best route's energy exploring may cost, as a share.
        permit: of the vehicle; the router fills it in.
    """

    start: int
    goal: int
    mode: Mode = "explore"
    closed: tuple[int, ...] = ()
    battery: Battery | None = None
    alternatives: int = 0
    max_extra_energy: float = 0.1
    permit: Permit | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found.

    Attributes:
        route: the one to drive.
        best: the one of least expected energy; often the same.
        alternatives: others worth a look.
        fallback: why the best route is returned although another was asked for, if so.
    """

    route: Prediction
    best: Prediction
    alternatives: tuple[Prediction, ...]
    fallback: str | None

    @property
    def exploration_wh(self) -> float:
        """How much more energy than the best route this one is expected to take."""
        return self.route.mean_wh - self.best.mean_wh


class Router:
    """Finds routes on one network."""

    def __init__(self, network: RoadNetwork) -> None:
        """Sort the turns by the edge they leave."""
        self.network = network
        self.permits = Permits(network)
        # policies are told of zero noise: costs below zero count as zero, nothing more
        self._policies: dict[Mode, IndexPolicy[Posterior]] = {
            "explore": Rectified(MarginalThompson()),
            "optimistic": Rectified(
                UpperConfidenceBound(BayesUCBWidth(network.n_edges, omega=1.0, xi=1.0))
            ),
            "best": Rectified(Greedy()),
        }

    def answer(
        self,
        query: RouteQuery,
        posterior: RoadPosterior,
        drivetrain: Drivetrain,
        rng: np.random.Generator,
    ) -> Answer:
        """Find the route that was asked for."""
        query = replace(query, permit=self.permits.of(drivetrain.vehicle))
        best_costs = self._costs(self._policies["best"], posterior, drivetrain, rng)
        best = self._predicted(self.path(best_costs, query), query, posterior, drivetrain)
        route, fallback = best, None
        if query.mode != "best":
            costs = self._costs(self._policies[query.mode], posterior, drivetrain, rng)
            edges = self.path(costs, query)
            if not np.array_equal(edges, best.edges):
                route = self._predicted(edges, query, posterior, drivetrain)
                fallback = _too_bold(route, best, query)
        if fallback is not None:
            route = best
        found = [route]
        for edges in self._others(best_costs, query, found):
            other = self._predicted(edges, query, posterior, drivetrain)
            if other.mean_wh <= best.mean_wh + (MOST_ENERGY - 1) * abs(best.mean_wh):
                found.append(other)
        return Answer(route, best, tuple(found[1:]), fallback)

    def path(self, costs: Vector, query: RouteQuery) -> Rows:
        """Return the cheapest path over edges that are open."""
        permit = query.permit or self.permits.of(Vehicle())
        return permit.cheapest(costs, query.start, query.goal, query.closed)

    @staticmethod
    def _costs(
        policy: IndexPolicy[Posterior],
        posterior: RoadPosterior,
        drivetrain: Drivetrain,
        rng: np.random.Generator,
    ) -> Vector:
        """Return what the policy makes of every edge, as costs that are nowhere negative."""
        rewards = Marginals(
            -posterior.cost_wh(drivetrain),
            posterior.cost_std_wh(drivetrain),
            np.zeros(posterior.n_edges),
        )
        return np.maximum(-policy.indices(posterior.trips + 1, rewards, rng), 0.0)

    @staticmethod
    def _predicted(
        edges: Rows, query: RouteQuery, posterior: RoadPosterior, drivetrain: Drivetrain
    ) -> Prediction:
        mean, covariance = posterior.along(edges, drivetrain)
        prediction = predicted(edges, mean, covariance)
        if query.battery is None:
            return prediction
        return replace(prediction, arrival=probability_of_arrival(query.battery, mean, covariance))

    def _others(self, costs: Vector, query: RouteQuery, found: list[Prediction]) -> Iterator[Rows]:
        """Yield routes that differ enough from all found so far, by making known roads dear."""
        lengths = self.network.length_m
        dear = costs.copy()
        last = found[0].edges
        for _ in range(_ATTEMPTS):
            if len(found) > query.alternatives:
                return
            dear[last] *= _PENALTY
            dear[last] += _LEAST_PENALTY_WH
            last = self.path(dear, query)
            mine = lengths[last].sum()
            if all(
                lengths[np.intersect1d(last, other.edges)].sum() < MOST_SHARED * mine
                for other in found
            ):
                yield last


def predicted(edges: Rows, mean: Vector, covariance: Matrix) -> Prediction:
    """Return what the means and joint covariance of some edges say of driving them in order."""
    spread = np.sqrt(np.cumsum(np.cumsum(covariance, axis=0), axis=1).diagonal())
    total = np.cumsum(mean)
    return Prediction(edges, float(total[-1]), float(spread[-1]), total, spread)


def _too_bold(route: Prediction, best: Prediction, query: RouteQuery) -> str | None:
    """Say why a route may not be offered for the sake of learning, if so."""
    allowed = best.mean_wh + query.max_extra_energy * abs(best.mean_wh)
    if route.mean_wh > allowed:
        return (
            f"the route to explore was expected to take {route.mean_wh - best.mean_wh:.0f} Wh more "
            f"than the best, and max_extra_energy allows {allowed - best.mean_wh:.0f} Wh"
        )
    if route.arrival is not None and route.arrival < LEAST_PROBABILITY:
        return (
            f"the route to explore would arrive with probability {route.arrival:.3f} only, below "
            f"{LEAST_PROBABILITY}"
        )
    return None
