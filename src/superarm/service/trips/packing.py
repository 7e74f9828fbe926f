"""Trips between JSON, arrays and the columns of the database."""

import hashlib
from datetime import UTC
from typing import Any

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.roads.models.likelihood import MeasuredTrip
from superarm.roads.models.times import PARTS, TimedDrive
from superarm.roads.vehicle import Vehicle
from superarm.service.trips.schemas import MOST_TRIP_EDGES, TripIn

_LATER = ("speeds_ms", "duration_s", "edge_duration_s", "temperature_c", "payload_kg")
_PLACES, _ENERGIES = np.dtype("<i4"), np.dtype("<f8")


class UnusableTripError(Exception):
    """A trip that cannot be taken as it is; the message says why and what to do."""


def packed(trip: MeasuredTrip) -> dict[str, object]:
    """Return columns of the trips table."""
    return {
        "vehicle": trip.vehicle.to_json(),
        "edges": trip.edges.astype(_PLACES).tobytes(),
        "spans": np.column_stack([trip.first, trip.last]).astype(_PLACES).tobytes(),
        "energies_wh": trip.energies_wh.astype(_ENERGIES).tobytes(),
        "at_rest": trip.at_rest,
        "durations": None if trip.timed is None else _packed_times(trip.timed),
    }


def _packed_times(drive: TimedDrive) -> bytes:
    """Return part of the day and weight, how many stretches, where they are, how long they took."""
    head = np.array([drive.part, drive.heavy, drive.first.size], dtype=_PLACES)
    ends = np.column_stack([drive.first, drive.last]).astype(_PLACES)
    return head.tobytes() + ends.tobytes() + drive.seconds.astype(_ENERGIES).tobytes()


def _unpacked_times(data: bytes, edges: Rows) -> TimedDrive:
    """Return what was timed of a trip with these edges; raise ValueError if it makes no sense."""
    part, heavy, count = np.frombuffer(data, dtype=_PLACES, count=3).tolist()
    place = 3 * _PLACES.itemsize
    if not (0 <= part < len(PARTS) and heavy in {0, 1} and 0 < count <= MOST_TRIP_EDGES):
        msg = "what was timed of this trip makes no sense"
        raise ValueError(msg)
    ends = np.frombuffer(data, dtype=_PLACES, count=2 * count, offset=place).astype(np.intp)
    first, last = ends.reshape(-1, 2).T
    place += 2 * count * _PLACES.itemsize
    seconds = np.frombuffer(data, dtype=_ENERGIES, count=count, offset=place).astype(np.float64)
    if not (_disjoint(first, last, edges.size) and np.isfinite(seconds).all()):
        msg = "what was timed of this trip does not fit its edges"
        raise ValueError(msg)
    return TimedDrive(edges, first, last, seconds, part, bool(heavy))


def _disjoint(first: Rows, last: Rows, n_edges: int) -> bool:
    return bool(
        (first >= 0).all()
        and (first <= last).all()
        and (first[1:] > last[:-1]).all()
        and (last < n_edges).all()
    )


def unpacked(  # noqa: PLR0913, PLR0917 - the columns
    vehicle: str,
    edges: bytes,
    spans: bytes,
    energies_wh: bytes,
    at_rest: bool | None,  # noqa: FBT001 - a column
    durations: bytes | None,
    n_edges: int,
) -> MeasuredTrip:
    """Return a trip from these columns; raise ValueError if they hold none.

    Trips stored before it was noted whether speeds were reported count as without.
    """
    places = np.frombuffer(edges, dtype=_PLACES).astype(np.intp)
    ends = np.frombuffer(spans, dtype=_PLACES).reshape(-1, 2).astype(np.intp)
    energies = np.frombuffer(energies_wh, dtype=_ENERGIES).astype(np.float64)
    first, last = ends[:, 0], ends[:, 1]
    fine = (
        0 < places.size <= MOST_TRIP_EDGES
        and first.size == energies.size
        and (first.size > 0 or durations is not None)
        and places.min() >= 0
        and places.max() < n_edges
        and _disjoint(first, last, places.size)
        and np.isfinite(energies).all()
    )
    if not fine:
        msg = "the columns of this trip do not fit together"
        raise ValueError(msg)
    timed = None if durations is None else _unpacked_times(durations, places)
    driven = Vehicle.from_json(vehicle)
    return MeasuredTrip(driven, places, first, last, energies, bool(at_rest), timed)


