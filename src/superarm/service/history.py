"""Reading trips, each once, in the order in which they became certain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from superarm.arrays import Vector
from superarm.beliefs import Evidence
from superarm.service.database import (
    Database,
    bump_epoch,
    epoch_of,
    horizon,
    lock_epoch,
    mark_of_trips,
)
from superarm.service.folding import FoldedTrips
from superarm.service.measurements import MeasuredTrip, Reader
from superarm.service.store import Sums, trip_digest
from superarm.service.tables import folded, folded_ids, trips

_AT_ONCE = 2_000
_FOLDED_AT_ONCE = 2_000


@dataclass(frozen=True)
class Cursor:
    """How far a belief has read.

    Attributes:
        epoch: of the history; in another one everything is read again.
        mark: all trips whose transaction (in SQLite: whose sequence number) lies below are read.
        sequence: of one trip that was read, and
        digest: the checksum of its content, to notice a database that is not the same any more.
    """

    epoch: int = -1
    mark: int = 0
    sequence: int = 0
    digest: str = ""


@dataclass(frozen=True, eq=False)
class NewTrips:
    """What has been read: the sums of some trips, and how far that goes.

    Attributes:
        restart: whether this is everything from the beginning, not only what is new.
        oldest_us: when the oldest new trip was received; zero if there is none, or all are read.
    """

    cursor: Cursor
    restart: bool
    evidence: Evidence
    visits: Vector
    trips: int
    oldest_us: int


class History:
    """The trips of a database, for one reader."""

    def __init__(self, database: Database, reader: Reader) -> None:
        """Remember what to read."""
        self._database = database
        self._reader = reader

    def since(self, cursor: Cursor) -> NewTrips:
        """Return what is new since the cursor, or everything if the history was changed."""
        with self._database.reading() as connection:
            epoch, end = epoch_of(connection), horizon(connection)
            # a backup may have been restored: then the past is not what was learned
            same = end >= cursor.mark and _still_there(connection, cursor)
            restart = epoch != cursor.epoch or not same
            begin = 0 if restart else cursor.mark
            total = FoldedTrips.nothing(self._reader.n_edges)
            if restart:
                for sums in connection.execute(select(folded.c.sums)).scalars():
                    total += FoldedTrips.unpack(sums)
            oldest, last = 0, (0, "") if restart else (cursor.sequence, cursor.digest)
            for rows, some in self._batches(connection, begin, end):
                oldest = oldest or (0 if restart else rows[0].received_at)
                last = (rows[-1].sequence, rows[-1].content_sha256)
                total += FoldedTrips(
                    self._reader.evidence(some), self._reader.visits(some), len(some)
                )
        position = Cursor(epoch, end, *last)
        return NewTrips(position, restart, total.evidence, total.visits, total.trips, oldest)

    @staticmethod
    def _batches(
        connection: Connection, begin: int, end: int
    ) -> Iterator[tuple[Sequence[Any], list[MeasuredTrip]]]:
        mark = mark_of_trips(connection.dialect.name)
        columns = (trips.c.vehicle, trips.c.edges, trips.c.spans, trips.c.energies_wh)
        query = (
            select(*columns, trips.c.received_at, trips.c.sequence, trips.c.content_sha256)
            .where((mark >= begin) & (mark < end))
            .order_by(trips.c.sequence)
            .execution_options(yield_per=_AT_ONCE)
        )
        for rows in connection.execute(query).partitions():
            yield rows, [MeasuredTrip.unpack(*row[:4]) for row in rows]

    def fold(self, before_us: int) -> int:
        """Sum up the trips received before some time and delete them; return how many.

        What is believed does not change, and trip ids are kept as hashes, so that a trip sent again
        is known. Workers read the history anew, since they may not have learned all of these.
        """
        count = 0
        while some := self._fold_some(before_us):
            count += some
        return count

    def _fold_some(self, before_us: int) -> int:
        with self._database.engine.begin() as connection:
            lock_epoch(connection)  # before looking, so that no purge comes between
            rows = connection.execute(
                select(trips)
                .where(trips.c.received_at < before_us)
                .order_by(trips.c.sequence)
                .limit(_FOLDED_AT_ONCE)
            ).all()
            if not rows:
                return 0
            bump_epoch(connection)
            for key_id in {row.key_id for row in rows}:
                self._fold_key(connection, key_id, [row for row in rows if row.key_id == key_id])
            numbers = [row.sequence for row in rows]
            for begin in range(0, len(numbers), 500):
                some = numbers[begin : begin + 500]
                connection.execute(delete(trips).where(trips.c.sequence.in_(some)))
        return len(rows)

    def _fold_key(self, connection: Connection, key_id: str, rows: Sequence[Any]) -> None:
        read = [
            MeasuredTrip.unpack(row.vehicle, row.edges, row.spans, row.energies_wh) for row in rows
        ]
        more = FoldedTrips(
            self._reader.evidence(read), self._reader.visits(read), len(read), _calibration(rows)
        )
        mine = folded.c.key_id == key_id
        before = connection.execute(select(folded.c.sums).where(mine)).scalar()
        if before is None:
            connection.execute(insert(folded), {"key_id": key_id, "sums": more.pack()})
        else:
            sums = (FoldedTrips.unpack(before) + more).pack()
            connection.execute(update(folded).where(mine).values(sums=sums))
        connection.execute(
            insert(folded_ids),
            [
                {
                    "trip_sha256": trip_digest(row.owner, row.trip_id),
                    "key_id": key_id,
                    "content_sha256": row.content_sha256,
                }
                for row in rows
            ],
        )


def _still_there(connection: Connection, cursor: Cursor) -> bool:
    """Say whether the trip a cursor remembers is in the database, as it was."""
    if not cursor.sequence:
        return True
    row = select(trips.c.content_sha256).where(trips.c.sequence == cursor.sequence)
    return bool(connection.execute(row).scalar() == cursor.digest)


def _calibration(rows: Sequence[Any]) -> Sums:
    total = [0.0] * 6
    for row in rows:
        if row.predicted_wh is None:
            continue
        z = (row.total_wh - row.predicted_wh) / row.predicted_std_wh
        terms = (1, z, z * z, bool(row.inside), row.total_wh, row.best_wh)
        total = [old + float(new) for old, new in zip(total, terms, strict=True)]
    return Sums(int(total[0]), *total[1:])
