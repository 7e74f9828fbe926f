"""Where trips are kept: each once, all of a batch in one transaction."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from superarm.roads.network.network import RoadNetwork
from superarm.service.database import (
    Database,
    bump_epoch,
    lock_epoch,
    mark_of_trips,
    now_us,
    transaction_number,
)
from superarm.service.tables import (
    calibration,
    folded,
    folded_ids,
    keys,
    quarantine,
    trips,
)
from superarm.service.trips.device_state import forget_device
from superarm.service.trips.intake import Checked
from superarm.service.trips.packing import trip_digest, unpacked
from superarm.service.trips.quarantine import (
    IMPLAUSIBLE,
    SET_ASIDE,
    count_quarantined,
    put_aside,
    taken_out,
)
from superarm.service.trips.schemas import TripOutcome
from superarm.service.trips.standings import (
    Standing,
    all_standings,
    forget_standing,
    standings_of,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_QUARANTINED = 10_000
"""How many trips of one key are put aside; beyond, an administrator must look first."""

RECENT = 1_000
"""How many trips the recent calibration is over."""

_VOUCHED, _MOST_WIDENED = 1.5, 1e4

MOST_LISTED_EDGES = 20_000
"""Trips are listed until they have so many edges; go on after the last one."""

_PAUSED = "The trip was put aside, not learned"


class Sums(NamedTuple):
    """Sums over trips, against what was predicted when they were reported.

    Attributes:
        trips: how many say what they used; the other counts are of these, or of timed ones.
        only_timed: how many say how long they took, and no more.
    """

    trips: int = 0
    z: float = 0.0
    squares: float = 0.0
    inside: int = 0
    energy_wh: float = 0.0
    predicted_wh: float = 0.0
    routed: int = 0
    routed_wh: float = 0.0
    best_wh: float = 0.0
    time_trips: int = 0
    time_z: float = 0.0
    time_squares: float = 0.0
    time_inside: int = 0
    time_s: float = 0.0
    time_predicted_s: float = 0.0
    only_timed: int = 0

    @property
    def all_trips(self) -> int:
        """How many there were."""
        return self.trips + self.only_timed

    def plus(self, other: "Sums") -> "Sums":
        """Return the sums of both."""
        return Sums._make(left + right for left, right in zip(self, other, strict=True))

    @classmethod
    def of(cls, row: Any) -> "Sums":  # noqa: ANN401 - a row, or columns to store
        """Return the terms of one trip."""
        told = row["predicted_std_wh"] > 0  # or it says how long it took, and no more
        z = (row["measured_wh"] - row["predicted_wh"]) / row["predicted_std_wh"] if told else 0.0
        routed = row["best_wh"] is not None
        measured = row["measured_wh"]
        energy = cls(
            trips=int(told),
            z=z,
            squares=z * z,
            inside=int(told and row["inside"]),
            energy_wh=measured,
            predicted_wh=row["predicted_wh"],
            routed=int(routed),
            routed_wh=measured if routed else 0.0,
            best_wh=row["best_wh"] if routed else 0.0,
            only_timed=int(not told),
        )
        if row["measured_s"] is None:
            return energy
        off = (row["measured_s"] - row["predicted_s"]) / row["predicted_std_s"]
        return energy._replace(
            time_trips=1,
            time_z=off,
            time_squares=off * off,
            time_inside=int(row["time_inside"]),
            time_s=row["measured_s"],
            time_predicted_s=row["predicted_s"],
        )


class TripStore:
    """Reads and writes the database; every method is one transaction."""

    def __init__(self, database: Database, network: RoadNetwork, n_slots: int) -> None:
        """Remember where and about what."""
        self.database = database
        self.network = network
        self._n_slots = n_slots

    def keep(self, items: Sequence[Checked]) -> list[TripOutcome]:
        """Store trips durably and say what became of each; they have been looked at."""
        with self.database.engine.begin() as connection:
            return self._keep_all(connection, items, released=False)

    def release(self, item: Checked, sequence: int) -> TripOutcome | None:
        """Let a quarantined trip be learned although it is not plausible.

        It leaves the quarantine in the transaction that stores it, so that it cannot come back
        after somebody else has dropped it; then nothing is stored, and nothing returned.

        Args:
            item: the trip, looked at again.
            sequence: of the trip in the quarantine.
        """
        with self.database.engine.begin() as connection:
            if not taken_out(connection, sequence):
                return None
            outcome = self._keep_all(connection, [item], released=True)[0]
            if outcome.status not in {"accepted", "duplicate"}:
                connection.rollback()
        return outcome

    def _keep_all(
        self, connection: Connection, items: Sequence[Checked], *, released: bool
    ) -> list[TripOutcome]:
        number = transaction_number(connection)
        senders = {item.key_id for item in items}
        gone = _gone(connection, senders)
        known = standings_of(connection, senders, self._n_slots)
        sums: dict[tuple[str, str], Sums] = {}
        outcomes = [
            self._keep_one(connection, item, number, gone, known[item.key_id], sums, released)
            for item in items
        ]
        for (key_id, vehicle), more in sorted(sums.items()):  # in one order: no deadlocks
            _add_sums(connection, self._insert(calibration), key_id, vehicle, more)
        return outcomes

    def _keep_one(  # noqa: PLR0911, PLR0913, PLR0917 - one per status; what a transaction knows
        self,
        connection: Connection,
        item: Checked,
        number: int,
        gone: Collection[str],
        standing: Standing,
        sums: dict[tuple[str, str], Sums],
        released: bool,  # noqa: FBT001 - as above
    ) -> TripOutcome:
        name = item.trip.trip_id
        if item.key_id in gone and not released:
            detail = "the key was revoked or has expired; ask for another"
            return TripOutcome(trip_id=name, status="rejected", detail=detail)
        known = self._known(connection, item.owner, name)
        if known is not None:
            return _again(name, same=known == item.digest)
        if item.problem is not None:
            return TripOutcome(trip_id=name, status="rejected", detail=item.problem)
        if not released:
            if standing.is_aside:
                reason = f"this key is set aside: {standing.reason}"
                return _aside(connection, item, SET_ASIDE, reason)
            if item.implausible is not None:
                return _aside(connection, item, IMPLAUSIBLE, item.implausible)
        row: dict[str, Any] = dict(item.row) | {
            "key_id": item.key_id,
            "owner": item.owner,
            "received_at": now_us(),
            "driven_at": (item.trip.driven_at - EPOCH) // timedelta(microseconds=1),
            "content_sha256": item.digest,
            "xact": number,
            "widened": 1.0,
            "left_out": ",".join(map(str, item.left_out)) or None,
        }
        if released:  # somebody vouches for it: a surprise that says nothing against its key
            row["widened"] = min(max(item.worst, _VOUCHED), _MOST_WIDENED)
            row["left_out"] = None if item.implausible is not None else row["left_out"]
        # another worker may have stored it in this very moment
        new = self._insert(trips).on_conflict_do_nothing().returning(trips.c.sequence)
        if connection.execute(new, row).scalar() is None:
            known = self._known(connection, item.owner, name)
            return _again(name, same=known == item.digest)
        place = (item.key_id, str(row["vehicle_class"]))
        sums[place] = sums.get(place, Sums()).plus(Sums.of(row))
        notes = [] if item.note is None else [item.note]
        left: list[int] = []
        if row["left_out"] is not None:
            left = list(item.left_out)
            notes.insert(0, f"{len(left)} measurements are not plausible and were left out")
        told = "; ".join(notes) or None
        return TripOutcome(trip_id=name, status="accepted", detail=told, left_out=left)

    def _insert(self, table: Table) -> Any:  # noqa: ANN401 - of either dialect
        return (sqlite if self.database.is_sqlite else postgresql).insert(table)

    @staticmethod
    def _known(connection: Connection, owner: str, trip_id: str) -> str | None:
        """Return the checksum of the content a trip id was first sent with."""
        mine = (trips.c.owner == owner) & (trips.c.trip_id == trip_id)
        found = connection.execute(select(trips.c.content_sha256).where(mine)).scalar()
        if found is None:
            hashed = folded_ids.c.trip_sha256 == trip_digest(owner, trip_id)
            found = connection.execute(select(folded_ids.c.content_sha256).where(hashed)).scalar()
        return found

    def stored_trips(
        self, after: int, limit: int, mark: int, key_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return some trips as they were stored, oldest first.

        Args:
            after: sequence number to go on after.
            limit: how many.
            mark: how far the current posterior has read.
            key_id: whose, or everybody's.
        """
        query = select(trips).where(trips.c.sequence > after).order_by(trips.c.sequence)
        if key_id is not None:
            query = query.where(trips.c.key_id == key_id)
        shown, edges = [], 0
        with self.database.reading() as connection:
            for row in connection.execute(query.limit(limit).execution_options(yield_per=20)):
                shown.append(self._as_stored(row, mark))
                edges += len(shown[-1]["edges"])
                if edges > MOST_LISTED_EDGES:  # the rest is for another question
                    break
        return shown

    def state_of(self, owner: str, trip_id: str, mark: int) -> dict[str, Any] | None:
        """Return where a trip is, or nothing if it is nowhere."""
        mine = (trips.c.owner == owner) & (trips.c.trip_id == trip_id)
        aside = (quarantine.c.owner == owner) & (quarantine.c.trip_id == trip_id)
        with self.database.reading() as connection:
            row = connection.execute(select(trips).where(mine)).one_or_none()
            if row is not None:
                stored, standing = self._as_stored(row, mark), all_standings(connection)
                if (how := standing.get(row.key_id)) is not None and how.is_aside:
                    stored["learned"] = False
                    return {"state": "set_aside", "reason": how.reason, "trip": stored}
                state = "learned" if stored["learned"] else "waiting"
                return {"state": state, "trip": stored}
            hashed = folded_ids.c.trip_sha256 == trip_digest(owner, trip_id)
            if connection.execute(select(folded_ids.c.key_id).where(hashed)).scalar() is not None:
                return {"state": "folded"}
            reason = connection.execute(
                select(quarantine.c.reason).where(aside).order_by(quarantine.c.sequence.desc())
            ).scalar()
        return None if reason is None else {"state": "quarantined", "reason": reason}

    def _as_stored(self, row: Any, mark: int) -> dict[str, Any]:  # noqa: ANN401 - a row
        columns = (row.vehicle, row.edges, row.spans, row.energies_wh, row.at_rest, row.durations)
        trip = unpacked(*columns, self.network.n_edges)
        spans = zip(trip.first.tolist(), trip.last.tolist(), trip.energies_wh.tolist(), strict=True)
        return {
            "sequence": row.sequence,
            "trip_id": row.trip_id,
            "key": row.key_id,
            "route": row.route_id,
            "received_at": EPOCH + timedelta(microseconds=row.received_at),
            "driven_at": EPOCH + timedelta(microseconds=row.driven_at),
            "vehicle": row.vehicle_class,
            "edges": self.network.edge_ids[trip.edges].tolist(),
            "spans": [{"first": f, "last": last, "energy_wh": e} for f, last, e in spans],
            "left_out": [int(part) for part in (row.left_out or "").split(",") if part],
            "measured_wh": row.measured_wh,
            "predicted_wh": row.predicted_wh,
            "predicted_std_wh": row.predicted_std_wh,
            "best_wh": row.best_wh,
            "measured_s": row.measured_s,
            "predicted_s": row.predicted_s,
            "predicted_std_s": row.predicted_std_s,
            "learned": bool((row.sequence if self.database.is_sqlite else row.xact) < mark),
        }

    def delete_trip(self, owner: str, trip_id: str) -> bool:
        """Forget a trip, stored or put aside; beliefs are made again without it."""
        with self.database.engine.begin() as connection:
            lock_epoch(connection)
            mine = (trips.c.owner == owner) & (trips.c.trip_id == trip_id)
            row = connection.execute(select(trips).where(mine)).one_or_none()
            aside = (quarantine.c.owner == owner) & (quarantine.c.trip_id == trip_id)
            found = connection.execute(delete(quarantine).where(aside)).rowcount > 0
            if row is not None:
                connection.execute(delete(trips).where(mine))
                gone = Sums._make(-term for term in Sums.of(row._asdict()))
                _add_sums(
                    connection, self._insert(calibration), row.key_id, row.vehicle_class, gone
                )
                bump_epoch(connection)
        return found or row is not None

    def counts(self) -> tuple[int, int]:
        """Return how many trips are stored (folded ones included) and quarantined."""
        with self.database.reading() as connection:
            number = connection.execute(select(func.count()).select_from(trips)).scalar_one()
            old = connection.execute(select(func.count()).select_from(folded_ids)).scalar_one()
            aside = count_quarantined(connection)
        return int(number) + int(old), aside

    def oldest_unlearned_us(self, mark: int) -> int | None:
        """Return when the oldest trip was received that a belief with this mark does not know."""
        with self.database.reading() as connection:
            known = mark_of_trips(connection.dialect.name)
            oldest = select(func.min(trips.c.received_at)).where(known >= mark)
            return connection.execute(oldest).scalar()

    def waiting(self, mark: int) -> Mapping[str, int]:
        """Return how many trips of each key a belief with this mark does not know."""
        with self.database.reading() as connection:
            unknown = mark_of_trips(connection.dialect.name) >= mark
            counts = select(trips.c.key_id, func.count()).where(unknown).group_by(trips.c.key_id)
            return {key_id: int(count) for key_id, count in connection.execute(counts)}

    def calibration(self) -> Mapping[tuple[str, str], Sums]:
        """Return the sums of every key and vehicle class."""
        with self.database.reading() as connection:
            rows = connection.execute(select(calibration)).all()
        return {(row.key_id, row.vehicle): Sums(*row[2:]) for row in rows}

    def recent(self) -> Sums:
        """Return the sums of the trips that came last."""
        energy = ("measured_wh", "predicted_wh", "predicted_std_wh", "inside", "best_wh")
        time = ("measured_s", "predicted_s", "predicted_std_s", "time_inside")
        columns = [trips.c[name] for name in (*energy, *time)]
        query = select(*columns).order_by(trips.c.sequence.desc())
        with self.database.reading() as connection:
            rows = connection.execute(query.limit(RECENT)).all()
        total = Sums()
        for row in rows:
            total = total.plus(Sums.of(row._asdict()))
        return total


