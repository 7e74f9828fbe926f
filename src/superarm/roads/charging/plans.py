r"""Trips with stops to charge, such that the charge lasts with a given probability.

Legs between stops are the cheapest paths at a few prices of energy in time. `best_stops` chooses
stops with a margin of so many deviations on every leg; then the whole sequence is driven in
thought, by joint draws of all of its edges, and every stop is left with the quantile of what its
leg needs at which all legs together last with the probability asked for. That is done for several
margins; a plan as cheap as the one without any needs no comparison.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from superarm.arrays import Rows, Vector
from superarm.errors import CapacityError, InfeasibleError
from superarm.roads.charging import StationPlaces, Stops, best_stops
from superarm.roads.charging.legs import LegFinder, Wish
from superarm.roads.charging.monte_carlo import Draws, since_stops
from superarm.roads.charging.stops import START, StopPlan, leave_levels
from superarm.roads.routing.arrival import DRAWS
from superarm.roads.routing.search import Prediction, Search

CLOSE_ENOUGH = 1.01
"""A plan that costs at most so many times the lower bound is not looked at again."""

_LONGEST_S = 30 * 86_400.0
_VERY_SURE, _MANY = 0.97, 16_384
_HALVINGS = 9
_MOST_CUTS = 12
_MOST_ASKED = 16
_MOST_DRIVEN = 8  # sequences on large networks
_MARGINS = (1.0, 0.5, 0.0, 1.5)  # times the quantile of the probability


@dataclass(frozen=True, eq=False)
class ChargeStop:
    """A stop of a plan.

    Attributes:
        place: which place of the stations.
        arrives_wh: expected charge on arrival.
        leaves_wh: what to charge to.
        charging_s: expected.
        waiting_s: until it opens.
    """

    place: int
    arrives_wh: float
    leaves_wh: float
    charging_s: float
    waiting_s: float


@dataclass(frozen=True, eq=False)
class ChargePlan:
    """A trip with stops.

    Attributes:
        route: the whole way, what is expected of it; its arrival counts no charging.
        ends: where in its edges the legs end, shape (k + 1,).
        stops: between the legs, k of them.
        probability: that the charge stays above the reserve.
        seconds: in all.
        price: what was minimised: seconds, or Wh.
        spread_wh: deviation of what was used since the last stop, at the end of every edge.
    """

    route: Prediction
    ends: Rows
    stops: tuple[ChargeStop, ...]
    probability: float
    seconds: float
    price: float
    spread_wh: Vector


class Planner:
    """Plans of one search: its trees are grown once, whatever is asked of them."""

    def __init__(
        self, search: Search, wish: Wish, places: StationPlaces, most_places: int | None = None
    ) -> None:
        """Look at the stations that may help."""
        self._search, self._wish, self._all = search, wish, places
        self.finder = LegFinder(search, wish, places, most_places)
        battery, useful = wish.battery, self.finder.places
        stations = [useful.stations[one] for one in useful.station.tolist()]
        self._problem = Stops(
            wish.curve,
            min(battery.charge_wh, battery.capacity_wh),
            battery.reserve_wh,
            useful.power_w,
            [station.hours for station in stations],
            wish.departs_s,
            wish.stop_s,
            "energy" if wish.least == "energy" else "time",
            self.finder.most_wh,
        )

    @property
    def places(self) -> StationPlaces:
        """The stations that are looked at; stops are numbers of these."""
        return self.finder.places

    def plan(self) -> ChargePlan:
        """Return the plan.

        Raises:
            InfeasibleError: if there is none; it says what would be needed.
        """
        self.finder.require_way()
        quantile = float(ndtri(self._wish.probability))
        try:
            best = self._best(quantile)
        except CapacityError as error:
            msg = "no plan was found in time; give more charge, or a smaller probability"
            raise InfeasibleError(msg) from error
        if best is None and self.finder.left_out:  # what was left out may help
            return Planner(self._search, self._wish, self._all, 4 * self.finder.most_places).plan()
        if best is None or best.seconds > _LONGEST_S:
            raise self._none(quantile)
        return best

    def _best(self, quantile: float) -> ChargePlan | None:
        """Return the best plan of all margins, if there is one."""
        best, bound = self._direct(), 0.0
        if not self.finder.is_large:
            cheapest = best_stops(
                self._problem, self.finder.legs_from, self.finder.least_ahead(0.0)
            )
            if cheapest is None:
                return best
            bound = cheapest.price
        hopeless: set[tuple[int, int, int]] = set()  # whatever else is done
        tried: set[StopPlan] = set()
        for share in _MARGINS:
            if best is not None and (self.finder.is_large or best.price <= CLOSE_ENOUGH * bound):
                break
            avoided: set[tuple[int, int, int]] = set()  # to see what else there is
            for _ in range(_MOST_CUTS):
                shut, margin = frozenset(hopeless | avoided), share * quantile
                ahead = self.finder.least_ahead(margin)
                found = best_stops(self._problem, self.finder.legs_from, ahead, margin, shut)
                if found is None or found in tried or len(tried) >= self._most_driven:
                    break
                tried.add(found)
                plan, (worst, never) = self._driven(found)
                if plan is not None:
                    best = plan if best is None or plan.price < best.price else best
                    break
                (hopeless if never else avoided).add(worst)
        return best

    def _direct(self) -> ChargePlan | None:
        """Return the best way without a stop, if the charge lasts on one."""
        legs, best = self.finder.legs_from(START), None
        have = self._problem.charge_wh - self._problem.reserve_wh
        for way in range(len(self.finder.prices)):
            if not legs.seconds[way, -1] < np.inf or legs.needs_wh(0.0)[way, -1] > have:
                continue
            plan, _ = self._driven(StopPlan((), (way,), 0.0))
            if plan is not None and (best is None or plan.price < best.price):
                best = plan
        return best

    @property
    def _most_driven(self) -> int:
        return _MOST_DRIVEN if self.finder.is_large else _MOST_CUTS * len(_MARGINS)

    def _driven(
        self, found: StopPlan
    ) -> tuple[ChargePlan | None, tuple[tuple[int, int, int], bool]]:
        """Return the plan of a sequence of stops, if it lasts, and its worst leg."""
        places = (START, *found.stops)
        goals = (*found.stops, self._problem.size)
        legs = [
            self.finder.path(place, way, end)
            for place, way, end in zip(places, found.ways, goals, strict=True)
        ]
        sizes = np.array([leg.size for leg in legs])
        edges = np.concatenate(legs)
        mean, covariance = self._search.posterior.along(edges, self._search.drivetrain)
        draws = Draws.of(mean, covariance, sizes, self._n_draws)
        leaves, worst = self._leaves(found, draws), self._worst(found, draws)
        if leaves is None:
            return None, worst
        least, probability = leaves
        charges, took = leave_levels(self._problem, found.stops, draws.expected_wh, least)
        stops, clock, charge = [], 0.0, self._problem.charge_wh
        seconds = [float(self._search.seconds[leg].sum()) for leg in legs]
        for number, stop in enumerate(found.stops):
            clock += seconds[number]
            charge = min(charge - float(draws.expected_wh[number]), self._wish.curve.capacity_wh)
            wait = float(self._problem.waiting_s(stop, np.array([clock]))[0])
            stops.append(
                ChargeStop(stop, charge, float(charges[number]), float(took[number]), wait)
            )
            clock += wait + self._wish.stop_s + float(took[number])
            charge = max(charge, float(charges[number]))
        clock += seconds[-1]
        route = self._search.predicted(edges)
        price = clock if self._wish.least != "energy" else route.mean_wh
        spread = since_stops(covariance, sizes)
        ends = np.cumsum(sizes)
        plan = ChargePlan(route, ends, tuple(stops), probability, clock, price, spread)
        return plan, worst

    @property
    def _n_draws(self) -> int:
        """How many drives are driven in thought: more where few of them may fail."""
        return _MANY if self._wish.probability > _VERY_SURE else DRAWS

    def _leaves(self, found: StopPlan, draws: "Draws") -> tuple[Vector, float] | None:
        """Return with what to leave stops at least, and how likely the charge lasts then."""
        battery, wanted = self._wish.battery, self._wish.probability
        # chosen and judged by the same draws: some of an error more
        share = 0.5 if self._n_draws == DRAWS else 1.0
        wanted += share * np.sqrt(wanted * (1 - wanted) / self._n_draws)
        capacity = self._wish.curve.capacity_wh
        needs = draws.needs_wh[1:]

        def at(share: float) -> tuple[Vector, float]:
            need = np.quantile(needs, share, axis=1) if len(needs) else np.empty(0)
            least = np.minimum(battery.reserve_wh + need, capacity)
            charges = least
            if found.stops:
                charges, _ = leave_levels(self._problem, found.stops, draws.expected_wh, least)
            return least, draws.lasting(battery, charges)

        least, probability = at(1.0)
        if probability < min(wanted, 1.0):
            full = np.full(len(found.stops), capacity)
            probability = draws.lasting(battery, full)
            return (full, probability) if probability >= wanted else None
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS if found.stops else 0):
            middle = (low + high) / 2
            some, lasting = at(middle)
            if lasting >= wanted:
                high, least, probability = middle, some, lasting
            else:
                low = middle
        return least, probability

    def _worst(self, found: StopPlan, draws: "Draws") -> tuple[tuple[int, int, int], bool]:
        """Return the leg that lasts least often, and whether it never does often enough.

        Every leg is begun with a full battery, but for the first one.
        """
        battery = self._wish.battery
        room = np.full(len(found.ways), self._wish.curve.capacity_wh - battery.reserve_wh)
        room[0] = self._problem.charge_wh - battery.reserve_wh
        lasting = (draws.needs_wh <= room[:, None]).mean(axis=1)
        worst = int(np.argmin(lasting))
        places, goals = (START, *found.stops), (*found.stops, self._problem.size)
        leg = places[worst], found.ways[worst], goals[worst]
        return leg, bool(lasting[worst] < self._wish.probability)

    def _none(self, quantile: float) -> InfeasibleError:
        """Say that there is no plan, and what would be needed."""
        battery = self._wish.battery
        have = battery.charge_wh - battery.reserve_wh
        needs = self.finder.needs_wh(START, quantile)
        surely = f"with probability {self._wish.probability:g}"
        if not self._problem.size:
            return InfeasibleError(
                f"no plan: there are no charging stations on the way, and getting there takes "
                f"{needs[-1]:,.0f} Wh {surely}; {have:,.0f} Wh are in the battery above the reserve"
            )
        if needs.min() > have:
            return InfeasibleError(
                f"no plan: even the closest charging station takes {needs.min():,.0f} Wh {surely}; "
                f"{have:,.0f} Wh are in the battery above the reserve"
            )
        room = self._wish.curve.capacity_wh - battery.reserve_wh
        reached = [place for place in self.finder.asked if place != START][:_MOST_ASKED]
        gaps = [self.finder.needs_wh(place, quantile) for place in reached] or [needs]
        beyond = np.delete(np.array(gaps), reached, axis=1)
        least = float(beyond[beyond > room].min(initial=np.inf))
        gap = f"{least:,.0f} Wh" if np.isfinite(least) else "more"
        return InfeasibleError(
            f"no plan: from the charging stations that can be reached the next one, or the goal, "
            f"takes {gap} {surely}; the battery holds {room:,.0f} Wh above the reserve. A larger "
            "battery, a smaller reserve or probability, or another station would be needed"
        )
