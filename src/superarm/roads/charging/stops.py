r"""Which stops to make: least time or energy such that the charge never falls below the reserve.

A label holds, for one place and every charge c on a grid, the least price of being there with that
charge. A leg moves it by what the leg takes (rounded up to the grid, with a margin of so many
deviations); charging at a stop goes from c to d for the time :math:`F(d) - F(c)` of its curve, so
that :math:`T(d) = F(d) + \min_{c \le d} (A(c) - F(c))`. Places are looked at in the order of the
least price to the goal they can still have, and legs are asked for only from places that come up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.compiling import compiled
from superarm.errors import CapacityError
from superarm.pausing import pause
from superarm.roads.battery import LEAST_ROOM_WH, ChargingCurve
from superarm.roads.charging.hours import OpeningHours

Least = Literal["time", "energy"]
"""What a plan has least of."""

START = -1
"""The place where a trip begins, beside the numbers of stops."""

_LEVELS = 400
_SAME = 1e-9
_MOST_STOPS = 64
_MOST_LOOKS = 20_000  # far beyond what any trip takes
_STOP_WH = 1.0  # of two plans of the same energy, that of fewer stops


@dataclass(frozen=True, eq=False)
class Legs:
    """From one place to all stops and, in the last column, the goal; by w ways each, shape (w, m).

    Attributes:
        seconds: expected, shape (w, k + 1), w ways; infinite where nothing leads.
        energy_wh: expected, shape (w, k + 1).
        dip_wh: the most that is ever used up on the way, expected; shape (w, k + 1).
        std_wh: deviation of the energy, shape (w, k + 1).
    """

    seconds: Matrix
    energy_wh: Matrix
    dip_wh: Matrix
    std_wh: Matrix

    def needs_wh(self, margin: float) -> Matrix:
        """Return what must be there at the beginning, with a margin of so many deviations."""
        need: Matrix = np.maximum(self.dip_wh, self.energy_wh) + margin * self.std_wh
        return np.maximum(need, 0.0)


@dataclass(frozen=True, eq=False)
class Stops:
    """Where one may charge on a trip, and with what.

    Attributes:
        curve: of the battery.
        charge_wh: at the start.
        reserve_wh: what shall always stay in.
        power_w: of every stop, shape (s,).
        hours: of every stop.
        departs_s: seconds since Monday, midnight.
        stop_s: what every stop takes besides charging.
        least: what the plan has least of.
        most_wh: more charge than this is of no use, whatever the capacity.
    """

    curve: ChargingCurve
    charge_wh: float
    reserve_wh: float
    power_w: Vector
    hours: Sequence[OpeningHours]
    departs_s: float = 0.0
    stop_s: float = 120.0
    least: Least = "time"
    most_wh: float = np.inf

    def __post_init__(self) -> None:
        """Refuse a battery that holds next to nothing above the reserve."""
        room = self.curve.capacity_wh - self.reserve_wh
        if not room >= LEAST_ROOM_WH:
            msg = f"the battery holds {room:g} Wh above the reserve; {LEAST_ROOM_WH:g} are needed"
            raise ValueError(msg)

    @property
    def top_wh(self) -> float:
        """The highest charge that is looked at."""
        most = max(self.most_wh, self.reserve_wh + LEAST_ROOM_WH)
        return min(self.curve.capacity_wh, most)

    @property
    def size(self) -> int:
        """How many stops there are."""
        return self.power_w.size

    @cached_property
    def levels_wh(self) -> Vector:
        """The charges of the grid, from the reserve to the capacity."""
        return np.linspace(self.reserve_wh, self.top_wh, _LEVELS + 1)

    @cached_property
    def _times(self) -> dict[float, Vector]:
        return {}

    def charging_s(self, stop: int) -> Vector:
        """Return the time of charging to every level; stops of one power share it."""
        power = float(self.power_w[stop])
        if power not in self._times:
            self._times[power] = self.curve.seconds_to(self.levels_wh, power)
        return self._times[power]

    def waiting_s(self, stop: int, after_s: Vector) -> Vector:
        """Return how long the gate is closed for who comes so long after the departure."""
        if self.hours[stop].always:
            return np.zeros_like(after_s)
        known = np.where(np.isfinite(after_s), after_s, 0.0)
        return self.hours[stop].wait_s(self.departs_s + known)


@dataclass(frozen=True)
class StopPlan:
    """A sequence of stops.

    Attributes:
        stops: their numbers, in order.
        ways: which way of the legs between is taken, one more than stops.
        price: seconds, or Wh, in all.
    """

    stops: tuple[int, ...]
    ways: tuple[int, ...]
    price: float


def best_stops(
    problem: Stops,
    legs_from: Callable[[int], Legs],
    ahead: tuple[Vector, Vector],
    margin: float = 0.0,
    forbidden: frozenset[tuple[int, int, int]] = frozenset(),
) -> StopPlan | None:
    """Return the best stops, or nothing if none lead to the goal.

    Args:
        problem: stops and battery.
        legs_from: the legs from a stop, or from `START`.
        ahead: of every stop the least seconds that are still to come, and the least Wh, expected
            or with the margin.
        margin: of legs, in deviations.
        forbidden: legs not to use, as (from, way, to).
    """
    return _Search(problem, legs_from, ahead, margin, forbidden).plan()


class _Search:
    """Labels of all places."""

    def __init__(
        self,
        problem: Stops,
        legs_from: Callable[[int], Legs],
        ahead: tuple[Vector, Vector],
        margin: float,
        forbidden: frozenset[tuple[int, int, int]],
    ) -> None:
        size = problem.size
        self._problem, self._legs_from, self._margin = problem, legs_from, margin
        self._ahead, self._forbidden = ahead, forbidden
        self._arrive = np.full((size + 1, _LEVELS + 1), np.inf)
        self._least = np.full((size + 1, _LEVELS + 1), np.inf)  # with that charge or more
        self._leave = np.full((size, _LEVELS + 1), np.inf)
        self._fresh = np.full((size, _LEVELS + 1), np.inf)  # what is better than it was
        self._charged_from = np.zeros((size, _LEVELS + 1), dtype=np.intp)
        # who led there: the place before, by which way, and the level it was left with
        self._before = np.full((3, size + 1, _LEVELS + 1), START, dtype=np.intp)
        self._step = float(problem.levels_wh[1] - problem.levels_wh[0])
        self._room_wh = problem.top_wh - problem.reserve_wh
        fastest = max((float(power) for power in problem.power_w), default=1.0)
        power = problem.curve.power_w(problem.levels_wh, fastest)
        each = problem.curve.seconds_to(problem.levels_wh, fastest)
        if (np.diff(power) > 0).any():  # a curve that speeds up: as if it were fastest everywhere
            each = 3600 * problem.levels_wh / float(power.max())
        self._fastest_s = each - each[0]

    def _least_s(self, missing_wh: Vector) -> Vector:
        """Return the time that charging so much takes at least, stops included.

        However many stops there are: none is better off than one that comes empty to the fastest
        station, and since charging slows down, equal parts are best.
        """
        problem, least = self._problem, np.full(missing_wh.size, np.inf)
        most = min(max(int(np.ceil(float(missing_wh.max()) / self._room_wh)), 1), _MOST_STOPS)
        for count in range(1, most + 6):
            part = missing_wh / count
            took = np.interp(part, problem.levels_wh - problem.reserve_wh, self._fastest_s)
            took = np.where(part <= self._room_wh, count * (took + problem.stop_s), np.inf)
            least = np.minimum(least, took)
        # more stops than were tried: each takes its time, and none charges faster than at first
        rate = float(self._fastest_s[1] / self._step)
        least = np.minimum(least, (most + 6) * problem.stop_s + missing_wh * rate)
        return np.where(missing_wh > 0, least, 0.0)

    def plan(self) -> StopPlan | None:
        problem, goal = self._problem, self._problem.size
        if problem.charge_wh < problem.reserve_wh:
            return None
        begin = np.full(_LEVELS + 1, np.inf)
        whole = (problem.charge_wh - problem.reserve_wh) / self._step
        begin[min(int(whole * (1 + 1e-12)), _LEVELS)] = 0.0  # at most what is of use
        keys = np.full(goal, np.inf)
        self._go_on(START, begin, keys)
        for _ in range(_MOST_LOOKS):
            pause()
            best = float(self._arrive[goal].min())
            stop = int(np.argmin(keys)) if goal else 0
            if not goal or not keys[stop] < best:
                return None if np.isinf(best) else self._followed(best)
            keys[stop] = np.inf
            fresh = self._fresh[stop].copy()
            self._fresh[stop] = np.inf
            self._go_on(stop, fresh, keys)
        msg = f"no plan was found after looking at stops {_MOST_LOOKS:,} times"
        raise CapacityError(msg)

    def _go_on(self, place: int, leave: Vector, keys: Vector) -> None:
        """Take the legs from a place, and charge where they lead."""
        legs = self._legs_from(place)
        needs = legs.needs_wh(self._margin)
        price = legs.seconds if self._problem.least == "time" else legs.energy_wh
        drawn = legs.energy_wh + self._margin * legs.std_wh
        for way in range(price.shape[0]):
            cost = np.where(np.isfinite(legs.seconds[way]), price[way], np.inf)
            for start, by, end in self._forbidden:
                if (start, by) == (place, way):
                    cost[end] = np.inf
            better = _moved(
                leave,
                cost,
                _cells(drawn[way] / self._step),
                _cells(needs[way] / self._step),
                self._arrive,
                self._least,
                self._before,
                place,
                way,
            )
            for stop in np.flatnonzero(better[:-1]):
                self._charge(int(stop), keys)

    def _charge(self, stop: int, keys: Vector) -> None:
        problem = self._problem
        arrive = self._arrive[stop]
        if problem.least == "time":
            arrive = arrive + problem.waiting_s(stop, arrive) + problem.stop_s
            times = problem.charging_s(stop)
        else:
            arrive, times = arrive + _STOP_WH, np.zeros(_LEVELS + 1)
        leave, charged = _charged(arrive, times)
        better = leave < self._leave[stop] - _SAME
        if not better.any():
            return
        self._leave[stop], self._charged_from[stop] = leave, charged
        self._fresh[stop][better] = leave[better]
        seconds, energy = (float(values[stop]) for values in self._ahead)
        if problem.least == "time":  # what is missing must be charged, at best at full power
            missing = np.maximum(energy - (problem.levels_wh - problem.reserve_wh), 0.0)
            still = seconds + self._least_s(missing)
        else:
            still = np.full(_LEVELS + 1, energy)
        keys[stop] = min(keys[stop], float((self._fresh[stop] + still).min()))

    def _followed(self, best: float) -> StopPlan:
        place, level = self._problem.size, int(np.argmin(self._arrive[self._problem.size]))
        stops: list[int] = []
        ways: list[int] = []
        while True:
            before, way, left = (int(part[place, level]) for part in self._before)
            ways.append(way)
            if before == START:
                return StopPlan(tuple(stops[::-1]), tuple(ways[::-1]), best)
            stops.append(before)
            place, level = before, int(self._charged_from[before, left])


def _cells(amount: Vector) -> Rows:
    """Return amounts rounded up to whole cells; what rounding adds to whole ones does not count."""
    finite = np.where(np.isfinite(amount), amount, 0.0)
    return np.ceil(finite - 1e-9 * np.maximum(np.abs(finite), 1.0)).astype(np.intp)


@compiled
def _moved(  # noqa: PLR0913, PLR0917 - a label, legs, and where they lead
    leave: Vector,
    cost: Vector,
    drawn: Rows,
    needed: Rows,
    arrive: Matrix,
    least: Matrix,
    before: np.ndarray[tuple[int, int, int], np.dtype[np.intp]],
    place: int,
    way: int,
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Take legs from a place, wherever they lead to a better label; say where they do.

    Who comes with more charge for no higher price is better off.
    """
    better = np.zeros(cost.size, np.bool_)
    top = leave.size - 1
    for end in range(cost.size):
        if end == place or not np.isfinite(cost[end]):
            continue
        for level in range(top, max(needed[end], 0) - 1, -1):
            price = leave[level] + cost[end]
            left = min(max(level - drawn[end], 0), top)
            if price < least[end, left] - _SAME:
                arrive[end, left] = price
                before[0, end, left], before[1, end, left] = place, way
                before[2, end, left] = level
                better[end] = True
                lower = left
                while lower >= 0 and least[end, lower] > price:
                    least[end, lower] = price
                    lower -= 1
    return better


