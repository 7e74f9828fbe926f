"""Routes that a vehicle may take: on roads and turns open to it, through no area of others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.errors import CapacityError, InfeasibleError, NumericalError
from superarm.oracles import Dijkstra, Paths
from superarm.oracles.fronts import FrontRoute, front
from superarm.roads.network.access import CLOSED, Codes, is_heavy, zones_of
from superarm.roads.network.network import RoadNetwork
from superarm.roads.vehicle import Vehicle

__all__ = ["Permit", "Permits"]

_MOST_KEPT = 32
_CLOSED = 16.0
_MOST_LABELS = 1_000_000  # a fifth of a second
_PRICES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Permit:
    """What a vehicle may do on a network.

    Attributes:
        network: the roads.
        vehicle: for which.
        paths: over the turns it may take, between any two edges.
        codes: what every edge is to it, see `superarm.roads.network.access`.
    """

    network: RoadNetwork
    vehicle: Vehicle
    paths: Paths
    codes: Codes

    @staticmethod
    def of(network: RoadNetwork, vehicle: Vehicle) -> "Permit":
        """Return the permit of a vehicle."""
        access = network.access
        turns = network.turns[access.turns_for(vehicle)]
        start, goal = turns[0] if turns.size else (0, 0)
        paths = Paths.on_turns(network.n_edges, turns, int(start), int(goal))
        return Permit(network, vehicle, paths, access.edges_for(vehicle))

    @cached_property
    def zones(self) -> Rows:
        """Which area of those who begin or end there every edge lies in; -1 in none."""
        return zones_of(self.codes, self.network.turns)

    @cached_property
    def _closed(self) -> Rows:
        return np.flatnonzero(self.codes == CLOSED)

    @cached_property
    def _in_zones(self) -> Rows:
        return np.flatnonzero(self.zones >= 0)

    def closed_between(self, start: int, goal: int) -> Rows:
        """Return the edges that a route between two edges must not use.

        Raises:
            InfeasibleError: if one of the two is closed to the vehicle.
        """
        for name, edge in (("start", start), ("goal", goal)):
            if self.codes[edge] == CLOSED:
                msg = (
                    f"the {name}, edge {str(self.network.edge_ids[edge])!r}, is closed to "
                    f"{self.described}; choose another"
                )
                raise InfeasibleError(msg)
        if not self._in_zones.size:
            return self._closed
        ends = self.zones[[start, goal]]
        others = self._in_zones[~np.isin(self.zones[self._in_zones], ends[ends >= 0])]
        return np.concatenate([self._closed, others])

    def paths_of(self, root: int, *, begins: bool) -> Paths:
        """Return paths that begin at an edge, or end there, wherever their other ends are.

        Areas of those who begin or end there are no way through: who has driven into one stays in
        it, and who comes out of one does not go into another, but for the area of the edge itself.

        Args:
            root: the edge that is known.
            begins: whether paths begin there.
        """
        if not self._in_zones.size:
            return self.paths
        key = int(self.zones[root]), begins
        if key not in self._known:
            tails, heads = (self.zones[ends] for ends in self.network.turns.T)
            inside, outside = (tails, heads) if begins else (heads, tails)
            may = (inside < 0) | (inside == outside) | (inside == key[0])
            may &= self.network.access.turns_for(self.vehicle)
            turns = self.network.turns[may]
            ends = (int(turns[0, 0]), int(turns[0, 1])) if turns.size else (root, root)
            while len(self._known) >= _MOST_KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = Paths.on_turns(self.network.n_edges, turns, *ends)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, bool], Paths]:
        return {}

    @property
    def closed(self) -> Rows:
        """The edges that are closed to the vehicle."""
        return self._closed

    def cheapest(self, costs: Vector, start: int, goal: int, closed: Sequence[int] = ()) -> Rows:
        """Return the cheapest path that the vehicle may drive.

        Args:
            costs: of every edge, not negative, shape (n,).
            start: position of the first edge; it counts.
            goal: position of the last one.
            closed: edges not to use, besides.

        Raises:
            InfeasibleError: if there is none.
        """
        shut = np.concatenate([np.array(closed, dtype=np.intp), self.closed_between(start, goal)])
        if shut.size:  # dearer than all open edges together, whatever they cost
            costs = costs.copy()
            costs[shut] = _CLOSED * max(float(costs.sum()), 1.0)
        try:
            rows = Dijkstra().select(self.paths.between(start, goal), -costs)
            found = not np.isin(rows, shut).any()
        except NumericalError:  # nothing leads there
            found = False
        if not found:
            raise self._unreachable(start, goal)
        return np.asarray(rows, dtype=np.intp)

    def front(  # noqa: PLR0913, PLR0917 - two costs and two ends
        self,
        first: Vector,
        second: Vector,
        start: int,
        goal: int,
        closed: Sequence[int] = (),
        share: float = 0.0,
    ) -> list[FrontRoute]:
        """Return paths the vehicle may drive that no other one beats in both costs.

        See `superarm.oracles.fronts.front`; ends and closed edges are as in `cheapest`. On networks
        where there are too many such paths only those are returned that are cheapest for some price
        of one cost in the other.
        """
        shut = np.concatenate([np.array(closed, dtype=np.intp), self.closed_between(start, goal)])
        open_first = first.copy()
        open_first[shut] = np.inf
        paths = self.paths.between(start, goal)
        try:
            return front(paths, open_first, second, share, _MOST_LABELS)
        except CapacityError:
            return self._supported(first, second, start, goal, closed)
        except InfeasibleError as error:
            raise self._unreachable(start, goal) from error

    def _supported(
        self, first: Vector, second: Vector, start: int, goal: int, closed: Sequence[int]
    ) -> list[FrontRoute]:
        """Return the paths that are cheapest at some prices, from one end to the other."""

        def at(share: float) -> FrontRoute:
            costs = (1 - share) * first / first.mean() + share * second / second.mean()
            rows = self.cheapest(costs, start, goal, closed)
            return FrontRoute(rows, float(first[rows].sum()), float(second[rows].sum()))

        found = sorted((at(share) for share in _PRICES), key=lambda one: (one.first, one.second))
        kept: list[FrontRoute] = []
        for one in found:
            if not kept or one.second < kept[-1].second:
                kept.append(one)
        return kept

    def _unreachable(self, start: int, goal: int) -> InfeasibleError:
        ids = self.network.edge_ids[[start, goal]].tolist()
        whom = "" if self.network.access.is_open else f" for {self.described}"
        return InfeasibleError(
            f"no open road leads from edge {ids[0]!r} to {ids[1]!r}{whom}; "
            "open closed edges, or choose another start or goal"
        )

    @property
    def described(self) -> str:
        """The vehicle in words."""
        kind = "a goods vehicle" if is_heavy(self.vehicle) else "a vehicle"
        return f"{kind} of {self.vehicle.mass_kg / 1000:g} t and {self.vehicle.height_m:g} m height"


class Permits:
    """Permits of the vehicles that ask, each made once."""

    def __init__(self, network: RoadNetwork) -> None:
        """Prepare the one that all share where everything is open."""
        self._network = network
        self._kept: dict[tuple[float, float], Permit] = {}
        self._open = Permit.of(network, Vehicle()) if network.access.is_open else None
        self._lock = Lock()

    def of(self, vehicle: Vehicle) -> Permit:
        """Return the permit of a vehicle."""
        if self._open is not None:
            return self._open
        key = vehicle.mass_kg, vehicle.height_m
        with self._lock:
            found = self._kept.pop(key, None)
        found = found or Permit.of(self._network, vehicle)
        with self._lock:
            self._kept[key] = found  # the last one used is the last one forgotten
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return found
