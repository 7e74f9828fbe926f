"""Who chooses routes in a simulated city: rules that know, rules that learn, and the paper's."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.oracles import Dijkstra, Paths
from superarm.policies import MarginalThompson, Rectified
from superarm.protocols import Belief, Posterior
from superarm.roads.models.costs import RoadBelief
from superarm.roads.models.paper import EnergyModel
from superarm.roads.models.priors import ENERGY_SPREAD, TIME_SPREAD, RoadModel, Spread
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.energy import JOULE_PER_WH, potential_difference
from superarm.roads.vehicle import Vehicle
from superarm.simulation.drives import Drive, Trip

Choice = Literal["mean", "sample"]

_BISECTIONS = 7
_DRAWS = 13  # of costs at a time: a trip needs one, a day some dozens
_MOST_PRICE = 5.0  # Wh per second


@dataclass(frozen=True)
class Predicted:
    """What was expected of a trip before it was driven: mean and variance, if anything was."""

    energy_wh: float = np.nan
    energy_variance: float = np.nan
    time_s: float = np.nan
    time_variance: float = np.nan


class Costs(ABC):
    """Costs of all edges, fixed or learned each night."""

    @abstractmethod
    def of(self, rng: np.random.Generator, clock_s: float) -> Vector:
        """Return costs to search with, for a trip that departs now."""

    @abstractmethod
    def predicted(self, edges: Rows, clock_s: float) -> tuple[float, float]:
        """Return mean and variance of the measured cost of a whole route."""

    @abstractmethod
    def learn(self, drives: Sequence[Drive]) -> None:
        """Learn from drives."""


@dataclass(eq=False)
class Fixed(Costs):
    """Costs that are known, or believed to be."""

    costs: Vector

    def of(self, rng: np.random.Generator, clock_s: float) -> Vector:
        """Return them."""
        del rng, clock_s
        return self.costs

    def predicted(self, edges: Rows, clock_s: float) -> tuple[float, float]:
        """Return what they add up to; nothing is known of its error."""
        del clock_s
        return float(self.costs[edges].sum()), np.nan

    def learn(self, drives: Sequence[Drive]) -> None:
        """Learn nothing."""


@dataclass(eq=False)
class Learned(Costs):
    """Costs by a `RoadBelief`: the posterior mean, or one joint draw per trip (Thompson)."""

    belief: RoadBelief
    choice: Choice = "sample"
    _drawn: list[Vector] = field(default_factory=list)

    def of(self, rng: np.random.Generator, clock_s: float) -> Vector:
        """Return posterior means, or a draw."""
        del clock_s
        return self.draw(rng) if self.choice == "sample" else self.belief.mean

    def draw(self, rng: np.random.Generator) -> Vector:
        """Return a draw that nobody had before; they are made a few at a time."""
        if not self._drawn:
            self._drawn = list(self.belief.samples(rng, _DRAWS))
        return self._drawn.pop()

    def predicted(self, edges: Rows, clock_s: float) -> tuple[float, float]:
        """Return mean and variance of the measured cost of a whole route."""
        del clock_s
        return self.belief.trip(edges)

    def learn(self, drives: Sequence[Drive]) -> None:
        """Condition on all of them at once."""
        self.belief, self._drawn = self.belief.after(drives), []


@dataclass(eq=False)
class ByHour(Costs):
    """Costs that are learned for every part of the day by itself."""

    begins_s: tuple[float, ...]
    parts: tuple[Learned, ...]

    def at(self, clock_s: float) -> Learned:
        """Return the costs of the part of the day in which a trip departs."""
        place = int(np.searchsorted(self.begins_s, clock_s, side="right")) - 1
        return self.parts[max(place, 0)]

    def of(self, rng: np.random.Generator, clock_s: float) -> Vector:
        """Return the costs of that part."""
        return self.at(clock_s).of(rng, clock_s)

    def predicted(self, edges: Rows, clock_s: float) -> tuple[float, float]:
        """Return the prediction of that part."""
        return self.at(clock_s).predicted(edges, clock_s)

    def learn(self, drives: Sequence[Drive]) -> None:
        """Let every part learn from its own drives."""
        for part in self.parts:
            part.learn([one for one in drives if self.at(one.trip.departs_s) is part])


@dataclass(eq=False)
class WithAuxiliaries(Costs):
    """Energy that is driven, and what heating and lights take for as long as it takes.

    Auxiliaries are known in W and times are learned for every part of the day, so that a queue in
    the rush hour costs energy there and then. What is driven is learned from measured energy less
    the auxiliaries' share, by a model of a vehicle without them. Times are learned by whoever owns
    them.

    Args:
        driving: costs of a vehicle without auxiliaries.
        times: of travel, in s.
        power_w: of the auxiliaries.
    """

    driving: Learned
    times: ByHour
    power_w: float

    def of(self, rng: np.random.Generator, clock_s: float) -> Vector:
        """Return both together, by means or by a draw of each."""
        times = self.times.at(clock_s)
        seconds = times.draw(rng) if self.driving.choice == "sample" else times.belief.mean
        total: Vector = self.driving.of(rng, clock_s) + self.power_w / JOULE_PER_WH * seconds
        return total

    def predicted(self, edges: Rows, clock_s: float) -> tuple[float, float]:
        """Return mean and variance of the measured cost of a whole route."""
        share = self.power_w / JOULE_PER_WH
        energy, variance = self.driving.predicted(edges, clock_s)
        time, time_variance = self.times.predicted(edges, clock_s)
        return energy + share * time, variance + share**2 * time_variance

    def learn(self, drives: Sequence[Drive]) -> None:
        """Learn what was driven."""
        share = self.power_w / JOULE_PER_WH
        self.driving.learn(
            [
                replace(one, energy_wh=one.energy_wh - share * np.diff(one.entered_s))
                for one in drives
            ]
        )


@dataclass(eq=False)
class PaperCosts(Costs):
    """Thompson sampling with the paper's prior on dissipation, on a GP or on independent edges.

    Args:
        model: the paper's constants, ``rectify="dissipation"``.
        independent: whether edges are independent (BI-TS).
        kinetic: whether speeds at the ends of edges are accounted for.
    """

    model: EnergyModel
    independent: bool = False
    kinetic: bool = False

    def __post_init__(self) -> None:
        """Begin with the prior."""
        model = self.model
        self._belief: Belief[Posterior] = model.independent if self.independent else model.gp
        self._policy = Rectified(MarginalThompson())
        self._reader = RoadModel(model.network, model.vehicle, kinetic=self.kinetic)

    def of(self, rng: np.random.Generator, clock_s: float) -> Vector:
        """Return the rectified costs of one draw."""
        del clock_s
        posterior = self._belief.posterior(self.model.arms)
        return -self._policy.indices(1, posterior, rng)

    def predicted(self, edges: Rows, clock_s: float) -> tuple[float, float]:
        """Return mean and variance of the measured cost of a whole route."""
        del clock_s
        posterior = self._belief.posterior(self.model.arms.take(edges))
        noise = edges.size * self.model.noise_std_wh**2
        if self.independent:
            return -float(posterior.mean.sum()), float((posterior.std**2).sum()) + noise
        joint = posterior.covariance()  # type: ignore[attr-defined] # an exact GP has one
        return -float(posterior.mean.sum()), float(joint.sum()) + noise

    def learn(self, drives: Sequence[Drive]) -> None:
        """Condition on every edge of every drive."""
        edges = np.concatenate([one.edges for one in drives])
        costs = np.concatenate([self._reader.measured_of(one) for one in drives])
        self._belief = self._belief.condition(self.model.arms.take(edges), -costs)


@dataclass(eq=False)
class NightPlanner:
    """Routes by costs, and learns from all drives of a day in the night after it.

    Args:
        network: the roads.
        vehicle: what drives.
        costs: what is minimised.
        potential_wh: what to add to dissipation for the energy of every edge.
        rng: for draws.
        times: learned travel times, if they matter or are to be predicted.
        extra_time: if given, the route takes at most this share longer than the fastest one by
            expected times: time gets the smallest price per second that achieves it.
        by_energy: whether `costs` are energies, so that they can be compared with what was used.
        extra_energy: if given, the route is expected to cost at most this share more than the
            thriftiest one: drawn and expected costs are blended as boldly as that allows.
    """

    network: RoadNetwork
    vehicle: Vehicle
    costs: Costs
    potential_wh: Vector
    rng: np.random.Generator
    times: Costs | None = None
    extra_time: float | None = None
    by_energy: bool = True
    extra_energy: float | None = None
    predictions: dict[str, Predicted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with an empty day."""
        self._today: list[Drive] = []
        self._oracle = Dijkstra()

    @cached_property
    def _graph(self) -> Paths:
        net = self.network
        first, second = net.turns[0]
        return Paths.on_turns(net.n_edges, net.turns, int(first), int(second))

    def route(self, trip: Trip) -> Rows:
        """Return the cheapest route by costs that are drawn for this trip alone."""
        costs = self.costs.of(self.rng, trip.departs_s)
        paths = self._graph.between(trip.start, trip.goal)

        def best(price: float, times: Vector | None) -> Rows:
            total = costs if times is None else costs + price * times
            return np.asarray(self._oracle.select(paths, -total), dtype=np.intp)

        edges = best(0.0, None)
        if self.extra_energy is not None and isinstance(self.costs, Learned):
            edges = self._within(paths, costs, self.costs.belief.mean, edges)
        if self.extra_time is not None and self.times is not None:
            expected = self.times.of(self.rng, trip.departs_s)
            edges = self._in_time(paths, expected, edges, best)
        self._predict(trip, edges)
        return edges

    def _within(self, paths: Paths, drawn: Vector, expected: Vector, edges: Rows) -> Rows:
        """Return the route of the boldest blend of drawn and expected costs within the limit."""

        def blend(share: float) -> Rows:
            costs = (1 - share) * expected + share * drawn
            return np.asarray(self._oracle.select(paths, -costs), dtype=np.intp)

        found = blend(0.0)
        limit = (1 + (self.extra_energy or 0.0)) * float(expected[found].sum())
        if float(expected[edges].sum()) <= limit:
            return edges
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            share = (low + high) / 2
            tried = blend(share)
            if float(expected[tried].sum()) <= limit:
                low, found = share, tried
            else:
                high = share
        return found

    def _in_time(
        self,
        paths: Paths,
        times: Vector,
        edges: Rows,
        best: Callable[[float, Vector | None], Rows],
    ) -> Rows:
        fastest = np.asarray(self._oracle.select(paths, -times), dtype=np.intp)
        limit = (1 + (self.extra_time or 0.0)) * float(times[fastest].sum())
        if float(times[edges].sum()) <= limit:
            return edges
        low, high, found = 0.0, _MOST_PRICE, fastest
        for _ in range(_BISECTIONS):
            price = (low + high) / 2
            tried = best(price, times)
            if float(times[tried].sum()) <= limit:
                high, found = price, tried
            else:
                low = price
        return found

    def _predict(self, trip: Trip, edges: Rows) -> None:
        clock, none = trip.departs_s, (np.nan, np.nan)
        energy, variance = self.costs.predicted(edges, clock) if self.by_energy else none
        time, time_variance = none if self.times is None else self.times.predicted(edges, clock)
        self.predictions[trip.name] = Predicted(
            energy + float(self.potential_wh[edges].sum()), variance, time, time_variance
        )

    def arrived(self, drive: Drive) -> None:
        """Keep a drive for the night."""
        self._today.append(drive)

    def night(self) -> None:
        """Learn from the day."""
        if self._today:
            self.costs.learn(self._today)
            if self.times is not None and self.times is not self.costs:
                self.times.learn(self._today)
        self._today = []