def purge(database: Database, key_id: str) -> int:
    """Forget all trips of a key; beliefs are made again without them."""
    with database.engine.begin() as connection:
        lock_epoch(connection)  # no fold comes between
        number = connection.execute(delete(trips).where(trips.c.key_id == key_id)).rowcount
        for table in (quarantine, folded, folded_ids, calibration):
            connection.execute(delete(table).where(table.c.key_id == key_id))
        forget_standing(connection, key_id)
        forget_device(connection, key_id)
        bump_epoch(connection)
    return number


def _gone(connection: Connection, key_ids: Collection[str]) -> set[str]:
    """Return which keys are no longer good; nobody revokes one until this transaction ends."""
    rows = connection.execute(
        select(keys.c.id, keys.c.revoked_at, keys.c.expires_at)
        .where(keys.c.id.in_(key_ids))
        .with_for_update(read=True)
    )
    now = now_us()
    return {
        row.id
        for row in rows
        if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now)
    }


def _aside(connection: Connection, item: Checked, kind: str, reason: str) -> TripOutcome:
    mine = select(quarantine.c.sequence).where(quarantine.c.key_id == item.key_id)
    some = mine.limit(MOST_QUARANTINED).subquery()
    if connection.execute(select(func.count()).select_from(some)).scalar_one() >= MOST_QUARANTINED:
        detail = (
            f"{reason}. {MOST_QUARANTINED:,} trips of this key are put aside already: not kept; "
            "an administrator must look at them first"
        )
        return TripOutcome(trip_id=item.trip.trip_id, status="rejected", detail=detail)
    again = not put_aside(connection, item, kind, reason)
    detail = f"{reason}. {_PAUSED}"
    return TripOutcome(trip_id=item.trip.trip_id, status="quarantined", detail=detail, again=again)


def _again(trip_id: str, *, same: bool) -> TripOutcome:
    if same:
        return TripOutcome(trip_id=trip_id, status="duplicate", detail="known already")
    detail = "this trip_id was sent before with other content; choose another id for another trip"
    return TripOutcome(trip_id=trip_id, status="conflict", detail=detail)


def _add_sums(connection: Connection, new: Any, key_id: str, vehicle: str, more: Sums) -> None:  # noqa: ANN401 - an insert of either dialect
    names = Sums._fields
    values = {"key_id": key_id, "vehicle": vehicle} | dict(zip(names, more, strict=True))
    both = {name: calibration.c[name] + new.excluded[name] for name in names}
    place = [calibration.c.key_id, calibration.c.vehicle]
    connection.execute(new.on_conflict_do_update(index_elements=place, set_=both), values)
