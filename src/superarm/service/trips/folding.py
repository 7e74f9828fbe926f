"""Old trips summed up: what they said stays, who drove where goes."""

import io
import json
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from superarm.arrays import Vector
from superarm.beliefs import Evidence
from superarm.beliefs.ensemble import Observations
from superarm.roads.models.likelihood import TripSums
from superarm.roads.models.times import TimeSums


@dataclass(frozen=True, eq=False)
class FoldedTrips(Generic[TripSums]):
    """The sums of many trips.

    Attributes:
        evidence: what they say; beliefs need nothing else.
        visits: how often each edge was part of a measurement, shape (n,).
        times: what they say about travel times.
        trips: how many trips.
    """

    evidence: TripSums
    visits: Vector
    times: TimeSums
    trips: int

    def __add__(self, other: "FoldedTrips[TripSums]") -> "FoldedTrips[TripSums]":
        """Return the sums of both."""
        return FoldedTrips(
            self.evidence + other.evidence,
            self.visits + other.visits,
            self.times + other.times,
            self.trips + other.trips,
        )

    def pack(self) -> bytes:
        """Return bytes to store."""
        file = io.BytesIO()
        facts = json.dumps({"trips": self.trips})
        arrays: dict[str, Any] = {"facts": np.array(facts), "visits": self.visits}
        if self.times.drives:
            arrays |= self.times.stored()
        np.savez_compressed(file, **(arrays | self.evidence.stored()))
        return file.getvalue()

    @staticmethod
    def unpack(data: bytes, nothing: TimeSums) -> "FoldedTrips[Any]":
        """Return the sums from bytes; those of before have nothing to say about times."""
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            parts = {name: stored[name] for name in stored.files}
        facts = json.loads(str(parts.pop("facts")))
        visits = parts.pop("visits")
        times = {name: parts.pop(name) for name in list(parts) if name.startswith("time_")}
        known = TimeSums.restored(times) if times else nothing
        form = Observations if "starts" in parts else Evidence
        return FoldedTrips(form.restored(parts), visits, known, facts["trips"])


def without_times(data: bytes) -> bytes:
    """Return packed sums without what they say about travel times."""
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        kept: dict[str, Any] = {
            name: stored[name] for name in stored.files if not name.startswith("time_")
        }
    file = io.BytesIO()
    np.savez_compressed(file, **kept)
    return file.getvalue()
