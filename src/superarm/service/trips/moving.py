"""Stored trips move to another map: what was measured on roads that are still there goes on."""

import secrets
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sqlalchemy import delete, func, select, update

from superarm.errors import DataError
from superarm.roads.matching.map_updates import EdgeMap
from superarm.roads.models.fleet import MODEL_VERSION
from superarm.roads.models.likelihood import MeasuredTrip
from superarm.service.database import Database, bump_epoch, lock_epoch
from superarm.service.tables import facts, folded, quarantine, trips
from superarm.service.trips.packing import packed, unpacked

_AT_ONCE = 500


@dataclass
class Moved:
    """What became of stored trips.

    Attributes:
        whole: trips of which all measurements moved.
        partly: trips of which some did.
        left: trips of which none did; they stay in the old database alone.
        measurements: how many moved, and
        lost: how many did not.
        aside: trips in quarantine, which stay in the old database alone.
    """

    whole: int = 0
    partly: int = 0
    left: int = 0
    measurements: int = 0
    lost: int = 0
    aside: int = 0

    def lines(self) -> list[str]:
        """Return it in words."""
        total = self.measurements + self.lost
        share = self.measurements / total if total else 1.0
        told = [
            f"{self.measurements:,} of {total:,} measurements moved ({share:.1%})",
            f"{self.whole:,} trips as a whole, {self.partly:,} in parts, {self.left:,} stay behind",
        ]
        if self.aside:
            told.append(f"{self.aside:,} trips in quarantine stay behind")
        return told


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database, also while it is used; the old one is not touched."""
    if not source.is_file():
        msg = f"there is no database {source}"
        raise FileNotFoundError(msg)
    if target.exists():
        msg = f"{target} exists already; name a file that does not"
        raise DataError(msg)
    with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as old, sqlite3.connect(target) as new:
        old.backup(new)


def move_trips(database: Database, edges: EdgeMap) -> Moved:
    """Rewrite the trips of a database for another network, all or nothing.

    Args:
        database: a copy: trips over roads that are gone are deleted from it.
        edges: which edges are which.
    """
    found = Moved()
    mine = facts.c.name == "fingerprint"
    with database.engine.begin() as connection:
        lock_epoch(connection)
        known = connection.execute(select(facts.c.value).where(mine)).scalar()
        if known is None or known.rpartition("-")[0] != edges.old.fingerprint():
            msg = f"the database {database.name} was not made for {edges.old.name}"
            raise DataError(msg)
        if connection.execute(select(func.count()).select_from(folded)).scalar_one():
            msg = (
                f"the database {database.name} holds folded trips, which are sums that cannot be "
                "taken apart; start with the trips that came after"
            )
            raise DataError(msg)
        last = 0
        while rows := connection.execute(
            select(trips).where(trips.c.sequence > last).order_by(trips.c.sequence).limit(_AT_ONCE)
        ).all():
            last = rows[-1].sequence
            for row in rows:
                columns = (row.vehicle, row.edges, row.spans, row.energies_wh)
                more = (row.at_rest, row.durations, edges.old.n_edges)
                trip = moved_trip(unpacked(*columns, *more), edges)
                here = trips.c.sequence == row.sequence
                total = len(row.energies_wh) // 8
                kept = 0 if trip is None else trip.energies_wh.size
                found.measurements += kept
                found.lost += total - kept
                if trip is None:
                    found.left += 1
                    connection.execute(delete(trips).where(here))
                    continue
                found.whole += kept == total
                found.partly += kept < total
                connection.execute(update(trips).where(here).values(**packed(trip), route_id=None))
        found.aside = int(
            connection.execute(select(func.count()).select_from(quarantine)).scalar_one()
        )
        connection.execute(delete(quarantine))
        bump_epoch(connection)
        new = {
            "fingerprint": f"{edges.new.fingerprint()}-{MODEL_VERSION}",
            "identity": secrets.token_hex(16),  # snapshots of the old belief are not this one's
            "route_secret": secrets.token_hex(32),  # nor are routes over the old map
        }
        for name, value in new.items():
            connection.execute(update(facts).where(facts.c.name == name).values(value=value))
    return found


def moved_trip(trip: MeasuredTrip, edges: EdgeMap) -> MeasuredTrip | None:
    """Return a trip on the new network: its measured spans that are still there, if any are."""
    if not trip.first.size:
        return _moved_times(trip, edges)
    places, first, last, energies = [], [], [], []
    count = 0
    for begin, end, energy in zip(trip.first, trip.last, trip.energies_wh, strict=True):
        span = edges.span(trip.edges[begin : end + 1])
        if span is None:
            continue
        places.append(span)
        first.append(count)
        count += span.size
        last.append(count - 1)
        energies.append(energy)
    if not places:
        return None
    every = np.concatenate(places)
    timed = None
    if trip.timed is not None and trip.is_whole:
        single = [edges.span(np.array([edge])) for edge in trip.edges]
        if [None if one is None else one.tolist() for one in single] == [[e] for e in every]:
            timed = replace(trip.timed, edges=every)  # each edge is one edge, as before
    return MeasuredTrip(
        trip.vehicle,
        every,
        np.array(first, dtype=np.intp),
        np.array(last, dtype=np.intp),
        np.array(energies, dtype=np.float64),
        trip.at_rest,
        timed,
    )


def _moved_times(trip: MeasuredTrip, edges: EdgeMap) -> MeasuredTrip | None:
    """Return a trip that only says how long it took, if each of its edges is one edge now."""
    single = [edges.span(np.array([edge])) for edge in trip.edges]
    if trip.timed is None or any(span is None or span.size != 1 for span in single):
        return None
    every = np.concatenate([span for span in single if span is not None])
    return replace(trip, edges=every, timed=replace(trip.timed, edges=every))
