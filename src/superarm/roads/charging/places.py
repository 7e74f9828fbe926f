"""Stations on a network: the edges at which one stops to charge."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.roads.charging.stations import Station
from superarm.roads.network.geography import Geography
from superarm.values import changed

FARTHEST_M = 500.0
"""Stations farther from every road are left out."""


@dataclass(frozen=True, eq=False)
class StationPlaces:
    """Stations, and where on the network they are; one at a two-way road has a place on each side.

    Attributes:
        stations: those on the network.
        edges: the edge of every place, shape (m,).
        station: which station every place belongs to, shape (m,).
        notes: what was left out.
    """

    stations: tuple[Station, ...]
    edges: Rows
    station: Rows
    notes: tuple[str, ...] = ()

    @classmethod
    def none(cls) -> "StationPlaces":
        """Return no stations."""
        return cls((), np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))

    @classmethod
    def on(cls, geography: Geography, stations: Sequence[Station]) -> "StationPlaces":
        """Find the edges of stations."""
        network = geography.network
        ends = zip(network.from_junction.tolist(), network.to_junction.tolist(), strict=True)
        other_way = {(b, a): edge for edge, (a, b) in enumerate(ends)}
        kept: list[Station] = []
        edges: list[int] = []
        owner: list[int] = []
        notes = []
        for station in stations:
            edge, distance = geography.nearest(station.longitude, station.latitude, None)
            if not distance <= FARTHEST_M:
                notes.append(f"{station.name} lies {distance:,.0f} m from the closest road")
                continue
            back = other_way.get((int(network.from_junction[edge]), int(network.to_junction[edge])))
            places = [edge] if back is None or back == edge else [edge, back]
            edges += places
            owner += [len(kept)] * len(places)
            kept.append(station)
        where = np.array(edges, dtype=np.intp), np.array(owner, dtype=np.intp)
        return cls(tuple(kept), *where, tuple(notes))

    @property
    def power_w(self) -> Vector:
        """Of the station of every place, shape (m,)."""
        return np.array([self.stations[one].power_w for one in self.station.tolist()], dtype=float)

    def only(self, places: Rows) -> "StationPlaces":
        """Return some of the places."""
        return changed(self, edges=self.edges[places], station=self.station[places])
