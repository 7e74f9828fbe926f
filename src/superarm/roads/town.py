"""Roads, a vehicle and what was learned of them: routes by coordinates, without any server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.beliefs.sums.dense import MOST_ARMS
from superarm.roads.models.costs import RoadBelief
from superarm.roads.models.intervals import INTERVAL, interval_s
from superarm.roads.models.priors import Measured, RoadModel
from superarm.roads.network.access import CLOSED, is_heavy
from superarm.roads.network.geography import Geography
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.energy import potential_difference
from superarm.roads.physics.free_flow import fastest_s
from superarm.roads.routing.vehicle_access import Permit
from superarm.roads.vehicle import Vehicle
from superarm.values import changed

__all__ = ["Town", "TownRoute"]

Place = str | tuple[float, float]
"""An edge by its id, or longitude and latitude."""


@dataclass(frozen=True, eq=False)
class TownRoute:
    """A way to go, and what it will take.

    Attributes:
        edges: positions in the network, in driving order, shape (k,).
        edge_ids: their names.
        length_m: of all.
        energy_wh: expected, taken from the battery.
        energy_std_wh: of what will be measured.
        time_s: expected.
        time_std_s: of what will be measured.
        fastest_s: the least time that it can take.
        line: longitudes and latitudes.
        snapped_m: how far the ends are from the places that were given.
    """

    edges: Rows
    edge_ids: list[str]
    length_m: float
    energy_wh: float
    energy_std_wh: float
    time_s: float
    time_std_s: float
    fastest_s: float
    line: list[list[float]]
    snapped_m: tuple[float, float]

    @property
    def minutes(self) -> float:
        """The expected time."""
        return self.time_s / 60

    @property
    def energy_interval_wh(self) -> tuple[float, float]:
        """The 90 per cent interval of the energy to be measured."""
        off = INTERVAL * self.energy_std_wh
        return self.energy_wh - off, self.energy_wh + off

    @property
    def minutes_interval(self) -> tuple[float, float]:
        """The 90 per cent interval of the time to be measured."""
        low, high = interval_s(self.time_s, self.time_std_s, self.fastest_s)
        return low / 60, high / 60

    def stored(self) -> dict[str, object]:
        """Return what to store."""
        return vars(self).copy()

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "TownRoute":
        """Return the route; one stored before the fastest time was kept may take no time at all."""
        return cls(**({"fastest_s": 0.0} | parts))

    def geojson(self) -> dict[str, Any]:
        """Return it as a GeoJSON feature."""
        facts = {
            "length_m": round(self.length_m, 1),
            "energy_wh": round(self.energy_wh, 1),
            "energy_std_wh": round(self.energy_std_wh, 1),
            "minutes": round(self.minutes, 2),
            "edges": self.edge_ids,
        }
        line = {"type": "LineString", "coordinates": self.line}
        return {"type": "Feature", "geometry": line, "properties": facts}


@dataclass(frozen=True, eq=False)
class Town:
    """Answers routes for one vehicle and learns from its trips; learning returns a new one.

    Args:
        network: the roads, at most 12,000 edges.
        vehicle: what drives.

    >>> from superarm.roads.network.city import generate_city
    >>> town = Town(generate_city(0, 500).largest_component())
    >>> ids = town.network.edge_ids
    >>> route = town.route(str(ids[0]), str(ids[200]))
    >>> route.energy_std_wh > 0 and route.minutes > 0
    True
    """

    network: RoadNetwork
    vehicle: Vehicle = field(default_factory=Vehicle)
    energy: RoadBelief = field(default=None)  # type: ignore[assignment] # made below
    time: RoadBelief = field(default=None)  # type: ignore[assignment] # likewise

    def __post_init__(self) -> None:
        """Begin with physics, if nothing was learned."""
        if self.network.n_edges > MOST_ARMS:
            msg = f"a Town has at most {MOST_ARMS:,} edges; {self.network!r} is larger"
            raise ValueError(msg)
        for name, target in (("energy", "energy"), ("time", "time")):
            if getattr(self, name) is None:
                model = RoadModel(self.network, self.vehicle, target)  # type: ignore[arg-type] # one of two
                object.__setattr__(self, name, RoadBelief.before(model))

    @cached_property
    def _geography(self) -> Geography:
        return Geography(self.network)

    @cached_property
    def _permit(self) -> Permit:
        return Permit.of(self.network, self.vehicle)

    @cached_property
    def _potential_wh(self) -> Vector:
        return potential_difference(self.network, self.vehicle)

    @cached_property
    def _fastest_s(self) -> Vector:
        return fastest_s(self.network, heavy=is_heavy(self.vehicle))

    def learn(self, trips: Sequence[Measured], times: Sequence[Measured] = ()) -> "Town":
        """Return the town after some trips.

        Args:
            trips: with the energy of every edge.
            times: trips of which only times count, besides.
        """
        every = [*trips, *times]
        return changed(
            self,
            energy=self.energy.after(trips),
            time=self.time.after(every) if every else self.time,
        )

    def route(
        self,
        start: Place,
        goal: Place,
        *,
        rng: np.random.Generator | None = None,
        wh_per_minute: float = 0.0,
    ) -> TownRoute:
        """Return the route of least expected energy, or of a draw (Thompson sampling).

        Args:
            start: an edge id, or longitude and latitude; the nearest road open to the vehicle.
            goal: likewise.
            rng: for a draw, to learn while driving; means without it.
            wh_per_minute: what a minute is worth.
        """
        first, off_start = self._edge_at(start)
        last, off_goal = self._edge_at(goal)
        costs = self.energy.mean if rng is None else self.energy.sample(rng)
        if wh_per_minute:
            costs = costs + wh_per_minute / 60 * self.time.mean
        edges = self._permit.cheapest(costs, first, last)
        energy, variance = self.energy.trip(edges)
        seconds, spread = self.time.trip(edges)
        least = float(self._fastest_s[edges].sum())
        return TownRoute(
            edges=edges,
            edge_ids=self.network.edge_ids[edges].tolist(),
            length_m=float(self.network.length_m[edges].sum()),
            energy_wh=energy + float(self._potential_wh[edges].sum()),
            energy_std_wh=float(np.sqrt(variance)),
            time_s=max(seconds, least),
            time_std_s=float(np.sqrt(spread)),
            fastest_s=least,
            line=self._geography.line(edges),
            snapped_m=(off_start, off_goal),
        )

    def _edge_at(self, place: Place) -> tuple[int, float]:
        if isinstance(place, str):
            return self.network.position(place), 0.0
        usable = self._permit.codes != CLOSED
        edge, off = self._geography.nearest(float(place[0]), float(place[1]), None, usable)
        return edge, off
