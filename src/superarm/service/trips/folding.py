"""Old trips summed up: what they said stays, who drove where goes."""

import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm.arrays import Vector
from superarm.beliefs import Evidence


@dataclass(frozen=True, eq=False)
class FoldedTrips:
    """The sums of many trips.

    Attributes:
        evidence: what they say; beliefs need nothing else.
        visits: how often each edge was part of a measurement, shape (n,).
        trips: how many trips.
    """

    evidence: Evidence
    visits: Vector
    trips: int

    @classmethod
    def nothing(cls, n_edges: int, n_arms: int) -> "FoldedTrips":
        """Return the sums of no trips."""
        return cls(Evidence.nothing(n_arms), np.zeros(n_edges), 0)

    def __add__(self, other: "FoldedTrips") -> "FoldedTrips":
        """Return the sums of both."""
        return FoldedTrips(
            self.evidence + other.evidence,
            self.visits + other.visits,
            self.trips + other.trips,
        )

    def pack(self) -> bytes:
        """Return bytes to store."""
        file = io.BytesIO()
        facts = json.dumps({"trips": self.trips})
        arrays: dict[str, Any] = {"facts": np.array(facts), "visits": self.visits}
        np.savez_compressed(file, **(arrays | self.evidence.stored()))
        return file.getvalue()

    @classmethod
    def unpack(cls, data: bytes) -> "FoldedTrips":
        """Return the sums from bytes."""
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            parts = {name: stored[name] for name in stored.files}
        facts = json.loads(str(parts.pop("facts")))
        visits = parts.pop("visits")
        return cls(Evidence.restored(parts), visits, facts["trips"])
