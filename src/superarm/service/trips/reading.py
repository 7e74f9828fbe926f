"""Stored trips between rows of the database and what they say, each tried before it is believed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from superarm.errors import SuperarmError
from superarm.roads.models.likelihood import Addable, MeasuredTrip, Reader, Source, TripSums
from superarm.roads.models.times import TimeSums
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.packing import unpacked
from superarm.service.trips.standings import Standing

UNREADABLE = "the learner cannot make sense of this trip"

_MOST_SPREAD = 10.0  # a share that no trips have in common


@dataclass(frozen=True, eq=False)
class ReadTrip:
    """One trip that was read.

    Attributes:
        sequence: its number.
        key_id: who measured it.
        trip: what was measured.
        source: how far to believe it.
        digest: a checksum of what was sent.
        counts: whether it says something about its key: not if somebody has released it, nor if
            the key was let in again after it.
        time_factor: what its durations were divided by.
    """

    sequence: int
    key_id: str
    trip: MeasuredTrip
    source: Source
    digest: str
    counts: bool
    time_factor: float = 1.0


def read_rows(
    rows: Sequence[Any], standings: Mapping[str, Standing], n_edges: int, bad: list[int]
) -> list[ReadTrip]:
    """Return trips of keys that are not set aside; note the numbers of those that are no trips."""
    read = []
    for row in rows:
        standing = standings.get(row.key_id, Standing(row.key_id))
        if standing.is_aside:
            continue
        try:
            columns = (row.vehicle, row.edges, row.spans, row.energies_wh)
            timed = row.durations if standing.learns_times(row.received_at) else None
            factor = 1.0 if row.time_factor is None else float(row.time_factor)
            trip = _corrected(unpacked(*columns, row.at_rest, timed, n_edges), factor)
            spread = float(row.spread)
            known = standing.source(spread if 0 <= spread <= _MOST_SPREAD else np.nan)
            source = replace(known, widened=float(row.widened))
        except (ValueError, TypeError, OverflowError):
            bad.append(row.sequence)
            continue
        counts = not source.vouched and row.received_at >= (standing.vouched_at or 0)
        digest = row.content_sha256
        read.append(ReadTrip(row.sequence, row.key_id, trip, source, digest, counts, factor))
    return read


def _corrected(trip: MeasuredTrip, factor: float) -> MeasuredTrip:
    """Return a trip with its durations as the clocks of most keys would have it."""
    if trip.timed is None or factor == 1:
        return trip
    if not 0 < factor < np.inf:
        msg = f"the factor of durations is {factor}, and must be a positive number"
        raise ValueError(msg)
    return replace(trip, timed=replace(trip.timed, seconds=trip.timed.seconds / factor))


class Pile(Generic[TripSums]):
    """Sums being added up, small ones first: none is copied more than a few times."""

    def __init__(self, first: FoldedTrips[TripSums]) -> None:
        """Start with some."""
        self._parts = [first]

    def add(self, more: FoldedTrips[TripSums]) -> None:
        """Add the sums of some trips."""
        self._parts.append(more)
        while len(self._parts) > 1 and self._parts[-2].trips <= 2 * self._parts[-1].trips:
            last = self._parts.pop()
            self._parts[-1] += last

    @property
    def total(self) -> FoldedTrips[TripSums]:
        """All of them together."""
        while len(self._parts) > 1:
            last = self._parts.pop()
            self._parts[-1] += last
        return self._parts[0]


def sound_evidence(reader: Reader[TripSums], some: Sequence[ReadTrip]) -> TripSums:
    """Return what trips say, or raise if that is not finite."""
    with np.errstate(all="ignore"):
        pairs = [(one.trip, one.source) for one in some]
        evidence = reader.evidence(pairs, [one.sequence for one in some])
    require_finite(evidence)
    return evidence


def sound_times(reader: Reader[Any], some: Sequence[ReadTrip]) -> TimeSums:
    """Return what trips say about times, or raise if that is not finite."""
    with np.errstate(all="ignore"):
        sums = reader.times(one.trip for one in some)
    require_finite(sums)
    return sums


def require_finite(evidence: Addable | TimeSums) -> None:
    """Raise unless what trips say are numbers."""
    if not evidence.is_finite:
        msg = "the evidence of these trips is not finite"
        raise ValueError(msg)


def bisected(some: Sequence[ReadTrip], use: Callable[[Sequence[ReadTrip]], None]) -> list[ReadTrip]:
    """Use all trips but those that cannot be used; return these.

    `use` raises if any of the trips it is given cannot be used, and has done nothing then.
    """
    if not some:
        return []
    try:
        use(some)
    except (
        ArithmeticError,
        ValueError,
        IndexError,
        MemoryError,
        np.linalg.LinAlgError,
        SuperarmError,
    ):
        if len(some) == 1:
            return list(some)
        middle = len(some) // 2
        return bisected(some[:middle], use) + bisected(some[middle:], use)
    return []
