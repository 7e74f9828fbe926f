"""One question beside what is believed: paths within its limits, and what to expect of them."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.oracles.fronts import FrontRoute
from superarm.pausing import computed_once, pause
from superarm.roads.battery import Battery
from superarm.roads.models.fleet import Drivetrain
from superarm.roads.models.intervals import INTERVAL, interval_s
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.network.access import is_heavy
from superarm.roads.routing.arrival import probability_of_arrival
from superarm.roads.routing.vehicle_access import Permit

LEAST_PROBABILITY = 0.95
"""Exploring must not push the probability of arrival below this."""

MOST_SINGLE = 2_000
"""Edges of longer routes are taken together in so many stretches, for their joint covariance."""

_ROUNDING = 1e-9
_HALVINGS = 8


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is expected of a route, jointly over its edges, measurement noise included.

    Attributes:
        edges: positions of its edges, in driving order.
        mean_wh: expected energy taken from the battery.
        std_wh: of the energy measured over the whole route.
        profile_mean_wh: expected energy from the start to the end of every edge, shape (k,).
        profile_std_wh: its standard deviation, shape (k,).
        profile_s: expected time from the start to the end of every edge, shape (k,).
        std_s: of the time measured over the whole route.
        fastest_s: the least time that the route can take.
        arrival: probability that the charge stays above the reserve, if a battery was given.
    """

    edges: Rows
    mean_wh: float
    std_wh: float
    profile_mean_wh: Vector
    profile_std_wh: Vector
    profile_s: Vector
    std_s: float
    fastest_s: float
    arrival: float | None = None

    @property
    def interval_wh(self) -> tuple[float, float]:
        """The 90 per cent interval of the energy to be measured."""
        return self.mean_wh - INTERVAL * self.std_wh, self.mean_wh + INTERVAL * self.std_wh

    @property
    def mean_s(self) -> float:
        """The expected time."""
        return float(self.profile_s[-1])

    @property
    def interval_s(self) -> tuple[float, float]:
        """The 90 per cent interval of the time to be measured."""
        return interval_s(self.mean_s, self.std_s, self.fastest_s)


@dataclass(frozen=True)
class Ends:
    """Where a route begins and ends, and what it must do without.

    Attributes:
        start: position of the edge to start on; it counts.
        goal: position of the edge to end on.
        closed: positions of edges not to use.
        via: edges to pass on the way, in this order.
    """

    start: int
    goal: int
    closed: tuple[int, ...] = ()
    via: tuple[int, ...] = ()

    @property
    def legs(self) -> tuple[tuple[int, int], ...]:
        """From where to where, one part of the way after the other."""
        return tuple(pairwise((self.start, *self.via, self.goal)))


