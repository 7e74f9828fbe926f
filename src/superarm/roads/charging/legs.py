"""Legs of plans: ways between the start, charging stations and the goal, and what they take."""

from dataclasses import dataclass, replace

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.compiling import compiled
from superarm.oracles.reach import Tree
from superarm.pausing import computed_once
from superarm.roads.battery import Battery
from superarm.roads.charging import ChargingCurve, Legs, StationPlaces
from superarm.roads.charging.stops import START
from superarm.roads.network.access import CLOSED, Marks
from superarm.roads.routing.search import Search
from superarm.roads.routing.trees import Branches, Sums

MOST_PLACES, MOST_PLACES_OF_LARGE = 128, 40
"""Of more places those are looked at where a stop takes least: detour, and some charging."""

LARGE_NETWORK = 12_000
"""Edges beyond which fewer ways and stations are looked at."""

WAYS_OF_SMALL = 6
"""Ways between two places that are looked at on other networks, at most."""

_SOME_CHARGE = 0.4
_PLENTY = 5.0


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


class LegFinder:
    """Finds legs for one search and one wish; trees are grown once, whatever is asked of them."""

    def __init__(
        self, search: Search, wish: Wish, places: StationPlaces, most_places: int | None = None
    ) -> None:
        """Look at the stations that may help."""
        self._search, self._wish = search, wish
        usual = MOST_PLACES_OF_LARGE if self.is_large else MOST_PLACES
        self.most_places = usual if most_places is None else most_places
        self._legs: dict[int, Legs] = {}
        self._trees: dict[tuple[int, int], Tree] = {}
        self.left_out = False
        self.places = self._useful(places)

    @property
    def asked(self) -> list[int]:
        """The places from which legs were asked for."""
        return list(self._legs)

    def require_way(self) -> None:
        """Raise if no road leads to the goal, whatever the charge."""
        if not np.isfinite(self._ahead[0].costs[self._search.ends.start]):
            self._search.path(self._search.seconds)

    @computed_once
    def _closed(self) -> Rows:
        ends, permit = self._search.ends, self._search.permit
        permit.closed_between(ends.start, ends.goal)  # says so if an end is closed
        return np.concatenate([permit.closed, np.array(ends.closed, dtype=np.intp)])

    @computed_once
    def _costs_wh(self) -> Vector:
        costs = np.maximum(self._search.posterior.cost_wh(self._search.drivetrain), 0.0)
        costs[self._closed] = np.inf
        return costs

    @computed_once
    def _seconds(self) -> Vector:
        seconds = self._search.seconds.copy()
        seconds[self._closed] = np.inf
        return seconds

    @computed_once
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
        if self.is_large:  # of a station on a two-way road the side that is on the way
            _, first = np.unique(places.station[order], return_index=True)
            order = order[np.sort(first)]
        self.left_out = order.size > self.most_places
        return places.only(np.sort(order[: self.most_places]))

    @computed_once
    def most_wh(self) -> float:
        """A charge beyond which more is of no use: several times what the whole way takes."""
        least = self._ahead[1].costs[self._search.ends.start]
        heights = self._search.permit.network.junction_height_m
        climb = float(np.ptp(heights)) * self._wh_per_metre
        whole = least + float(self._energy_wh[self._search.ends.start]) + climb
        battery = self._wish.battery
        return float(max(battery.charge_wh, battery.reserve_wh + _PLENTY * max(whole, 1.0)))

    @computed_once
    def _wh_per_metre(self) -> float:
        """What a metre of height is worth."""
        vehicle = self._search.drivetrain.vehicle
        return vehicle.mass_kg * vehicle.gravity / (3600 * vehicle.powertrain_efficiency)

    @computed_once
    def prices(self) -> list[Vector]:
        """What edges cost by every way: seconds and energy at a price, or energy alone."""
        if self._wish.least == "energy":
            return [self._costs_wh]
        rates = 3600 / np.quantile(self._power_w, [0.5, 1.0, 0.0])
        few = [self._seconds + rates[0] * self._costs_wh]
        if self.is_large:
            return few
        more = [self._seconds + rate * self._costs_wh for rate in (*rates[1:], 3 * rates[2])]
        return [*few, self._seconds, *more, self._costs_wh]

    @computed_once
    def _power_w(self) -> Vector:
        """With how much power one charges at every place, at a middling charge."""
        middle = np.array([0.5 * self._wish.curve.capacity_wh])
        each = [float(self._wish.curve.power_w(middle, power)[0]) for power in self.places.power_w]
        return np.array(each or [self._wish.curve.points[0][1]])

    def _root(self, place: int) -> int:
        return self._search.ends.start if place == START else int(self.places.edges[place])

    def _tree(self, place: int, way: int) -> Tree:
        key = place, way
        if key not in self._trees:
            root = self._root(place)
            paths = self._search.permit.paths_of(root, begins=True)
            self._trees[key] = Tree.rationed(
                paths, self.prices[way], root, self._energy_wh, self._room_wh(place)
            )
        return self._trees[key]

    def _room_wh(self, place: int) -> float:
        """Return what may be used up on a leg, at most."""
        battery = self._wish.battery
        if place != START:
            return self._wish.curve.capacity_wh - battery.reserve_wh
        own = float(self._energy_wh[self._search.ends.start])  # counts, but not in the tree
        return battery.charge_wh - battery.reserve_wh - own

    @computed_once
    def _energy_wh(self) -> Vector:
        """The expected energy of every edge; no edge gives more back than its height is worth."""
        return self._values.energy_wh

    @computed_once
    def _goals(self) -> Rows:
        return np.append(self.places.edges, self._search.ends.goal)

    @computed_once
    def _share(self) -> float:
        paths, start = self._search.permit.paths, self._search.ends.start
        return Branches(self._search, Tree.away(paths, self.prices[0], start)).share

    def legs_from(self, place: int) -> Legs:
        """Return the legs from a place to all stops and the goal, by every way."""
        if place not in self._legs:
            ways = range(len(self.prices))
            rows = [self._along(place, self._tree(place, way)) for way in ways]
            self._legs[place] = Legs(*(np.array(part) for part in zip(*rows, strict=True)))
        return self._legs[place]

    @computed_once
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

    @property
    def is_large(self) -> bool:
        """Whether the network is so large that fewer ways and stations are looked at."""
        return self._search.permit.network.n_edges > LARGE_NETWORK

    @computed_once
    def _least_std_wh(self) -> Vector:
        """The least that deviations of roads add up to from every place to the goal."""
        stds = np.where(np.isfinite(self._costs_wh), self._values.stds_wh, np.inf)
        tree = Tree.to(self._search.permit.paths, stds, self._search.ends.goal)
        return tree.costs[self.places.edges]

    @computed_once
    def _least_wh(self) -> Vector:
        """The least energy that is to come after every place, heights included."""
        edges = self.places.edges
        left: Vector = self._ahead[1].summed(self._energy_wh)[edges] - self._energy_wh[edges]
        return left

    def least_ahead(self, margin: float) -> tuple[Vector, Vector]:
        """Return the least seconds and Wh that are to come; deviations of legs add up to more."""
        energy, spread = self._least_wh, self._search.posterior.spread
        if margin > 0 and self._wish.least == "time":
            stds = np.sqrt(self._share) * self._least_std_wh
            energy = energy + margin * np.hypot(spread * np.maximum(energy, 0.0), stds)
        return self._ahead[0].costs[self.places.edges], energy

    def needs_wh(self, place: int, quantile: float) -> Vector:
        """Return what the thriftiest legs from a place need, whatever the battery holds."""
        root = self._root(place)
        paths = self._search.permit.paths_of(root, begins=True)
        tree = Tree.away(paths, self._costs_wh, root)
        legs = Legs(*(part[None] for part in self._along(place, tree)))
        needs = np.where(np.isfinite(legs.seconds), legs.needs_wh(quantile), np.inf)
        return np.asarray(needs[0])


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
