"""Measured drives as rows: one passage of one road each, in the order driven."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.errors import DataError


@dataclass(frozen=True, eq=False)
class Passages:
    """Passages of roads, shape (n,) each.

    Attributes:
        road: number of the road.
        trip: number of the trip, rising.
        day: number of the day, rising.
        length_m: driven.
        time_s: taken.
        used: taken from the battery, in the study's unit (per cent of charge, Wh).
        climb_m: height won.
        limit_ms: how fast one may drive; NaN where not known.
        warm_c: temperature; NaN where not known.
        xy_m: the middle of the road, shape (n, 2).
        index: place in the log; passages that followed each other have successive ones.
    """

    road: Rows
    trip: Rows
    day: Rows
    length_m: Vector
    time_s: Vector
    used: Vector
    climb_m: Vector
    limit_ms: Vector
    warm_c: Vector
    xy_m: Matrix
    index: Rows

    def __post_init__(self) -> None:
        """Check that they fit together."""
        n = self.road.size
        for field in fields(self):
            if getattr(self, field.name).shape[0] != n:
                msg = f"{field.name} has {getattr(self, field.name).shape[0]} entries, not {n}"
                raise DataError(msg)
        if (np.diff(self.trip) < 0).any() or (np.diff(self.day) < 0).any():
            msg = "passages must be sorted by the order driven"
            raise DataError(msg)
        for name in ("length_m", "time_s", "used", "climb_m", "xy_m"):
            if not np.isfinite(getattr(self, name)).all():
                msg = f"{name} holds values that are not finite"
                raise DataError(msg)

    def __len__(self) -> int:
        """Return how many there are."""
        return int(self.road.size)

    def take(self, rows: Rows | slice) -> "Passages":
        """Return some of them."""
        return Passages(*(getattr(self, field.name)[rows] for field in fields(self)))

    def trips(self) -> Iterator[slice]:
        """Yield the rows of each trip."""
        starts = np.flatnonzero(np.diff(self.trip, prepend=-1))
        ends = np.append(starts[1:], len(self))
        for begin, end in zip(starts.tolist(), ends.tolist(), strict=True):
            yield slice(begin, end)