@dataclass(frozen=True, eq=False)
class Search:
    """Paths for one vehicle at one part of the day.

    Attributes:
        ends: between what.
        permit: of the vehicle.
        posterior: what is believed.
        drivetrain: of the vehicle.
        part: of the day.
        battery: if the charge matters.
        max_extra_time: how much longer than the fastest route one may take, as a share, if limited.
        wh_per_minute: what a minute is worth.
    """

    ends: Ends
    permit: Permit
    posterior: RoadPosterior
    drivetrain: Drivetrain
    part: int
    battery: Battery | None = None
    max_extra_time: float | None = None
    wh_per_minute: float = 0.0

    @property
    def heavy(self) -> bool:
        """Whether the vehicle is not faster than heavy ones may be."""
        return is_heavy(self.drivetrain.vehicle)

    @computed_once
    def seconds(self) -> Vector:
        """The expected time of every edge."""
        return self.posterior.times.seconds(self.part, heavy=self.heavy)

    @property
    def free_flow_s(self) -> Vector:
        """The time of every edge at its limit."""
        return self.posterior.times.model.free_flow_s(heavy=self.heavy)

    @property
    def fastest_s(self) -> Vector:
        """The least time that every edge can take."""
        return self.posterior.times.model.fastest_s(heavy=self.heavy)

    @computed_once
    def limit_s(self) -> float:
        """The longest expected time a route may have."""
        if self.max_extra_time is None:
            return np.inf
        fastest = float(self.seconds[self.path(self.seconds)].sum())
        return (1 + self.max_extra_time) * fastest * (1 + _ROUNDING)

    def path(self, costs: Vector) -> Rows:
        """Return the cheapest path, whatever time it takes."""
        legs = [
            self.permit.cheapest(costs, start, goal, self.ends.closed)
            for start, goal in self.ends.legs
        ]
        return np.concatenate([legs[0], *(leg[1:] for leg in legs[1:])])

    def within_time(self, costs: Vector) -> Rows:
        """Return the cheapest path that is not too slow; minutes count for what they are worth."""
        if self.wh_per_minute:
            costs = costs + self.wh_per_minute / 60 * self.seconds
        edges = self.path(costs)
        if float(self.seconds[edges].sum()) <= self.limit_s:
            return edges
        if self.ends.via:
            return self._hurried(costs)
        fast_enough = [one for one in self.front(costs) if one.first <= self.limit_s]
        return min(fast_enough, key=lambda one: one.second).rows

    def _hurried(self, costs: Vector) -> Rows:
        """Return the path at the least price of time, by halving, at which it is not too slow."""
        usual = float(costs.sum() / self.seconds.sum())
        found, low, high = self.path(self.seconds), 0.0, 1.0
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            edges = self.path((1 - share) * costs + share * usual * self.seconds)
            if float(self.seconds[edges].sum()) <= self.limit_s:
                found, high = edges, share
            else:
                low = share
        return found

    def front(self, costs: Vector, share: float = 0.0) -> list[FrontRoute]:
        """Return paths that no other one beats in both time and costs, the fastest first."""
        ends = self.ends
        return self.permit.front(self.seconds, costs, ends.start, ends.goal, ends.closed, share)

    def predicted(self, edges: Rows) -> Prediction:
        """Return what to expect of a route."""
        pause(edges.size)
        if edges.size <= MOST_SINGLE:
            mean, covariance = self.posterior.along(edges, self.drivetrain)
            total, spread = along(mean, covariance)
        else:
            starts = np.linspace(0, edges.size, MOST_SINGLE + 1).astype(np.intp)
            mean, covariance = self.posterior.along(edges, self.drivetrain, starts)
            _, at_ends = along(mean, covariance)
            each = self.posterior.energy_wh(self.drivetrain)[edges]
            total = np.cumsum(each)
            spread = np.interp(np.arange(1, edges.size + 1), starts[1:], at_ends)
        seconds, std_s = self.posterior.times.of(edges, self.part, heavy=self.heavy)
        arrival = None
        if self.battery is not None:
            arrival = probability_of_arrival(self.battery, mean, covariance)
        return Prediction(
            edges,
            mean_wh=float(total[-1]),
            std_wh=float(spread[-1]),
            profile_mean_wh=total,
            profile_std_wh=spread,
            profile_s=np.cumsum(seconds),
            std_s=std_s,
            fastest_s=float(self.fastest_s[edges].sum()),
            arrival=arrival,
        )

    def worth_wh(self, route: Prediction) -> float:
        """Return what a route is expected to cost, minutes included at what they are worth."""
        return route.mean_wh + self.wh_per_minute / 60 * route.mean_s


def along(mean: Vector, covariance: Matrix) -> tuple[Vector, Vector]:
    """Return means and deviations of what was used up to the end of every edge of a drive."""
    with_earlier = np.cumsum(covariance, axis=1).diagonal()
    pause(mean.size)
    # an edge adds its variance and twice its covariances with all edges before
    variance = np.cumsum(2 * with_earlier - covariance.diagonal())
    return np.cumsum(mean), np.sqrt(np.maximum(variance, 0.0))
