"""Trips between JSON, arrays and the columns of the database."""

import hashlib

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.service.model.trip import MeasuredTrip
from superarm.service.model.vehicle import packed_vehicle, unpacked_vehicle
from superarm.service.trips.schemas import MOST_TRIP_EDGES, TripIn

_PLACES, _ENERGIES = np.dtype("<i4"), np.dtype("<f8")


class UnusableTripError(Exception):
    """A trip that cannot be taken as it is; the message says why and what to do."""


def packed(trip: MeasuredTrip) -> dict[str, object]:
    """Return columns of the trips table."""
    return {
        "vehicle": packed_vehicle(trip.vehicle),
        "edges": trip.edges.astype(_PLACES).tobytes(),
        "spans": np.column_stack([trip.first, trip.last]).astype(_PLACES).tobytes(),
        "energies_wh": trip.energies_wh.astype(_ENERGIES).tobytes(),
        "at_rest": trip.at_rest,
    }


def unpacked(  # noqa: PLR0913, PLR0917 - the columns
    vehicle: str,
    edges: bytes,
    spans: bytes,
    energies_wh: bytes,
    at_rest: bool | None,  # noqa: FBT001 - a column
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
        and 0 < first.size == energies.size
        and places.min() >= 0
        and places.max() < n_edges
        and (first >= 0).all()
        and (first <= last).all()
        and (first[1:] > last[:-1]).all()
        and last[-1] < places.size
        and np.isfinite(energies).all()
    )
    if not fine:
        msg = "the columns of this trip do not fit together"
        raise ValueError(msg)
    return MeasuredTrip(unpacked_vehicle(vehicle), places, first, last, energies, bool(at_rest))


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
    spans = sorted(trip.spans or (), key=lambda span: span.first)
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
    new = {"speeds_ms"} if trip.speeds_ms is None else set()
    body = trip.model_dump_json(exclude={"trip_id", *new})
    return hashlib.sha256(body.encode()).hexdigest()


def trip_digest(owner: str, trip_id: str) -> str:
    """Return the hash by which a folded trip is known."""
    return hashlib.sha256(f"{owner}\0{trip_id}".encode()).hexdigest()