METHODS = (
    "fastest", "fastest-learned", "shortest", "physics", "calibrated", "BI-TS", "GP-TS-paper",
    "GP-TS-kinetic", "GP-TS-relative", "GP-TS-global", "GP-TS", "GP-mean", "GP-TS-in-time",
    "GP-mean-in-time", "physics-in-time", "GP-TS-limited",
)  # fmt: skip
"""Names of `planner`: each step of the ladder from the paper's prior to ours is one."""

WITHOUT_TIMES = {"fastest", "shortest", "physics", "BI-TS", "GP-TS-paper", "GP-TS-kinetic"}
"""Methods that neither use nor predict travel times: learning them costs as much as energies."""

IN_TIME = 0.05
"""The extra time that methods "in time" may take against the fastest route."""

LIMITED = 0.02
"""By how much more than the thriftiest route a limited one is expected to cost, as a share."""

_WITH_AUXILIARIES = {"calibrated", "GP-TS", "GP-mean"}
_CALIBRATED_TIMES = replace(TIME_SPREAD, share=1e-3, floor=1e-3, noise_share=0.4, noise_floor=7.0)

_INDEPENDENT = replace(ENERGY_SPREAD, trip=0.0, boundary=0.0, noise_share=0.1, noise_floor=1.2)
_STEPS: dict[str, Spread] = {
    "calibrated": replace(ENERGY_SPREAD, share=1e-3, floor=1e-3, noise_share=0.12, noise_floor=1.2),
    "GP-TS-relative": replace(_INDEPENDENT, terms=()),
    "GP-TS-global": _INDEPENDENT,
    "GP-TS": ENERGY_SPREAD,
}


