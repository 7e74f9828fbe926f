"""Who may drive where: roads closed to some vehicles, limits of weight and height, tolls.

A road is open, closed, or for those only who begin or end their trip there (``destination``,
private roads). Goods vehicles are those above 3.5 t, as in traffic law.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from superarm.arrays import Pairs, Rows, Vector, frozen
from superarm.errors import DataError
from superarm.roads.vehicle import Vehicle

Codes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Marks = np.ndarray[tuple[int], np.dtype[np.bool_]]

CLOSED, ENDS_ONLY, OPEN = 0, 1, 2
"""What a road is to a kind of vehicle."""

FOR_CARS, FOR_TRUCKS = 1, 2
"""Bits of who may take a turn."""

HEAVY_KG = 3500.0
"""Above this a vehicle counts as a goods vehicle (``hgv``)."""


@dataclass(frozen=True, eq=False)
class Access:
    """Rules of all edges and turns of a network.

    Attributes:
        cars: `CLOSED`, `ENDS_ONLY` or `OPEN` to cars and vans, shape (n,).
        trucks: likewise to goods vehicles, shape (n,).
        most_t: weight limits, infinite where there is none, shape (n,).
        most_m: height limits, likewise, shape (n,).
        toll: where a toll is due, shape (n,).
        turns: bits `FOR_CARS` and `FOR_TRUCKS` of every turn, shape (t,).
    """

    cars: Codes
    trucks: Codes
    most_t: Vector
    most_m: Vector
    toll: Marks
    turns: Codes

    @staticmethod
    def everywhere(n_edges: int, n_turns: int) -> "Access":
        """Return a network that is open to everybody."""
        return Access(
            cars=np.full(n_edges, OPEN, dtype=np.uint8),
            trucks=np.full(n_edges, OPEN, dtype=np.uint8),
            most_t=np.full(n_edges, np.inf),
            most_m=np.full(n_edges, np.inf),
            toll=np.zeros(n_edges, dtype=np.bool_),
            turns=np.full(n_turns, FOR_CARS | FOR_TRUCKS, dtype=np.uint8),
        )

    def checked(self, name: str, n_edges: int, n_turns: int) -> "Access":
        """Return it with arrays that nobody can change, or say what does not fit."""
        arrays = {}
        for field in fields(self):
            array = np.asarray(getattr(self, field.name))
            size = n_turns if field.name == "turns" else n_edges
            if array.shape != (size,):
                msg = f"{name}: access.{field.name} has shape {array.shape} instead of ({size},)"
                raise DataError(msg)
            arrays[field.name] = frozen(array.copy()) if array.flags.writeable else array
        if np.isnan(arrays["most_t"]).any() or np.isnan(arrays["most_m"]).any():
            msg = f"{name}: a limit of weight or height is not a number"
            raise DataError(msg)
        return Access(**arrays)

    def take(self, edges: Rows, turns: Marks) -> "Access":
        """Return the rules of some edges, and of some turns."""
        kept = {
            field.name: getattr(self, field.name)[turns if field.name == "turns" else edges]
            for field in fields(self)
        }
        return Access(**kept)

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by names for a file."""
        return {f"access_{field.name}": getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Any]) -> "Access":
        """Return what `arrays` gave."""
        return Access(**{field.name: arrays[f"access_{field.name}"] for field in fields(Access)})

    def edges_for(self, vehicle: Vehicle) -> Codes:
        """Return what every edge is to a vehicle: `CLOSED`, `ENDS_ONLY` or `OPEN`, shape (n,)."""
        codes = (self.trucks if is_heavy(vehicle) else self.cars).copy()
        codes[vehicle.mass_kg / 1000 > self.most_t] = CLOSED
        codes[vehicle.height_m > self.most_m] = CLOSED
        return codes

    def turns_for(self, vehicle: Vehicle) -> Marks:
        """Return which turns a vehicle may take, shape (t,)."""
        bit = FOR_TRUCKS if is_heavy(vehicle) else FOR_CARS
        return (self.turns & bit) > 0

    @property
    def is_open(self) -> bool:
        """Whether everybody may drive everywhere."""
        closed = (self.cars < OPEN).any() or (self.trucks < OPEN).any()
        limited = np.isfinite(self.most_t).any() or np.isfinite(self.most_m).any()
        both = FOR_CARS | FOR_TRUCKS
        return not (closed or limited or (self.turns != both).any())


def is_heavy(vehicle: Vehicle) -> bool:
    """Say whether a vehicle counts as a goods vehicle."""
    return vehicle.mass_kg > HEAVY_KG


def zones_of(codes: Codes, turns: Pairs) -> Rows:
    """Return areas of edges for those only who begin or end there, -1 elsewhere, shape (n,).

    A route may pass through the areas of its ends, and through no other.

    Args:
        codes: what every edge is to the vehicle.
        turns: pairs of edges.
    """
    inside = codes == ENDS_ONLY
    both = inside[turns[:, 0]] & inside[turns[:, 1]]
    pairs, n = turns[both], codes.size
    links = csr_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, label = connected_components(links, directed=False)
    return np.where(inside, label, -1).astype(np.intp)