def stretches_of(trip: TripIn, n_edges: int) -> tuple[Rows, Rows, Vector] | None:
    """Return where timed stretches of a trip begin and end, and their seconds, if it has any."""
    if trip.duration_s is not None:
        return np.array([0]), np.array([n_edges - 1]), np.array([trip.duration_s])
    if trip.edge_duration_s is not None:
        if len(trip.edge_duration_s) != n_edges:
            msg = (
                f"edge_duration_s has {len(trip.edge_duration_s)} entries for {n_edges} edges; "
                "give one per edge, null where none was measured"
            )
            raise UnusableTripError(msg)
        found = [(i, i, s) for i, s in enumerate(trip.edge_duration_s) if s is not None]
    else:
        spans = sorted(trip.spans or (), key=lambda span: span.first)
        found = [(s.first, s.last, s.duration_s) for s in spans if s.duration_s is not None]
    if not found:
        return None
    first, last, seconds = zip(*found, strict=True)
    return np.array(first, dtype=np.intp), np.array(last, dtype=np.intp), np.array(seconds)


def spans_of(trip: TripIn, n_edges: int) -> tuple[Rows, Rows, Vector]:
    """Return where the measured spans of a trip begin and end, and their energies."""
    if trip.total_energy_wh is not None:
        return np.array([0]), np.array([n_edges - 1]), np.array([trip.total_energy_wh])
    if trip.edge_energy_wh is not None:
        if len(trip.edge_energy_wh) != n_edges:
            msg = (
                f"edge_energy_wh has {len(trip.edge_energy_wh)} entries for {n_edges} edges; give "
                "one per edge, null where none was measured"
            )
            raise UnusableTripError(msg)
        known = [(i, e) for i, e in enumerate(trip.edge_energy_wh) if e is not None]
        if not known:
            msg = "no energy was measured at all; leave the trip out"
            raise UnusableTripError(msg)
        places = np.array([place for place, _ in known], dtype=np.intp)
        return places, places.copy(), np.array([energy for _, energy in known])
    if trip.spans is None:  # it says how long it took, and no more
        nothing = np.empty(0, dtype=np.intp)
        return nothing, nothing.copy(), np.empty(0)
    spans = sorted(trip.spans, key=lambda span: span.first)
    first = np.array([span.first for span in spans], dtype=np.intp)
    last = np.array([span.last for span in spans], dtype=np.intp)
    if (last < first).any() or last.max() >= n_edges:
        msg = f"spans must run from first to last within the trip's {n_edges} edges (0-based)"
        raise UnusableTripError(msg)
    if (first[1:] <= last[:-1]).any():
        msg = "spans overlap; give every edge to at most one span"
        raise UnusableTripError(msg)
    return first, last, np.array([span.energy_wh for span in spans])


def content_digest(trip: TripIn) -> str:
    """Return a checksum of all that a trip says, its id excepted."""
    # what came later is left out where it is not used: trips sent again stay the same
    new: dict[str, Any] = {name: True for name in _LATER if getattr(trip, name) is None}
    if not any(span.duration_s is not None for span in trip.spans or ()):
        new["spans"] = {"__all__": {"duration_s"}}
    utc = trip.model_copy(update={"driven_at": trip.driven_at.astimezone(UTC)})
    body = utc.model_dump_json(exclude={"trip_id": True, **new})
    return hashlib.sha256(body.encode()).hexdigest()


def trip_digest(owner: str, trip_id: str) -> str:
    """Return the hash by which a folded trip is known."""
    return hashlib.sha256(f"{owner}\0{trip_id}".encode()).hexdigest()
