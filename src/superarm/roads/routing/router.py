"""Routes from a posterior: which way, what it will cost, how sure that is, what else there is."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.errors import WorkLimitError
from superarm.gaussian import Marginals
from superarm.oracles.fronts import spread_out
from superarm.policies import Greedy, MarginalThompson, Rectified, UpperConfidenceBound
from superarm.protocols import IndexPolicy, Posterior
from superarm.roads.models.fleet import Drivetrain
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.network.network import RoadNetwork
from superarm.roads.routing.query import Mode, RouteQuery
from superarm.roads.routing.range import Reached, reached
from superarm.roads.routing.search import LEAST_PROBABILITY, Ends, Prediction, Search
from superarm.roads.routing.vehicle_access import Permits
from superarm.roads.vehicle import Vehicle
from superarm.theory import BayesUCBWidth

MOST_SHARED = 0.7
"""An alternative shares less than this part of its length with every other route."""

MOST_ENERGY = 1.2
"""An alternative is expected to need at most this many times the energy of the best route."""

MOST_OF_FRONT = 8
"""How many routes of a front are shown."""

_HALVINGS = 5
_ATTEMPTS = 10
_PENALTY = 1.5
_LEAST_PENALTY_WH = 1e-6  # roads that cost nothing become dear, too


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found.

    Attributes:
        route: the one to drive.
        best: the one of least expected energy within its limits; often the same.
        alternatives: others worth a look.
        fallback: why the route explores less than it would, if so.
        boldness: how far what is believed was left for what was drawn, from zero to one.
    """

    route: Prediction
    best: Prediction
    alternatives: tuple[Prediction, ...]
    fallback: str | None
    boldness: float = 0.0

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

    def search(self, query: RouteQuery, posterior: RoadPosterior, drivetrain: Drivetrain) -> Search:
        """Return a question beside what is believed."""
        return Search(
            Ends(query.start, query.goal, query.closed, query.via),
            self.permits.of(drivetrain.vehicle),
            posterior,
            drivetrain,
            query.part,
            query.battery,
            query.max_extra_time,
            query.wh_per_minute,
        )

    def answer(
        self,
        query: RouteQuery,
        posterior: RoadPosterior,
        drivetrain: Drivetrain,
        rng: np.random.Generator,
    ) -> Answer:
        """Find the route that was asked for."""
        search = self.search(query, posterior, drivetrain)
        believed = self._costs(self._policies["best"], search, rng)
        best = search.predicted(search.within_time(believed))
        route, fallback, boldness = best, None, 0.0
        if query.mode != "best":
            drawn = self._costs(self._policies[query.mode], search, rng)
            try:
                route, fallback, boldness = _boldest(search, best, believed, drawn, query)
            except WorkLimitError:
                fallback = "looking for a route to explore would take too much work"
        found = [route]
        with suppress(WorkLimitError):  # fewer alternatives than asked for
            for edges in self._others(believed, search, query, found):
                other = search.predicted(edges)
                if other.mean_wh <= best.mean_wh + (MOST_ENERGY - 1) * abs(best.mean_wh):
                    found.append(other)
        return Answer(route, best, tuple(found[1:]), fallback, boldness)

    def front(
        self, query: RouteQuery, posterior: RoadPosterior, drivetrain: Drivetrain
    ) -> tuple[list[Prediction], float]:
        """Return routes between the fastest and the thriftiest, and how well they cover all others.

        No route has both less expected time and less expected dissipation than one of these; all
        that have less of one are at most by the returned share better than one of these in either.
        """
        search = self.search(query, posterior, drivetrain)
        costs = self._costs(self._policies["best"], search, np.random.default_rng(0))
        routes, share = spread_out(search.front(costs), MOST_OF_FRONT)
        return [search.predicted(route.rows) for route in routes], share

    def reached(
        self,
        query: RouteQuery,
        posterior: RoadPosterior,
        drivetrain: Drivetrain,
        confidences: Sequence[float],
        *,
        back: bool,
    ) -> list[Reached]:
        """Return where the charge lasts to, from the start, and back again if asked."""
        if query.battery is None:
            msg = "how far the charge lasts depends on the battery: give one"
            raise ValueError(msg)
        search = self.search(query, posterior, drivetrain)
        return reached(search, query.battery, confidences, back=back)

    def path(self, costs: Vector, query: RouteQuery, vehicle: Vehicle | None = None) -> Rows:
        """Return the cheapest path over edges that are open to a vehicle, by default a car."""
        permit = self.permits.of(vehicle or Vehicle())
        return permit.cheapest(costs, query.start, query.goal, query.closed)

    @staticmethod
    def _costs(policy: IndexPolicy[Posterior], search: Search, rng: np.random.Generator) -> Vector:
        """Return what the policy makes of every edge, as costs that are nowhere negative."""
        posterior, drivetrain = search.posterior, search.drivetrain
        rewards = Marginals(
            -posterior.cost_wh(drivetrain),
            posterior.cost_std_wh(drivetrain),
            np.zeros(posterior.n_edges),
        )
        return np.maximum(-policy.indices(posterior.trips + 1, rewards, rng), 0.0)

    def _others(
        self, costs: Vector, search: Search, query: RouteQuery, found: list[Prediction]
    ) -> Iterator[Rows]:
        """Yield routes that differ enough from all found so far, by making known roads dear."""
        lengths = self.network.length_m
        dear = costs.copy()
        last = found[0].edges
        for _ in range(_ATTEMPTS):
            if len(found) > query.alternatives:
                return
            dear[last] *= _PENALTY
            dear[last] += _LEAST_PENALTY_WH
            last = search.within_time(dear)
            mine = lengths[last].sum()
            if all(
                lengths[np.intersect1d(last, other.edges)].sum() < MOST_SHARED * mine
                for other in found
            ):
                yield last


def _boldest(
    search: Search, best: Prediction, believed: Vector, drawn: Vector, query: RouteQuery
) -> tuple[Prediction, str | None, float]:
    """Return the route of the boldest blend of drawn and believed costs that keeps to the limits.

    Why it is not the drawn one, if so, and how bold it is. The drawn costs are tried first; then
    the share of them is halved in between.
    """

    def blend(share: float) -> Prediction:
        edges = search.within_time((1 - share) * believed + share * drawn)
        return best if np.array_equal(edges, best.edges) else search.predicted(edges)

    route = blend(1.0)
    why_not = _too_bold(search, route, best, query)
    if why_not is None:
        return route, None, 1.0
    found, low, high = best, 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        route = blend(middle)
        if _too_bold(search, route, best, query) is None:
            found, low = route, middle
        else:
            high = middle
    return found, why_not, low


def _too_bold(search: Search, route: Prediction, best: Prediction, query: RouteQuery) -> str | None:
    """Say why a route may not be offered for the sake of learning, if so."""
    if route is best:
        return None
    usual, offered = search.worth_wh(best), search.worth_wh(route)
    allowed = usual + query.max_extra_energy * abs(usual)
    if offered > allowed:
        return (
            f"the route to explore was expected to take {offered - usual:.0f} Wh more than the "
            f"best, and max_extra_energy allows {allowed - usual:.0f} Wh"
        )
    if route.arrival is not None and route.arrival < LEAST_PROBABILITY:
        return (
            f"the route to explore would arrive with probability {route.arrival:.3f} only, below "
            f"{LEAST_PROBABILITY}"
        )
    return None