@compiled
def _charged(arrive: Vector, times: Vector) -> tuple[Vector, Rows]:
    """Return the least price of leaving with every charge, and the one it was charged from."""
    leave = np.full(arrive.size, np.inf)
    source = np.zeros(arrive.size, np.intp)
    least, origin = np.inf, 0
    for level in range(arrive.size):
        if arrive[level] - times[level] < least:
            least, origin = arrive[level] - times[level], level
        leave[level], source[level] = least + times[level], origin
    return leave, source


def leave_levels(
    problem: Stops, stops: Sequence[int], drawn_wh: Vector, least_wh: Vector
) -> tuple[Vector, Vector]:
    """Return with which charges to leave the stops of a sequence, and how long each one charges.

    The least charging time in all such that no stop is left with less than it must be: where one
    charges faster, more is taken on for later.

    Args:
        problem: battery and stops.
        stops: in order.
        drawn_wh: what the leg before every stop takes, expected, shape (k,).
        least_wh: what every stop must be left with at least, shape (k,).
    """
    capacity = problem.curve.capacity_wh
    arrive = np.array([min(problem.charge_wh - drawn_wh[0], capacity)])
    price = np.zeros(1)
    trail: list[tuple[Vector, Vector, Rows]] = []
    for number, stop in enumerate(stops):
        power = float(problem.power_w[stop])
        low = float(least_wh[number])
        grid = np.unique(np.concatenate([np.linspace(low, capacity, 161), arrive[arrive >= low]]))
        there = problem.curve.seconds_to(np.clip(arrive, 0.0, capacity), power)
        goal = problem.curve.seconds_to(np.clip(grid, 0.0, capacity), power)
        longer = np.maximum(goal[:, None] - there[None, :], 0.0)
        total = np.where(grid[:, None] >= arrive[None, :] - 1e-9, price[None, :] + longer, np.inf)
        source = total.argmin(axis=1)
        price = total[np.arange(grid.size), source]
        trail.append((grid, arrive, source))
        if number + 1 < len(stops):
            arrive = np.minimum(grid - drawn_wh[number + 1], capacity)
    place = int(np.argmin(price))
    leaves, took = np.empty(len(stops)), np.empty(len(stops))
    for number in range(len(stops) - 1, -1, -1):
        grid, came, source = trail[number]
        leaves[number], before = grid[place], came[source[place]]
        power = float(problem.power_w[stops[number]])
        took[number] = problem.curve.seconds(float(before), float(grid[place]), power)
        place = int(source[place])
    return leaves, took
