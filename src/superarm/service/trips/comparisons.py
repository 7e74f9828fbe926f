"""What trips saved against routes that learn nothing, where both were driven.

On roads a trip is driven once. A simulation drives it again on another route, in the same traffic,
and says what that took: savings are then measured, not estimated.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import BaseModel, Field
from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite

from superarm.service.database import Database
from superarm.service.model.vehicle import Given
from superarm.service.tables import comparisons, trips
from superarm.service.trips.schemas import MOST_TRIPS, Energy, Seconds, TripId

Rival = Literal["physics", "fastest"]
_FEWEST = 2


class Comparison(Given):
    """What a trip that was reported took on another route."""

    trip_id: TripId
    rival: Rival = Field(description="By which it was routed: physics alone, or the fastest way.")
    energy_wh: Energy
    duration_s: Seconds


class Comparisons(Given):
    """Several of them."""

    comparisons: Annotated[list[Comparison], Field(min_length=1, max_length=MOST_TRIPS)]


class Compared(BaseModel):
    """What became of comparisons."""

    taken: int = Field(description="Known ones are not counted again.")
    unknown: list[str] = Field(
        description="Trips of this key that are not stored, or that were reported without duration."
    )


class Savings(BaseModel):
    """What trips saved that were driven both ways, all of them together."""

    trips: int
    energy_wh: float
    energy_error_wh: float | None = Field(description="One standard error.")
    minutes: float
    minutes_error: float | None = Field(description="One standard error.")


def compare(
    database: Database, owner: str, key_id: str, given: Sequence[Comparison]
) -> tuple[int, list[str]]:
    """Keep what trips of an owner saved; return how many are new, and which trips are not known.

    Args:
        database: of the service.
        owner: the name of the key that reported the trips.
        key_id: of the key that asks.
        given: what was driven; the first word about a trip and a rival stands.
    """
    names = sorted({one.trip_id for one in given})
    mine = (trips.c.owner == owner) & trips.c.trip_id.in_(names)
    query = select(trips.c.trip_id, trips.c.measured_wh, trips.c.measured_s).where(
        mine & trips.c.measured_s.is_not(None)
    )
    new = (sqlite if database.is_sqlite else postgresql).insert(comparisons)
    taken = 0
    with database.engine.begin() as connection:
        known = {row.trip_id: row for row in connection.execute(query)}
        for one in given:
            if (row := known.get(one.trip_id)) is not None:
                values = {
                    "owner": owner,
                    "trip_id": one.trip_id,
                    "rival": one.rival,
                    "key_id": key_id,
                    "saved_wh": one.energy_wh - row.measured_wh,
                    "saved_s": one.duration_s - row.measured_s,
                }
                taken += connection.execute(new.values(values).on_conflict_do_nothing()).rowcount
    return taken, [name for name in names if name not in known]


def all_savings(database: Database) -> Mapping[Rival, Savings]:
    """Return what was saved against each rival that trips were compared with."""
    wh, seconds = comparisons.c.saved_wh, comparisons.c.saved_s
    sums = (func.count(), func.sum(wh), func.sum(wh * wh), func.sum(seconds))
    query = select(comparisons.c.rival, *sums, func.sum(seconds * seconds))
    with database.reading() as connection:
        rows = connection.execute(query.group_by(comparisons.c.rival)).all()
    found = {str(row[0]): _savings(int(row[1]), *(float(term) for term in row[2:])) for row in rows}
    return {rival: found[rival] for rival in get_args(Rival) if rival in found}


def _savings(count: int, wh: float, wh_squares: float, s: float, s_squares: float) -> Savings:
    wh_error, s_error = _error(count, wh, wh_squares), _error(count, s, s_squares)
    return Savings(
        trips=count,
        energy_wh=wh,
        energy_error_wh=wh_error,
        minutes=s / 60,
        minutes_error=None if s_error is None else s_error / 60,
    )


def _error(count: int, total: float, squares: float) -> float | None:
    """Return the standard error of a total."""
    if count < _FEWEST:
        return None
    return float(np.sqrt(max(squares - total**2 / count, 0.0) / (count - 1) * count))
