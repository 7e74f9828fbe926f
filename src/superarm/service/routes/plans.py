r"""Trips with stops to charge, such that the charge lasts with a given probability.

Legs between stops are the cheapest paths at a few prices of energy in time. `best_stops` chooses
stops with a margin of so many deviations on every leg; then the whole sequence is driven in
thought, by joint draws of all of its edges, and every stop is left with the quantile of what its
leg needs at which all legs together last with the probability asked for. That is done for several
margins; a plan as cheap as the one without any needs no comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtri

from superarm.arrays import Matrix, Rows, Vector
from superarm.compiling import compiled
from superarm.errors import CapacityError, InfeasibleError
from superarm.gaussian import cholesky_with_jitter
from superarm.navigation.access import CLOSED, Marks
from superarm.navigation.charging import ChargingCurve, Legs, StationPlaces, Stops, best_stops
from superarm.navigation.charging.stops import START, StopPlan, leave_levels
from superarm.oracles.reach import Tree
from superarm.service.routes.battery import DRAWS, Battery, normals
from superarm.service.routes.many import Branches, Sums
from superarm.service.routes.search import Prediction, Search

MOST_PLACES, MOST_PLACES_OF_LARGE = 128, 40
"""Of more places those are looked at where a stop takes least: detour, and some charging."""

CLOSE_ENOUGH = 1.01
"""A plan that costs at most so many times the lower bound is not looked at again."""

_SMALL = 12_000
_SOME_CHARGE = 0.4
_PLENTY = 5.0
_LONGEST_S = 30 * 86_400.0
_VERY_SURE, _MANY = 0.97, 16_384
_HALVINGS = 9
_MOST_CUTS = 12
_MOST_ASKED = 16
_MOST_DRIVEN = 8  # sequences on large networks
_MARGINS = (1.0, 0.5, 0.0, 1.5)  # times the quantile of the probability


@dataclass(frozen=True, eq=False)
class Wish:
    """What is asked of a plan.

    Attributes:
        battery: at the start.
        curve: how it charges.
        probability: that the charge stays at or above the reserve, all along.
        departs_s: seconds since Monday, midnight, where the roads are.
        least: what the plan has least of, ``"time"`` or ``"energy"``.
        stop_s: what every stop takes besides charging.
    """

    battery: Battery
    curve: ChargingCurve
    probability: float = 0.95
    departs_s: float = 0.0
    least: str = "time"
    stop_s: float = 120.0


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
        usual = MOST_PLACES_OF_LARGE if self._is_large else MOST_PLACES
        self._most_places = usual if most_places is None else most_places
        self._legs: dict[int, Legs] = {}
        self._trees: dict[tuple[int, int], Tree] = {}
        self._places = self._useful(places)
        stations = [self._places.stations[one] for one in self._places.station.tolist()]
        battery = wish.battery
        self._problem = Stops(
            wish.curve,
            min(battery.charge_wh, battery.capacity_wh),
            battery.reserve_wh,
            self._places.power_w,
            [station.hours for station in stations],
            wish.departs_s,
            wish.stop_s,
            "energy" if wish.least == "energy" else "time",
            self._most_wh,
        )

    @property
    def places(self) -> StationPlaces:
        """The stations that are looked at; stops are numbers of these."""
        return self._places

    @cached_property
    def _closed(self) -> Rows:
        ends, permit = self._search.ends, self._search.permit
        permit.closed_between(ends.start, ends.goal)  # says so if an end is closed
        return np.concatenate([permit.closed, np.array(ends.closed, dtype=np.intp)])

    @cached_property
    def _costs_wh(self) -> Vector:
        costs = np.maximum(self._search.posterior.cost_wh(self._search.drivetrain), 0.0)
        costs[self._closed] = np.inf
        return costs

    @cached_property
    def _seconds(self) -> Vector:
        seconds = self._search.seconds.copy()
        seconds[self._closed] = np.inf
        return seconds

    @cached_property
    def _ahead(self) -> tuple[Tree, Tree]:
        """The fastest and the thriftiest ways to the goal; through areas of others, if need be."""
        paths, goal = self._search.permit.paths, self._search.ends.goal
        return Tree.to(paths, self._seconds, goal), Tree.to(paths, self._costs_wh, goal)

    def _useful(self, places: StationPlaces) -> StationPlaces:
        """Return the places on the way: open to the vehicle, of the least detour."""
        edges = places.edges
        fastest = Tree.away(self._search.permit.paths, self._seconds, self._search.ends.start)
        detour = fastest.costs[edges] + self._ahead[0].costs[edges]
        open_ = (self._search.permit.codes[edges] != CLOSED) & np.isfinite(detour)
        open_ &= ~np.isin(edges, self._closed)
        curve, some = self._wish.curve, _SOME_CHARGE * self._wish.curve.capacity_wh
        power, which = np.unique(places.power_w, return_inverse=True)
        slow = np.array([curve.seconds(0.0, some, float(watts)) for watts in power])
        takes = np.where(open_, detour + (slow[which] if power.size else 0.0), np.inf)
        order = np.argsort(takes, kind="stable")[: int(open_.sum())]
        if self._is_large:  # of a station on a two-way road the side that is on the way
            _, first = np.unique(places.station[order], return_index=True)
            order = order[np.sort(first)]
        self._left_out = order.size > self._most_places
        return places.only(np.sort(order[: self._most_places]))

    @cached_property
    def _most_wh(self) -> float:
        """A charge beyond which more is of no use: several times what the whole way takes."""
        least = self._ahead[1].costs[self._search.ends.start]
        heights = self._search.permit.network.junction_height_m
        climb = float(np.ptp(heights)) * self._wh_per_metre
        whole = least + float(self._energy_wh[self._search.ends.start]) + climb
        battery = self._wish.battery
        return float(max(battery.charge_wh, battery.reserve_wh + _PLENTY * max(whole, 1.0)))

    @cached_property
    def _wh_per_metre(self) -> float:
        """What a metre of height is worth."""
        vehicle = self._search.drivetrain.vehicle
        return vehicle.mass_kg * vehicle.gravity / (3600 * vehicle.powertrain_efficiency)

    @cached_property
    def _prices(self) -> list[Vector]:
        """What edges cost by every way: seconds and energy at a price, or energy alone."""
        if self._wish.least == "energy":
            return [self._costs_wh]
        rates = 3600 / np.quantile(self._power_w, [0.5, 1.0, 0.0])
        few = [self._seconds + rates[0] * self._costs_wh]
        if self._is_large:
            return few
        more = [self._seconds + rate * self._costs_wh for rate in (*rates[1:], 3 * rates[2])]
        return [*few, self._seconds, *more, self._costs_wh]

    @cached_property
    def _power_w(self) -> Vector:
        """With how much power one charges at every place, at a middling charge."""
        middle = np.array([0.5 * self._wish.curve.capacity_wh])
        each = [
            float(self._wish.curve.power_w(middle, power)[0]) for power in self._problem.power_w
        ]
        return np.array(each or [self._wish.curve.points[0][1]])

    def _root(self, place: int) -> int:
        return self._search.ends.start if place == START else int(self._places.edges[place])

    def _tree(self, place: int, way: int) -> Tree:
        key = place, way
        if key not in self._trees:
            root = self._root(place)
            paths = self._search.permit.paths_of(root, begins=True)
            self._trees[key] = Tree.rationed(
                paths, self._prices[way], root, self._energy_wh, self._room_wh(place)
            )
        return self._trees[key]

    def _room_wh(self, place: int) -> float:
        """Return what may be used up on a leg, at most."""
        battery = self._wish.battery
        if place != START:
            return self._wish.curve.capacity_wh - battery.reserve_wh
        own = float(self._energy_wh[self._search.ends.start])  # counts, but not in the tree
        return battery.charge_wh - battery.reserve_wh - own

    @cached_property
    def _energy_wh(self) -> Vector:
        """The expected energy of every edge; no edge gives more back than its height is worth."""
        return self._values.energy_wh

    @cached_property
    def _goals(self) -> Rows:
        return np.append(self._places.edges, self._search.ends.goal)

    @cached_property
    def _share(self) -> float:
        paths, start = self._search.permit.paths, self._search.ends.start
        return Branches(self._search, Tree.away(paths, self._prices[0], start)).share

    def legs_from(self, place: int) -> Legs:
        """Return the legs from a place to all stops and the goal, by every way."""
        if place not in self._legs:
            rows = [self._by(place, way) for way in range(len(self._prices))]
            self._legs[place] = Legs(*(np.array(part) for part in zip(*rows, strict=True)))
        return self._legs[place]

    def _by(self, place: int, way: int) -> tuple[Vector, Vector, Vector, Vector]:
        return self._along(place, self._tree(place, way))

    @cached_property
    def _values(self) -> Sums:
        believed, drivetrain = (
            Branches(self._search, self._ahead[0]).values,
            self._search.drivetrain,
        )
        cost = np.maximum(believed.cost_wh, 0.0)
        return replace(believed, cost_wh=cost, energy_wh=cost + drivetrain.potential_wh)

    def _along(self, place: int, tree: Tree) -> tuple[Vector, Vector, Vector, Vector]:
        values, spread = self._values, self._search.posterior.spread
        skip = place != START  # who stops has driven that edge already
        found = _along(
            tree.onward, np.isfinite(tree.costs), self._goals, skip, values.seconds,
            values.energy_wh, values.cost_wh, values.stds_wh, values.variance + values.noise,
        )  # fmt: skip
        seconds, energy, dip, cost, stds, variance = found
        shared = spread * np.maximum(np.abs(energy), np.abs(cost))
        wide = np.sqrt(self._share * stds**2 + (1 - self._share) * variance + shared**2)
        return seconds, energy, dip, wide

    def path(self, place: int, way: int, end: int) -> Rows:
        """Return the edges of a leg; that of the place it begins at was driven before."""
        edges = self._tree(place, way).path(int(self._goals[end]))
        return edges if place == START else edges[1:]

    def plan(self) -> ChargePlan:
        """Return the plan.

        Raises:
            InfeasibleError: if there is none; it says what would be needed.
        """
        quantile = float(ndtri(self._wish.probability))
        try:
            best = self._best(quantile)
        except CapacityError as error:
            msg = "no plan was found in time; give more charge, or a smaller probability"
            raise InfeasibleError(msg) from error
        if best is None and self._left_out:  # what was left out may help
            return Planner(self._search, self._wish, self._all, 4 * self._most_places).plan()
        if best is None or best.seconds > _LONGEST_S:
            raise self._none(quantile)
        return best

    def _best(self, quantile: float) -> ChargePlan | None:
        """Return the best plan of all margins, if there is one."""
        best, bound = self._direct(), 0.0
        if not self._is_large:
            cheapest = best_stops(self._problem, self.legs_from, self._least_ahead(0.0))
            if cheapest is None:
                return best
            bound = cheapest.price
        hopeless: set[tuple[int, int, int]] = set()  # whatever else is done
        tried: set[StopPlan] = set()
        for share in _MARGINS:
            if best is not None and (self._is_large or best.price <= CLOSE_ENOUGH * bound):
                break
            avoided: set[tuple[int, int, int]] = set()  # to see what else there is
            for _ in range(_MOST_CUTS):
                shut, margin = frozenset(hopeless | avoided), share * quantile
                ahead = self._least_ahead(margin)
                found = best_stops(self._problem, self.legs_from, ahead, margin, shut)
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
        legs, best = self.legs_from(START), None
        have = self._problem.charge_wh - self._problem.reserve_wh
        for way in range(len(self._prices)):
            if not legs.seconds[way, -1] < np.inf or legs.needs_wh(0.0)[way, -1] > have:
                continue
            plan, _ = self._driven(StopPlan((), (way,), 0.0))
            if plan is not None and (best is None or plan.price < best.price):
                best = plan
        return best

    @property
    def _most_driven(self) -> int:
        return _MOST_DRIVEN if self._is_large else _MOST_CUTS * len(_MARGINS)

    @property
    def _is_large(self) -> bool:
        return self._search.permit.network.n_edges > _SMALL

    @cached_property
    def _least_std_wh(self) -> Vector:
        """The least that deviations of roads add up to from every place to the goal."""
        stds = np.where(np.isfinite(self._costs_wh), self._values.stds_wh, np.inf)
        tree = Tree.to(self._search.permit.paths, stds, self._search.ends.goal)
        return tree.costs[self._places.edges]

    @cached_property
    def _least_wh(self) -> Vector:
        """The least energy that is to come after every place, heights included."""
        edges = self._places.edges
        left: Vector = self._ahead[1].summed(self._energy_wh)[edges] - self._energy_wh[edges]
        return left

    def _least_ahead(self, margin: float) -> tuple[Vector, Vector]:
        """Return the least seconds and Wh that are to come; deviations of legs add up to more."""
        energy, spread = self._least_wh, self._search.posterior.spread
        if margin > 0 and self._wish.least == "time":
            stds = np.sqrt(self._share) * self._least_std_wh
            energy = energy + margin * np.hypot(spread * np.maximum(energy, 0.0), stds)
        return self._ahead[0].costs[self._places.edges], energy

    def _driven(
        self, found: StopPlan
    ) -> tuple[ChargePlan | None, tuple[tuple[int, int, int], bool]]:
        """Return the plan of a sequence of stops, if it lasts, and its worst leg."""
        places = (START, *found.stops)
        goals = (*found.stops, self._problem.size)
        legs = [
            self.path(place, way, end)
            for place, way, end in zip(places, found.ways, goals, strict=True)
        ]
        sizes = np.array([leg.size for leg in legs])
        edges = np.concatenate(legs)
        mean, covariance = self._search.posterior.along(edges, self._search.drivetrain)
        draws = _Draws.of(mean, covariance, sizes, self._n_draws)
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
        spread = _since_stops(covariance, sizes)
        ends = np.cumsum(sizes)
        plan = ChargePlan(route, ends, tuple(stops), probability, clock, price, spread)
        return plan, worst

    @property
    def _n_draws(self) -> int:
        """How many drives are driven in thought: more where few of them may fail."""
        return _MANY if self._wish.probability > _VERY_SURE else DRAWS

    def _leaves(self, found: StopPlan, draws: "_Draws") -> tuple[Vector, float] | None:
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

    def _worst(self, found: StopPlan, draws: "_Draws") -> tuple[tuple[int, int, int], bool]:
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
        needs = self._needs_wh(START, quantile)
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
        reached = [place for place in self._legs if place != START][:_MOST_ASKED]
        gaps = [self._needs_wh(place, quantile) for place in reached] or [needs]
        beyond = np.delete(np.array(gaps), reached, axis=1)
        least = float(beyond[beyond > room].min(initial=np.inf))
        gap = f"{least:,.0f} Wh" if np.isfinite(least) else "more"
        return InfeasibleError(
            f"no plan: from the charging stations that can be reached the next one, or the goal, "
            f"takes {gap} {surely}; the battery holds {room:,.0f} Wh above the reserve. A larger "
            "battery, a smaller reserve or probability, or another station would be needed"
        )

    def _needs_wh(self, place: int, quantile: float) -> Vector:
        """Return what the thriftiest legs from a place need, whatever the battery holds."""
        root = self._root(place)
        paths = self._search.permit.paths_of(root, begins=True)
        tree = Tree.away(paths, self._costs_wh, root)
        legs = Legs(*(part[None] for part in self._along(place, tree)))
        needs = np.where(np.isfinite(legs.seconds), legs.needs_wh(quantile), np.inf)
        return np.asarray(needs[0])


@dataclass(frozen=True, eq=False)
class _Draws:
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
    def of(cls, mean: Vector, covariance: Matrix, sizes: Rows, count: int = DRAWS) -> "_Draws":
        factor = cholesky_with_jitter(covariance)
        if count == DRAWS:
            chance = normals(mean.size)
        else:
            chance = np.random.default_rng(0).standard_normal((mean.size, count))
        energies = mean[:, None] + factor @ chance
        starts = np.cumsum(sizes) - sizes
        needs = [
            np.maximum(np.cumsum(part, axis=0).max(axis=0), 0.0) if part.size else np.zeros(count)
            for part in np.split(energies, starts[1:])
        ]
        expected = np.array([part.sum() for part in np.split(mean, starts[1:])])
        return cls(energies, starts, expected, np.array(needs))

    def lasting(self, battery: Battery, leaves_wh: Sequence[float] | Vector) -> float:
        """Return how often the charge lasts if stops are left with so much at least."""
        return share_lasting(self.energies_wh, self.starts, battery, np.asarray(leaves_wh))


def _since_stops(covariance: Matrix, sizes: Rows) -> Vector:
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
    lasts = _lasting(
        energies,
        starts,
        battery.charge_wh,
        battery.capacity_wh,
        battery.reserve_wh,
        np.asarray(leaves_wh, dtype=np.float64),
    )
    return float(lasts.mean())


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


@compiled
def _along(  # noqa: PLR0913, PLR0917 - a tree and what is summed along it
    onward: Rows,
    known: Marks,
    goals: Rows,
    skip: bool,  # noqa: FBT001 - compiled
    seconds: Vector,
    energy: Vector,
    cost: Vector,
    stds: Vector,
    variance: Vector,
) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector]:
    """Return sums along paths of a tree to some edges, and the most that is used up on the way."""
    size = goals.size
    found = np.zeros((6, size))
    for number in range(size):
        row = goals[number]
        if not known[row]:
            found[0, number] = np.inf
            continue
        dip = 0.0
        while row >= 0:
            if skip and onward[row] < 0:
                break
            found[0, number] += seconds[row]
            found[1, number] += energy[row]
            dip = max(0.0, energy[row] + dip)
            found[3, number] += cost[row]
            found[4, number] += stds[row]
            found[5, number] += variance[row]
            row = onward[row]
        found[2, number] = dip
    return found[0], found[1], found[2], found[3], found[4], found[5]


@lru_cache(1)
def prepare() -> None:
    """Compile what plans need: the first question shall not wait for it."""
    few = np.zeros((1, 2))
    _lasting(few, np.zeros(1, dtype=np.intp), 1.0, 1.0, 0.0, np.empty(0))
