"""Reading trips, each once: all of them, or block by block in the order of their numbers.

A block is complete once no transaction is open any more that could bring a trip with such a number;
only then the next one is begun. So what belongs to a block depends on sequence numbers alone, and
everybody who reads it reads the same, whenever that is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
from sqlalchemy import Connection, func, select

from superarm.arrays import Vector
from superarm.beliefs import Evidence
from superarm.beliefs.ensemble.summed import of_evidence
from superarm.roads.models.likelihood import Reader, TripSums
from superarm.roads.models.times import TimeSums
from superarm.service.database import (
    Database,
    certain_at,
    epoch_of,
    horizon,
    mark_of_trips,
)
from superarm.service.tables import folded, trips
from superarm.service.trips.device_state import DeviceState, read_state
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.quarantine import move_aside
from superarm.service.trips.reading import (
    UNREADABLE,
    Pile,
    ReadTrip,
    bisected,
    read_rows,
    sound_evidence,
    sound_times,
)
from superarm.service.trips.retention import Retention
from superarm.service.trips.standings import Standing, all_standings

_AT_ONCE = 2_000


@dataclass(frozen=True)
class Cursor:
    """How far a belief has read: the trips up to `number`, and all whose mark lies below `mark`.

    Attributes:
        epoch: of the history; in another one everything is read again.
        number: all trips with this or a lower sequence number are read.
        mark: all trips whose transaction (in SQLite: whose sequence number) lies below are read.
        sequence: of the last trip that was read, and
        digest: the checksum of its content, to notice a database that is not the same any more;
            empty if that trip is gone for a known reason.
        certain_at: the horizon at which the block that is being read is complete; zero as long as
            no trip after it was seen.
        anew: whether this reading began with the first trip of all, and has not come to its end.
    """

    epoch: int = -1
    number: int = 0
    mark: int = 0
    sequence: int = 0
    digest: str = ""
    certain_at: int = 0
    anew: bool = False


@dataclass(frozen=True)
class Blocks:
    """How trips are to be read in blocks.

    Attributes:
        held: what is known of devices, as the reader has last seen it stored; up to where it
            reaches trips are only summed up.
        cut: returns the last number of the block that begins after a number.
        known: up to which number the reader knows devices by itself.
        at_most: how many trips to sum up before returning a piece.
        closing: whether to end the block although no trip after it was seen.
    """

    held: DeviceState
    cut: Callable[[int], int]
    known: int = 0
    at_most: int | None = None
    closing: bool = False


@dataclass(frozen=True)
class Stretch:
    """Which trips are read: marks from `begin` to before `until`, numbers in (above, up_to]."""

    begin: int
    until: int
    above: int = 0
    up_to: int | None = None


@dataclass(frozen=True, eq=False)
class NewTrips(Generic[TripSums]):
    """What has been read: the sums of some trips, and how far that goes.

    Attributes:
        restart: whether this is everything from the beginning, not only what is new.
        more: whether there is more to read at once.
        singly: the trips of a block one by one; their sums are in `evidence`.
        standings: how keys stand.
        state: what is known of devices, as it is stored.
        oldest_us: when the oldest new trip was received; zero if there is none, or all are read.
        stretch: which trips were read.
        unreadable: trips that were put aside instead.
    """

    cursor: Cursor
    restart: bool
    more: bool
    evidence: TripSums
    visits: Vector
    times: TimeSums
    trips: int
    singly: tuple[ReadTrip, ...]
    standings: Mapping[str, Standing]
    state: DeviceState
    oldest_us: int
    stretch: Stretch
    unreadable: int = 0


class History(Generic[TripSums]):
    """The trips of a database, for one reader."""

    def __init__(self, database: Database, reader: Reader[TripSums]) -> None:
        """Remember what to read."""
        self._database = database
        self._reader = reader
        self.retention = Retention(database, reader)

    def fold(self, before_us: int) -> int:
        """Sum up and delete trips received before some time; see `Retention.fold`."""
        return self.retention.fold(before_us)

    def since(
        self, cursor: Cursor, blocks: Blocks | None = None, *, again: bool = True
    ) -> NewTrips[TripSums]:
        """Return what is new since the cursor, or everything if the history was changed.

        Args:
            cursor: how far the reader has come.
            blocks: how to read in blocks; else everything that is certain is read at once.
            again: whether to begin again if the history was changed; else only what is new is
                returned, and the cursor keeps the epoch it has.
        """
        bad: list[int] = []
        with self._database.reading() as connection:
            epoch = epoch_of(connection)
            state = DeviceState() if blocks is None else read_state(connection, blocks.held)
            changed = epoch != cursor.epoch or not _is_same(connection, cursor, blocks, state)
            restart = changed and (again or cursor.epoch < 0)
            begin = Cursor(epoch, anew=True) if restart else cursor
            if blocks is None:
                plan = _Plan.everything(connection, begin)
            else:
                plan = _Plan.of_blocks(connection, begin, blocks, state, restart=restart)
            how = all_standings(connection)
            pile = Pile(self._folded(connection, how) if restart else self._nothing())
            oldest, count, singly = 0, 0, list[ReadTrip]()
            last = (begin.sequence, begin.digest)
            for rows in self._batches(connection, plan.stretch, plan.at_most):
                oldest = oldest or (0 if begin.anew else rows[0].received_at)
                last = (rows[-1].sequence, rows[-1].content_sha256)
                count += len(rows)
                read = read_rows(rows, how, self._reader.n_edges, bad)
                pile.add(self._summed(read, bad))
                if plan.singly:
                    singly += [one for one in read if one.sequence not in bad]
            position, more = plan.after, plan.more
            if count == plan.at_most:  # there may be more of these
                position, more = _after(connection, begin, last[0]), True
        total = pile.total
        for sequence in bad:
            move_aside(self._database, [sequence], UNREADABLE)
        if last[0] in bad:  # the trip to be remembered by is gone
            last = (last[0], "")
        position = replace(position, sequence=last[0], digest=last[1], anew=begin.anew and more)
        return NewTrips(
            position,
            restart,
            more,
            total.evidence,
            total.visits,
            total.times,
            total.trips,
            tuple(singly),
            how,
            state,
            oldest,
            replace(plan.stretch, up_to=last[0] if count else plan.stretch.above),
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
                yield read_rows(rows, news.standings, self._reader.n_edges, [])

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
        times = self._reader.times(()) if standing.durations_aside_at else sums.times
        return FoldedTrips(placed, sums.visits, times, sums.trips)

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
        more = (trips.c.at_rest, trips.c.durations, trips.c.time_factor, trips.c.key_id)
        source = (trips.c.spread, trips.c.widened)
        when = (trips.c.received_at, trips.c.sequence, trips.c.content_sha256)
        query = (
            select(*columns, *more, *source, *when)
            .where((mark >= stretch.begin) & (mark < stretch.until))
            .where(trips.c.sequence > stretch.above)
            .order_by(trips.c.sequence)
            .limit(at_most)
            .execution_options(yield_per=_AT_ONCE)
        )
        if stretch.up_to is not None:
            query = query.where(trips.c.sequence <= stretch.up_to)
        yield from connection.execute(query).partitions()


@dataclass(frozen=True)
class _Plan:
    """What to read next.

    Attributes:
        stretch: which trips.
        after: where the reader is when it has read them.
        more: whether there is more to read then.
        singly: whether they are wanted one by one.
        at_most: how many at one time.
    """

    stretch: Stretch
    after: Cursor
    more: bool = False
    singly: bool = False
    at_most: int | None = None

    @classmethod
    def everything(cls, connection: Connection, begin: Cursor) -> "_Plan":
        """Return the plan to read all that is certain."""
        end = horizon(connection)
        return cls(Stretch(begin.mark, end, begin.number), replace(begin, mark=end))

    @classmethod
    def of_blocks(
        cls,
        connection: Connection,
        begin: Cursor,
        blocks: Blocks,
        state: DeviceState,
        *,
        restart: bool,
    ) -> "_Plan":
        """Return the plan to read up to where the state reaches, or the block that is open."""
        end, newest = horizon(connection), _newest(connection)
        if restart or state.reached > begin.number:  # all of these have become certain before
            stretch = Stretch(begin.mark, end, begin.number, state.reached)
            after = _after(connection, begin, state.reached)
            return cls(stretch, after, newest > state.reached, at_most=blocks.at_most)
        number = blocks.cut(begin.number)
        if newest <= number and not blocks.closing:  # the block goes on
            stretch = Stretch(begin.mark, end, begin.number, number)
            return cls(stretch, replace(begin, mark=end), singly=True)
        certain = begin.certain_at or certain_at(connection)
        if end < certain:  # a trip of this block may still be under way: those after it wait
            stretch = Stretch(begin.mark, begin.mark, begin.number, begin.number)
            # looked at again at once, and then as often as for new trips
            return cls(stretch, replace(begin, certain_at=certain), more=not begin.certain_at)
        stretch = Stretch(begin.mark, end, begin.number, number)
        after = _after(connection, begin, number)
        return cls(stretch, after, newest > number, singly=True)


def _after(connection: Connection, begin: Cursor, number: int) -> Cursor:
    """Return where a reader is that has read all trips up to a number."""
    mark = begin.mark
    if connection.dialect.name == "sqlite":  # the number is the mark; but there may be no such trip
        mark = min(number + 1, horizon(connection))
    return replace(begin, number=number, mark=mark, certain_at=0)


def _newest(connection: Connection) -> int:
    """Return the highest sequence number that can be seen."""
    return int(connection.execute(select(func.max(trips.c.sequence))).scalar() or 0)


def _is_same(
    connection: Connection, cursor: Cursor, blocks: Blocks | None, state: DeviceState
) -> bool:
    """Say whether this database is the one that was read; a backup may have been restored."""
    if horizon(connection) < cursor.mark:
        return False
    if blocks is not None and max(state.reached, blocks.known) < cursor.number:
        return False
    if not cursor.digest:
        return True
    row = select(trips.c.content_sha256).where(trips.c.sequence == cursor.sequence)
    return bool(connection.execute(row).scalar() == cursor.digest)