def planner(
    method: str,
    network: RoadNetwork,
    vehicle: Vehicle,
    rng: np.random.Generator,
    begins_s: tuple[float, ...] = (0.0,),
) -> NightPlanner:
    """Return a method by name.

    Args:
        method: one of `METHODS`.
        network: the roads.
        vehicle: what drives.
        rng: for its draws.
        begins_s: where the parts of the day begin whose travel times are learned apart.
    """
    if method not in METHODS:
        msg = f"no method {method!r}; there are {METHODS}"
        raise ValueError(msg)
    extra = IN_TIME if method.endswith("-in-time") else None
    potential = potential_difference(network, vehicle)
    times: ByHour | None = None
    if method not in WITHOUT_TIMES:
        spread = _CALIBRATED_TIMES if method == "calibrated" else None
        prior = RoadModel(network, vehicle, "time", spread=spread)
        parts = tuple(Learned(RoadBelief.before(prior), "mean") for _ in begins_s)
        times = ByHour(begins_s, parts)
    if method == "fastest-learned" and times is not None:
        return NightPlanner(network, vehicle, times, potential, rng, times, by_energy=False)
    name = method.removesuffix("-in-time").removesuffix("-limited")
    limited = LIMITED if method.endswith("-limited") else None
    power = vehicle.auxiliary_power_w
    if name in _WITH_AUXILIARIES and power and times is not None:
        bare = replace(vehicle, auxiliary_power_w=0.0)
        driving, by_energy = _costs(name, network, bare)
        assert isinstance(driving, Learned)  # noqa: S101 - by the list of these names
        energy: Costs = WithAuxiliaries(driving, times, power)
    else:
        energy, by_energy = _costs(name, network, vehicle)
    return NightPlanner(network, vehicle, energy, potential, rng, times, extra, by_energy, limited)


def _costs(name: str, network: RoadNetwork, vehicle: Vehicle) -> tuple[Costs, bool]:
    """Return the costs of a method, and whether they are energies."""
    model = RoadModel(network, vehicle)
    known = {"fastest": model.free_flow_s, "shortest": network.length_m}
    if name in known:
        return Fixed(known[name]), False
    match name:
        case "physics":
            return Fixed(model.physics), True
        case "BI-TS" | "GP-TS-paper" | "GP-TS-kinetic":
            paper = EnergyModel(network, vehicle, "paper", "dissipation")
            return PaperCosts(paper, name == "BI-TS", name == "GP-TS-kinetic"), True
        case _:
            choice: Choice = "mean" if name in {"calibrated", "GP-mean"} else "sample"
            spread = _STEPS.get(name, ENERGY_SPREAD)
            model = RoadModel(network, vehicle, spread=spread)
            return Learned(RoadBelief.before(model), choice), True
