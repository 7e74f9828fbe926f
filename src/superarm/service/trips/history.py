"""Reading trips, each once, in the order in which they became certain."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
from sqlalchemy import Connection, delete, insert, select, update

from superarm.arrays import Vector
from superarm.beliefs import Evidence
from superarm.beliefs.ensemble.summed import of_evidence
from superarm.errors import SuperarmError
from superarm.navigation.times import TimeSums
from superarm.service.database import (
    Database,
    bump_epoch,
    epoch_of,
    horizon,
    lock_epoch,
    mark_of_trips,
)
from superarm.service.model.trip import Addable, MeasuredTrip, Reader, Source, TripSums
from superarm.service.tables import folded, folded_ids, trips
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.packing import trip_digest, unpacked
from superarm.service.trips.quarantine import move_aside
from superarm.service.trips.standings import Standing, all_standings

_AT_ONCE = 2_000
_FOLDED_AT_ONCE = 2_000
_MOST_KEPT = 4_000  # trips kept one by one until they are learned
_MOST_SPREAD = 10.0  # a share that no trips have in common
_UNREADABLE = "the learner cannot make sense of this trip"


@dataclass(frozen=True)
class Cursor:
    """How far a belief has read.

    Attributes:
        epoch: of the history; in another one everything is read again.
        mark: all trips whose transaction (in SQLite: whose sequence number) lies below are read.
        sequence: of the last trip that was read, and
        digest: the checksum of its content, to notice a database that is not the same any more;
            empty if that trip is gone for a known reason.
        until: of a reading in pieces, the mark at which it ends; trips from `mark` to there are
            read up to `sequence`. Zero where nothing is left to read.
        anew: whether that reading began with the first trip of all.
    """

    epoch: int = -1
    mark: int = 0
    sequence: int = 0
    digest: str = ""
    until: int = 0
    anew: bool = False


@dataclass(frozen=True)
class Stretch:
    """Which trips are read: marks from `begin` to before `until`, sequence numbers above `after`.

    Attributes:
        last: the highest sequence number among them, once they were read.
    """

    begin: int
    until: int
    after: int = 0
    last: int | None = None


@dataclass(frozen=True, eq=False)
class ReadTrip:
    """One trip that was read."""

    sequence: int
    key_id: str
    trip: MeasuredTrip
    source: Source


@dataclass(frozen=True, eq=False)
class NewTrips(Generic[TripSums]):
    """What has been read: the sums of some trips, and how far that goes.

    Attributes:
        restart: whether this is everything from the beginning, not only what is new.
        singly: the trips one by one, as far as they are few; their sums are in `evidence`.
        standings: how keys stand.
        oldest_us: when the oldest new trip was received; zero if there is none, or all are read.
        stretch: which trips were read.
        unreadable: trips that were put aside instead.
    """

    cursor: Cursor
    restart: bool
    evidence: TripSums
    visits: Vector
    times: TimeSums
    trips: int
    singly: tuple[ReadTrip, ...]
    standings: Mapping[str, Standing]
    oldest_us: int
    stretch: Stretch
    unreadable: int = 0

    @property
    def more(self) -> bool:
        """Whether this is a piece, and the next one can be read at once."""
        return self.cursor.until > 0

    @property
    def goes_on(self) -> bool:
        """Whether this is a piece, and not the first one."""
        return self.stretch.after > 0


class History(Generic[TripSums]):
    """The trips of a database, for one reader."""

    def __init__(self, database: Database, reader: Reader[TripSums]) -> None:
        """Remember what to read."""
        self._database = database
        self._reader = reader

    def since(
        self, cursor: Cursor, *, again: bool = True, at_most: int | None = None
    ) -> NewTrips[TripSums]:
        """Return what is new since the cursor, or everything if the history was changed.

        Args:
            cursor: how far the reader has come.
            again: whether to begin again if the history was changed; else only what is new is
                returned, and the cursor keeps the epoch it has.
            at_most: how many trips to read before returning a piece; the cursor says where to
                go on.
        """
        bad: list[int] = []
        with self._database.reading() as connection:
            epoch, end = epoch_of(connection), horizon(connection)
            how = all_standings(connection)
            # a backup may have been restored: then the past is not what was learned
            same = end >= max(cursor.mark, cursor.until) and _still_there(connection, cursor)
            changed = epoch != cursor.epoch or not same
            restart = changed and (again or cursor.epoch < 0)
            goes_on = cursor.until > 0 and not restart
            anew = restart or (goes_on and cursor.anew)
            stretch = (
                Stretch(min(cursor.mark, end), min(cursor.until, end), cursor.sequence)
                if goes_on
                else Stretch(0 if restart else min(cursor.mark, end), end)
            )
            pile = Pile(self._folded(connection, how) if restart else self._nothing())
            oldest, last = 0, (0, "") if restart else (cursor.sequence, cursor.digest)
            count, singly = 0, list[ReadTrip]()
            for rows in self._batches(connection, stretch, at_most):
                oldest = oldest or (0 if anew else rows[0].received_at)
                last = (rows[-1].sequence, rows[-1].content_sha256)
                count += len(rows)
                read = self._read(rows, how, bad)
                pile.add(self._summed(read, bad))
                if len(singly) + len(read) <= _MOST_KEPT:
                    singly += [one for one in read if one.sequence not in bad]
        total = pile.total
        for sequence in bad:
            move_aside(self._database, [sequence], _UNREADABLE)
        if last[0] in bad:  # the trip to be remembered by is gone
            last = (last[0], "")
        known = epoch if restart or not changed else cursor.epoch
        position = Cursor(known, stretch.until, *last)
        if count == at_most:  # there may be more
            position = Cursor(known, stretch.begin, *last, stretch.until, anew)
        whole = not goes_on and not position.until
        kept = tuple(singly) if len(singly) == total.trips and (whole or not anew) else ()
        return NewTrips(
            position,
            restart,
            total.evidence,
            total.visits,
            total.times,
            total.trips,
            kept,
            how,
            oldest,
            replace(stretch, last=last[0] if count else stretch.after),
            len(bad),
        )

    def again(self, news: NewTrips[TripSums]) -> Iterator[FoldedTrips[TripSums] | list[ReadTrip]]:
        """Yield what was read once more, in pieces: sums of folded trips, then trips one by one."""
        with self._database.reading() as connection:
            if news.restart:
                for row in connection.execute(select(folded)).all():
                    standing = news.standings.get(row.key_id, Standing(row.key_id))
                    if not standing.is_aside:
                        yield self._placed(row, standing)
            for rows in self._batches(connection, news.stretch):
                yield self._read(rows, news.standings, [])

    def _nothing(self) -> FoldedTrips[TripSums]:
        size, times = self._reader.n_edges, self._reader.times(())
        return FoldedTrips(self._reader.nothing(), np.zeros(size), times, 0)

    def _folded(self, connection: Connection, how: Mapping[str, Standing]) -> FoldedTrips[TripSums]:
        """Return what was folded, but of keys that are set aside."""
        total = self._nothing()
        for row in connection.execute(select(folded)):
            standing = how.get(row.key_id, Standing(row.key_id))
            if not standing.is_aside:
                total += self._placed(row, standing)
        return total

    def _placed(self, row: Any, standing: Standing) -> FoldedTrips[TripSums]:  # noqa: ANN401 - a row
        sums = FoldedTrips.unpack(row.sums, self._reader.times(()))
        evidence = sums.evidence
        if isinstance(evidence, Evidence) and self._reader.form is not Evidence:
            evidence = of_evidence(evidence, np.ones(evidence.weighted.size))
        placed = self._reader.placed(evidence, standing.source(0.0))
        return FoldedTrips(placed, sums.visits, sums.times, sums.trips)

    def _read(
        self, rows: Sequence[Any], how: Mapping[str, Standing], bad: list[int]
    ) -> list[ReadTrip]:
        """Return trips of keys that are not set aside; note what is no trip."""
        read = []
        for row in rows:
            standing = how.get(row.key_id, Standing(row.key_id))
            if standing.is_aside:
                continue
            try:
                columns = (row.vehicle, row.edges, row.spans, row.energies_wh)
                more = (row.at_rest, row.durations, self._reader.n_edges)
                trip = unpacked(*columns, *more)
                spread = float(row.spread)
                known = standing.source(spread if 0 <= spread <= _MOST_SPREAD else np.nan)
                source = replace(known, widened=float(row.widened))
            except (ValueError, TypeError, OverflowError):
                bad.append(row.sequence)
            else:
                read.append(ReadTrip(row.sequence, row.key_id, trip, source))
        return read

    def _summed(self, read: Sequence[ReadTrip], bad: list[int]) -> FoldedTrips[TripSums]:
        """Return the sums of trips; those that spoil them are found by halving, and noted."""
        total = self._nothing()

        def add(some: Sequence[ReadTrip]) -> None:
            nonlocal total
            total += FoldedTrips(
                sound_evidence(self._reader, some),
                self._reader.visits(one.trip for one in some),
                sound_times(self._reader, some),
                len(some),
            )

        bad += [one.sequence for one in bisected(read, add)]
        return total

    @staticmethod
    def _batches(
        connection: Connection, stretch: Stretch, at_most: int | None = None
    ) -> Iterator[Sequence[Any]]:
        mark = mark_of_trips(connection.dialect.name)
        columns = (trips.c.vehicle, trips.c.edges, trips.c.spans, trips.c.energies_wh)
        more = (trips.c.at_rest, trips.c.durations, trips.c.key_id, trips.c.spread, trips.c.widened)
        when = (trips.c.received_at, trips.c.sequence, trips.c.content_sha256)
        query = (
            select(*columns, *more, *when)
            .where((mark >= stretch.begin) & (mark < stretch.until))
            .where(trips.c.sequence > stretch.after)
            .order_by(trips.c.sequence)
            .limit(at_most)
            .execution_options(yield_per=_AT_ONCE)
        )
        if stretch.last is not None:
            query = query.where(trips.c.sequence <= stretch.last)
        yield from connection.execute(query).partitions()

    def fold(self, before_us: int) -> int:
        """Sum up the trips received before some time and delete them; return how many.

        What is believed does not change (but for keys without a slot, whose gains were a noise of
        each trip and become one of all that is folded), and trip ids are kept as hashes, so that a
        trip sent again is known. Workers read the history anew, since they may not have learned
        all of these.
        """
        count = 0
        while some := self._fold_some(before_us):
            count += some
        return count

    def _fold_some(self, before_us: int) -> int:
        bad: list[int] = []
        count = self._folded_once(before_us, bad)
        if bad:
            move_aside(self._database, bad, _UNREADABLE)
        return count

    def _folded_once(self, before_us: int, bad: list[int]) -> int:
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
            for key_id in sorted({row.key_id for row in rows}):
                mine = [row for row in rows if row.key_id == key_id]
                self._fold_key(connection, key_id, mine, bad)
            numbers = [row.sequence for row in rows if row.sequence not in bad]
            for begin in range(0, len(numbers), 500):
                some = numbers[begin : begin + 500]
                connection.execute(delete(trips).where(trips.c.sequence.in_(some)))
        return len(rows)

    def _fold_key(
        self, connection: Connection, key_id: str, rows: Sequence[Any], bad: list[int]
    ) -> None:
        size, nothing = self._reader.n_edges, self._reader.times(())
        more = FoldedTrips(self._reader.form.nothing(size + 1), np.zeros(size), nothing, 0)

        def add(some: Sequence[ReadTrip]) -> None:
            nonlocal more
            pairs = [(one.trip, one.source) for one in some]
            found = self._reader.evidence_of_one(pairs, [one.sequence for one in some])
            require_finite(found)
            visits = self._reader.visits(one.trip for one in some)
            more += FoldedTrips(found, visits, sound_times(self._reader, some), len(some))

        bad += [one.sequence for one in bisected(self._read(rows, {}, bad), add)]
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
        found = reader.evidence(pairs, [one.sequence for one in some])
    require_finite(found)
    return found


def sound_times(reader: Reader[Any], some: Sequence[ReadTrip]) -> TimeSums:
    """Return what trips say about times, or raise if that is not finite."""
    with np.errstate(all="ignore"):
        found = reader.times(one.trip for one in some)
    require_finite(found)
    return found


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


def _still_there(connection: Connection, cursor: Cursor) -> bool:
    """Say whether the trip a cursor remembers is in the database, as it was."""
    if not cursor.digest:
        return True
    row = select(trips.c.content_sha256).where(trips.c.sequence == cursor.sequence)
    return bool(connection.execute(row).scalar() == cursor.digest)
