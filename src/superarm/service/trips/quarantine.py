"""Trips that are kept, but not learned: to be looked at, released or dropped."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from superarm.service.database import Database, now_us
from superarm.service.tables import quarantine, trips
from superarm.service.trips.intake import Checked

IMPLAUSIBLE, SET_ASIDE, UNLEARNABLE = "implausible", "set_aside", "unlearnable"

_AT_ONCE = 500
_MOST_LISTED = 2**20


def put_aside(connection: Connection, item: Checked, kind: str, reason: str) -> bool:
    """Keep a report that is not to be learned; return whether it was not kept before."""
    row = {
        "key_id": item.key_id,
        "owner": item.owner,
        "trip_id": item.trip.trip_id,
        "received_at": now_us(),
        "content_sha256": item.digest,
        "kind": kind,
        "reason": reason,
        "body": item.trip.model_dump_json(),
    }
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    new = dialect.insert(quarantine).on_conflict_do_nothing().returning(quarantine.c.sequence)
    return connection.execute(new, row).scalar() is not None


def move_aside(database: Database, sequences: Sequence[int], reason: str) -> int:
    """Take stored trips that cannot be learned out of the history; return how many there were."""
    moved = 0
    with database.engine.begin() as connection:
        dialect: Any = sqlite if database.is_sqlite else postgresql
        for sequence in sequences:
            mine = trips.c.sequence == sequence
            row = connection.execute(select(trips).where(mine)).one_or_none()
            if row is None:  # another worker was faster
                continue
            aside = {
                "key_id": row.key_id,
                "owner": row.owner,
                "trip_id": row.trip_id,
                "received_at": row.received_at,
                "content_sha256": row.content_sha256,
                "kind": UNLEARNABLE,
                "reason": reason,
                "body": json.dumps({name: _plain(value) for name, value in row._asdict().items()}),
            }
            connection.execute(dialect.insert(quarantine).on_conflict_do_nothing(), aside)
            moved += connection.execute(delete(trips).where(mine)).rowcount
    return moved


def quarantined(
    database: Database, after: int, limit: int, key_id: str | None = None
) -> list[dict[str, Any]]:
    """Return some trips that were put aside, oldest first."""
    query = select(quarantine).where(quarantine.c.sequence > after)
    if key_id is not None:
        query = query.where(quarantine.c.key_id == key_id)
    shown, size = [], 0
    query = query.order_by(quarantine.c.sequence).limit(limit)
    with database.reading() as connection:
        for row in connection.execute(query.execution_options(yield_per=20)):
            shown.append(row._asdict())
            size += len(row.body)
            if size > _MOST_LISTED:  # the rest is for another question
                break
    return shown


def one_quarantined(database: Database, sequence: int) -> Any:  # noqa: ANN401 - a row
    """Return one of them, or nothing."""
    with database.reading() as connection:
        mine = select(quarantine).where(quarantine.c.sequence == sequence)
        return connection.execute(mine).one_or_none()


def drop(database: Database, sequence: int) -> bool:
    """Forget one of them; return whether it was there."""
    with database.engine.begin() as connection:
        return taken_out(connection, sequence)


def taken_out(connection: Connection, sequence: int) -> bool:
    """Take one of them out of the quarantine; return whether it was there."""
    mine = delete(quarantine).where(quarantine.c.sequence == sequence)
    return connection.execute(mine).rowcount > 0


def forget_quarantined(database: Database, before_us: int) -> int:
    """Delete trips that were put aside long ago, in small transactions; return how many."""
    total = 0
    while True:
        with database.engine.begin() as connection:
            some = (
                connection.execute(
                    select(quarantine.c.sequence)
                    .where(quarantine.c.received_at < before_us)
                    .limit(_AT_ONCE)
                )
                .scalars()
                .all()
            )
            if not some:
                return total
            connection.execute(delete(quarantine).where(quarantine.c.sequence.in_(some)))
            total += len(some)


def count_quarantined(connection: Connection) -> int:
    """Return how many there are."""
    return int(connection.execute(select(func.count()).select_from(quarantine)).scalar_one())


def _plain(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
