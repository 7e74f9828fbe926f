"""What is asked of a service's database: every trip and key, and what is believed of roads."""

from dataclasses import asdict
from typing import Any

import numpy as np
from sqlalchemy import select

from stored.files import plain_parts
from superarm.beliefs import Evidence
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.likelihood import MeasuredTrip, Reader
from superarm.roads.models.times import TravelTimes
from superarm.service import tables
from superarm.service.database import Database
from superarm.service.http.keys import KeyRing
from superarm.service.learning.snapshots import Learned
from superarm.service.routes.tokens import IssuedRoute
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.history import Cursor, History
from superarm.service.trips.packing import content_digest
from superarm.service.trips.quarantine import UNLEARNABLE, quarantined
from superarm.service.trips.schemas import TripIn
from superarm.service.trips.standings import all_standings
from superarm.service.trips.store import TripStore

_ALL, _LEARNED = 1_000, 10**12


def ask_database(database: Database, fleet: Fleet) -> dict[str, Any]:
    """Return all that a database says, as the service understands it."""
    store = TripStore(database, fleet.network, fleet.n_slots)
    with database.reading() as connection:
        standings = all_standings(connection)
        folded_ids = connection.execute(select(tables.folded_ids)).all()
        facts = dict(connection.execute(select(tables.facts.c.name, tables.facts.c.value)).all())
    return plain_parts(
        {
            "facts": facts,
            "keys": {key.id: asdict(key) for key in KeyRing(database).all()},
            "standings": {name: asdict(how) for name, how in standings.items()},
            "calibration": {
                "/".join(place): sums._asdict() for place, sums in store.calibration().items()
            },
            "recent": store.recent()._asdict(),
            "counts": store.counts(),
            "folded ids": {row.trip_sha256: [row.key_id, row.content_sha256] for row in folded_ids},
            "quarantine": {row["trip_id"]: _aside(row) for row in quarantined(database, 0, _ALL)},
            "trips": _trips(store, History(database, Reader.of(fleet))),
        }
    )


def ask_belief(database: Database, fleet: Fleet) -> dict[str, Any]:
    """Return what is believed after all trips of a database, the folded ones included."""
    reader: Reader[Any] = Reader.of(fleet)
    news = History(database, reader).since(Cursor())
    belief = fleet.prior().condition_evidence(news.evidence)
    times = TravelTimes.before(fleet.time_model).after(news.times).posterior
    answer = {
        "mean": belief.mean,
        "std": np.sqrt(belief.variance),
        "visits": news.visits,
        "trips": news.trips,
        "drives": news.times.drives,
        "unreadable": news.unreadable,
    }
    return plain_parts(answer | {f"seconds {part}": times.seconds(part) for part in range(3)})


def ask_folded(database: Database, fleet: Fleet) -> dict[str, Any]:
    """Return the sums of every key's folded trips."""
    with database.reading() as connection:
        rows = connection.execute(select(tables.folded)).all()
    return {row.key_id: ask_sums(row.sums, fleet) for row in rows}


def ask_sums(data: bytes, fleet: Fleet) -> dict[str, Any]:
    """Return what folded trips of one key say."""
    sums = FoldedTrips.unpack(data, fleet.time_model.nothing())
    evidence = sums.evidence
    units = np.eye(evidence.weighted.size)[np.flatnonzero(sums.visits)[:5]]
    answer = {
        "trips": sums.trips,
        "visits": sums.visits,
        "drives": sums.times.drives,
        "count": evidence.count,
        "squares": evidence.squares,
        "weighted": evidence.weighted,
        "precision": _times(evidence, units),
        "timed": sums.times.precision,
    }
    return plain_parts(answer)


def _times(evidence: Any, units: Any) -> Any:
    """Return the precision of all arms times some units; rows for an ensemble take columns."""
    if isinstance(evidence, Evidence):
        return np.column_stack([evidence.times(unit) for unit in units])
    return evidence.times(np.ascontiguousarray(units.T))


def _aside(row: dict[str, Any]) -> dict[str, Any]:
    """Return a trip that was put aside, and whether what was sent can still be read."""
    shown = {name: row[name] for name in ("key_id", "owner", "received_at", "kind", "reason")}
    if row["kind"] != UNLEARNABLE:
        shown["digest"] = content_digest(TripIn.model_validate_json(row["body"]))
    return shown | {"content_sha256": row["content_sha256"]}


def _trips(store: TripStore, history: History[Any]) -> dict[str, Any]:
    """Return every stored trip by its number: its columns, and the trip that is learned."""
    pieces = list(history.again(history.since(Cursor())))
    read_trips = [trip for piece in pieces if isinstance(piece, list) for trip in piece]
    learned = {read.sequence: read for read in read_trips}
    shown = {}
    for stored in store.stored_trips(0, _ALL, _LEARNED):
        del stored["learned"]  # depends on who asks
        stored |= {name: stored[name].isoformat() for name in ("received_at", "driven_at")}
        read = learned.get(stored["sequence"])
        if read is not None:
            stored |= {"read": ask_trip(read.trip), "source": asdict(read.source)}
        shown[str(stored["sequence"])] = stored
    return shown


def ask_trip(trip: MeasuredTrip) -> dict[str, Any]:
    """Return a trip by its parts, the vehicle by the names of its parameters."""
    answer = {
        "vehicle": asdict(trip.vehicle),
        "edges": trip.edges,
        "first": trip.first,
        "last": trip.last,
        "energies_wh": trip.energies_wh,
        "at_rest": trip.at_rest,
        "timed": None,
    }
    if trip.timed is not None:
        names = ("first", "last", "seconds", "part", "heavy")
        answer["timed"] = {name: getattr(trip.timed, name) for name in names}
    return plain_parts(answer)


def ask_route(route: IssuedRoute) -> dict[str, Any]:
    """Return what a route id says."""
    names = ("edges", "mean_wh", "std_wh", "best_wh", "issued_us")
    answer = {name: getattr(route, name) for name in names}
    return plain_parts(answer | {"vehicle": asdict(route.vehicle)})


def ask_learned(learned: Learned) -> dict[str, Any]:
    """Return what a snapshot holds."""
    posterior = learned.times.posterior
    answer = {
        "mean": learned.belief.mean,
        "std": np.sqrt(learned.belief.variance),
        "visits": learned.visits,
        "trips": learned.trips,
        "cursor": asdict(learned.cursor),
    }
    return plain_parts(answer | {f"seconds {part}": posterior.seconds(part) for part in range(3)})
