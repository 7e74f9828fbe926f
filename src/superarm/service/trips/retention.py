"""Old trips are summed up and deleted: what they said stays, who drove where goes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic

import numpy as np
from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from superarm.roads.models.likelihood import Reader, TripSums
from superarm.service.database import Database, bump_epoch, lock_epoch
from superarm.service.tables import folded, folded_ids, trips
from superarm.service.trips.device_state import read_state
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.packing import trip_digest
from superarm.service.trips.quarantine import move_aside
from superarm.service.trips.reading import (
    UNREADABLE,
    ReadTrip,
    bisected,
    read_rows,
    require_finite,
    sound_times,
)
from superarm.service.trips.standings import Standing, all_standings

_AT_ONCE = 2_000
_DELETED_AT_ONCE = 500


class Retention(Generic[TripSums]):
    """Folds the old trips of a database; see `FoldedTrips`."""

    def __init__(self, database: Database, reader: Reader[TripSums]) -> None:
        """Remember whose trips."""
        self._database = database
        self._reader = reader

    def oldest_not_compared(self, before_us: int) -> bool:
        """Say whether a trip received before some time has not been compared with others yet."""
        with self._database.reading() as connection:
            reached = read_state(connection).reached
            old = (trips.c.received_at < before_us) & (trips.c.sequence > reached)
            return (
                connection.execute(select(trips.c.sequence).where(old).limit(1)).first() is not None
            )

    def fold(self, before_us: int) -> int:
        """Sum up the trips received before some time and delete them; return how many.

        What is believed does not change (but for keys without a slot, whose gains were a noise of
        each trip and become one of all that is folded), and trip ids are kept as hashes, so that a
        trip sent again is known. Workers read the history anew, since they may not have learned
        all of these. Trips that are to be compared yet are left: see `DeviceState`.
        """
        count = 0
        while some := self._fold_some(before_us):
            count += some
        return count

    def _fold_some(self, before_us: int) -> int:
        bad: list[int] = []
        count = self._folded_once(before_us, bad)
        if bad:
            move_aside(self._database, bad, UNREADABLE)
        return count

    def _folded_once(self, before_us: int, bad: list[int]) -> int:
        with self._database.engine.begin() as connection:
            lock_epoch(connection)  # before looking, so that no purge comes between
            rows = connection.execute(
                select(trips)
                .where(_may_be_folded(connection, before_us))
                .order_by(trips.c.sequence)
                .limit(_AT_ONCE)
            ).all()
            if not rows:
                return 0
            bump_epoch(connection)
            how = all_standings(connection)
            for key_id in sorted({row.key_id for row in rows}):
                mine = [row for row in rows if row.key_id == key_id]
                standing = how.get(key_id, Standing(key_id))
                # a key that is set aside may be let in again, so that its trips are summed up too
                heard = replace(standing, set_aside_at=None, slot=None, vouched_at=None)
                self._fold_key(connection, heard, mine, bad)
            numbers = [row.sequence for row in rows if row.sequence not in bad]
            for begin in range(0, len(numbers), _DELETED_AT_ONCE):
                some = numbers[begin : begin + _DELETED_AT_ONCE]
                connection.execute(delete(trips).where(trips.c.sequence.in_(some)))
        return len(rows)

    def _fold_key(
        self, connection: Connection, standing: Standing, rows: Sequence[Any], bad: list[int]
    ) -> None:
        key_id = standing.key_id
        size, nothing = self._reader.n_edges, self._reader.times(())
        more = FoldedTrips(self._reader.form.nothing(size + 1), np.zeros(size), nothing, 0)

        def add(some: Sequence[ReadTrip]) -> None:
            nonlocal more
            pairs = [(one.trip, one.source) for one in some]
            evidence = self._reader.evidence_of_one(pairs, [one.sequence for one in some])
            require_finite(evidence)
            visits = self._reader.visits(one.trip for one in some)
            more += FoldedTrips(evidence, visits, sound_times(self._reader, some), len(some))

        bad += [
            one.sequence for one in bisected(read_rows(rows, {key_id: standing}, size, bad), add)
        ]
        rows = [row for row in rows if row.sequence not in bad]
        if not rows:
            return
        mine = folded.c.key_id == key_id
        before = connection.execute(select(folded.c.sums).where(mine)).scalar()
        if before is None:
            connection.execute(insert(folded), {"key_id": key_id, "sums": more.pack()})
        else:
            sums = (FoldedTrips.unpack(before, nothing) + more).pack()
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


def _may_be_folded(connection: Connection, before_us: int) -> ColumnElement[bool]:
    old: ColumnElement[bool] = trips.c.received_at < before_us
    known = read_state(connection)
    # where nothing is stored yet nobody learns, or too few trips have come to know anything
    return old & (trips.c.sequence <= known.reached) if known.revision else old
