"""What is kept: routes issued, trips reported, each trip once; all in one transaction per batch."""

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Table, case, delete, func, insert, select, true
from sqlalchemy.dialects import postgresql, sqlite

from superarm.navigation import RoadNetwork
from superarm.service.database import (
    Database,
    bump_epoch,
    lock_epoch,
    mark_of_trips,
    now_us,
    transaction_number,
)
from superarm.service.fleet import CLASSES
from superarm.service.folding import FoldedTrips
from superarm.service.measurements import (
    ImplausibleTripError,
    MeasuredTrip,
    Reader,
    UnusableTripError,
    content_digest,
    pack_edges,
    packed_vehicle,
    spans_of,
    unpack_edges,
    unpacked_vehicle,
)
from superarm.service.routing import INTERVAL, Prediction
from superarm.service.schemas import TripIn, TripOutcome, vehicle_of
from superarm.service.tables import folded, folded_ids, keys, quarantine, routes, trips

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RECENT = 1_000
"""How many trips the recent calibration is over."""


@dataclass(frozen=True)
class Reported:
    """A trip and who sent it; keys of one name share their trip ids."""

    key_id: str
    trip: TripIn
    owner: str = ""

    @property
    def name(self) -> str:
        """Whose trip ids these are."""
        return self.owner or self.key_id


@dataclass(frozen=True, eq=False)
class Issued:
    """A route and who asked for it."""

    route_id: str
    key_id: str
    vehicle: Any
    mode: str
    route: Prediction
    best_wh: float

    def row(self) -> dict[str, object]:
        """Return columns of the routes table."""
        return {
            "id": self.route_id,
            "key_id": self.key_id,
            "issued_at": now_us(),
            "edges": pack_edges(self.route.edges),
            "vehicle": packed_vehicle(self.vehicle),
            "mode": self.mode,
            "mean_wh": self.route.mean_wh,
            "std_wh": self.route.std_wh,
            "best_wh": self.best_wh,
        }


class Sums(NamedTuple):
    """Sums over whole trips on issued routes."""

    trips: int
    z: float
    squares: float
    inside: float
    energy_wh: float
    best_wh: float


def new_route_id() -> str:
    """Return an id that nobody can guess."""
    return secrets.token_hex(16)


class TripStore:
    """Reads and writes the database; every method is one transaction."""

    def __init__(self, database: Database, network: RoadNetwork, reader: Reader) -> None:
        """Remember where and about what."""
        self.database = database
        self.network = network
        self.reader = reader

    def keep(self, items: Sequence[Reported | Issued]) -> list[TripOutcome | None]:
        """Store routes and trips durably and say what became of each trip."""
        with self.database.engine.begin() as connection:
            issued = [item.row() for item in items if isinstance(item, Issued)]
            if issued:
                connection.execute(insert(routes), issued)
            reports = [item for item in items if isinstance(item, Reported)]
            if not reports:
                return [None] * len(items)
            number = transaction_number(connection)
            revoked = _revoked(connection, {item.key_id for item in reports})
            return [
                self._keep_trip(connection, item, number, revoked)
                if isinstance(item, Reported)
                else None
                for item in items
            ]

    def _keep_trip(
        self, connection: Connection, item: Reported, number: int, revoked: Collection[str] = ()
    ) -> TripOutcome:
        trip, digest = item.trip, content_digest(item.trip)
        if item.key_id in revoked:
            detail = "the key was revoked; ask for another"
            return TripOutcome(trip_id=trip.trip_id, status="rejected", detail=detail)
        known = self._known(connection, item.name, trip.trip_id)
        if known is not None:
            return _again(trip.trip_id, same=known == digest)
        try:
            row = self._row(connection, item)
        except ImplausibleTripError as error:
            aside = {
                "key_id": item.key_id,
                "trip_id": trip.trip_id,
                "received_at": now_us(),
                "content_sha256": digest,
                "reason": str(error),
                "body": trip.model_dump_json(),
            }
            connection.execute(self._insert(quarantine).on_conflict_do_nothing(), aside)
            return TripOutcome(trip_id=trip.trip_id, status="rejected", detail=str(error))
        except UnusableTripError as error:
            return TripOutcome(trip_id=trip.trip_id, status="rejected", detail=str(error))
        row |= {"content_sha256": digest, "xact": number}
        # another worker may have stored it in this very moment
        new = self._insert(trips).on_conflict_do_nothing().returning(trips.c.sequence)
        if connection.execute(new, row).scalar() is None:
            known = self._known(connection, item.name, trip.trip_id)
            return _again(trip.trip_id, same=known == digest)
        return TripOutcome(trip_id=trip.trip_id, status="accepted")

    def _insert(self, table: Table) -> Any:  # noqa: ANN401 - of either dialect
        return (sqlite if self.database.is_sqlite else postgresql).insert(table)

    def _row(self, connection: Connection, item: Reported) -> dict[str, object]:
        trip = item.trip
        route = None
        if trip.route_id is not None:
            route = connection.execute(
                select(routes).where(routes.c.id == trip.route_id)
            ).one_or_none()
            if route is None:
                msg = (
                    f"route {trip.route_id!r} is unknown (or was forgotten); report the trip with "
                    "its edges instead"
                )
                raise UnusableTripError(msg)
        edges = self._edges(trip) if route is None else unpack_edges(route.edges)
        if trip.vehicle is not None:
            vehicle = vehicle_of(trip.vehicle)
        else:
            vehicle = CLASSES["car"] if route is None else unpacked_vehicle(route.vehicle)
        measured = MeasuredTrip(vehicle, edges, *spans_of(trip, edges.size))
        self.reader.require_plausible(measured)
        row = measured.pack() | {
            "key_id": item.key_id,
            "owner": item.name,
            "trip_id": trip.trip_id,
            "received_at": now_us(),
            "driven_at": (trip.driven_at - EPOCH) // timedelta(microseconds=1),
            "route_id": trip.route_id,
            "total_wh": measured.total_wh,
        }
        if route is not None and row["vehicle"] == route.vehicle and measured.total_wh is not None:
            off = abs(measured.total_wh - route.mean_wh)
            row |= {
                "predicted_wh": route.mean_wh,
                "predicted_std_wh": route.std_wh,
                "best_wh": route.best_wh,
                "inside": bool(off <= INTERVAL * route.std_wh),
            }
        return row

    def _edges(self, trip: TripIn) -> Any:  # noqa: ANN401 - an array
        try:
            return np.array([self.network.position(name) for name in trip.edges or ()])
        except ValueError as error:
            raise UnusableTripError(str(error)) from error

    @staticmethod
    def _known(connection: Connection, owner: str, trip_id: str) -> str | None:
        """Return the checksum of the content a trip id was first sent with."""
        mine = (trips.c.owner == owner) & (trips.c.trip_id == trip_id)
        found = connection.execute(select(trips.c.content_sha256).where(mine)).scalar()
        if found is None:
            hashed = folded_ids.c.trip_sha256 == trip_digest(owner, trip_id)
            found = connection.execute(select(folded_ids.c.content_sha256).where(hashed)).scalar()
        return found

    def stored_trips(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Return some trips as they were stored, oldest first."""
        query = select(trips).where(trips.c.sequence > after).order_by(trips.c.sequence)
        with self.database.reading() as connection:
            rows = connection.execute(query.limit(limit)).all()
        return [self._as_stored(row) for row in rows]

    def _as_stored(self, row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row
        trip = MeasuredTrip.unpack(row.vehicle, row.edges, row.spans, row.energies_wh)
        spans = zip(trip.first.tolist(), trip.last.tolist(), trip.energies_wh.tolist(), strict=True)
        return {
            "sequence": row.sequence,
            "trip_id": row.trip_id,
            "key": row.key_id,
            "route_id": row.route_id,
            "received_at": row.received_at,
            "driven_at": row.driven_at,
            "edges": self.network.edge_ids[trip.edges].tolist(),
            "spans": [{"first": f, "last": last, "energy_wh": e} for f, last, e in spans],
            "total_wh": row.total_wh,
            "predicted_wh": row.predicted_wh,
            "predicted_std_wh": row.predicted_std_wh,
            "best_wh": row.best_wh,
        }

    def counts(self) -> tuple[int, int]:
        """Return how many trips are stored (folded ones included) and quarantined."""
        with self.database.reading() as connection:
            number = connection.execute(select(func.count()).select_from(trips)).scalar_one()
            old = connection.execute(select(func.count()).select_from(folded_ids)).scalar_one()
            aside = connection.execute(select(func.count()).select_from(quarantine)).scalar_one()
        return int(number) + int(old), int(aside)

    def oldest_unlearned_us(self, mark: int) -> int | None:
        """Return when the oldest trip was received that a belief with this mark does not know."""
        with self.database.reading() as connection:
            known = mark_of_trips(connection.dialect.name)
            oldest = select(func.min(trips.c.received_at)).where(known >= mark)
            return connection.execute(oldest).scalar()

    def calibration(self) -> tuple[Sums, Sums]:
        """Return sums over all whole trips on routes, and over the most recent ones."""
        with self.database.reading() as connection:
            everything = _sums(connection, None)
            for sums in connection.execute(select(folded.c.sums)).scalars():
                old = FoldedTrips.unpack(sums).calibration
                everything = Sums(*np.add(everything, old).tolist())
            return everything, _sums(connection, RECENT)


def purge(database: Database, key_id: str) -> int:
    """Forget all trips and routes of a key; beliefs are made again without them."""
    with database.engine.begin() as connection:
        lock_epoch(connection)  # no fold comes between
        number = connection.execute(delete(trips).where(trips.c.key_id == key_id)).rowcount
        for table in (routes, quarantine, folded, folded_ids):
            connection.execute(delete(table).where(table.c.key_id == key_id))
        bump_epoch(connection)
    return number


def forget_routes(database: Database, before_us: int) -> None:
    """Delete routes issued long ago; their trips keep what was predicted."""
    with database.engine.begin() as connection:
        connection.execute(delete(routes).where(routes.c.issued_at < before_us))


def forget_quarantined(database: Database, before_us: int) -> None:
    """Delete trips that were put aside long ago."""
    with database.engine.begin() as connection:
        connection.execute(delete(quarantine).where(quarantine.c.received_at < before_us))


def _revoked(connection: Connection, key_ids: Collection[str]) -> set[str]:
    """Return which keys have been revoked; nobody revokes one until this transaction ends."""
    rows = connection.execute(
        select(keys.c.id, keys.c.revoked_at)
        .where(keys.c.id.in_(key_ids))
        .with_for_update(read=True)
    )
    return {row.id for row in rows if row.revoked_at is not None}


def trip_digest(owner: str, trip_id: str) -> str:
    """Return the hash by which a folded trip is known."""
    return hashlib.sha256(f"{owner}\0{trip_id}".encode()).hexdigest()


def _again(trip_id: str, *, same: bool) -> TripOutcome:
    if same:
        return TripOutcome(trip_id=trip_id, status="duplicate", detail="known already")
    detail = "this trip_id was sent before with other content; choose another id for another trip"
    return TripOutcome(trip_id=trip_id, status="conflict", detail=detail)


def _sums(connection: Connection, most: int | None) -> Sums:
    source = select(trips).where(trips.c.predicted_wh.is_not(None))
    if most is not None:
        source = source.order_by(trips.c.sequence.desc()).limit(most)
    some = source.subquery()
    z = (some.c.total_wh - some.c.predicted_wh) / some.c.predicted_std_wh
    inside = case((some.c.inside == true(), 1), else_=0)
    columns = (z, z * z, inside, some.c.total_wh, some.c.best_wh)
    row = connection.execute(select(func.count(), *(func.sum(column) for column in columns))).one()
    return Sums(int(row[0]), *(float(value or 0.0) for value in row[1:]))
