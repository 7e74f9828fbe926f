"""What is known of devices, as the database keeps it: one row that all workers share.

It is what follows from all trips up to a sequence number. Whoever folds the next block of trips
writes the next state, unless somebody else was faster: a revision says so (compare and swap).
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite

from superarm.service.database import Database
from superarm.service.tables import device_state

_ONLY = 1


@dataclass(frozen=True)
class DeviceState:
    """What is known of devices after some trips.

    Attributes:
        reached: it follows from the trips with this or a lower sequence number.
        revision: how often it was changed; zero if nothing is stored yet.
        content: JSON, with a part per device under ``devices``.
    """

    reached: int = 0
    revision: int = 0
    content: str = "{}"


def read_state(connection: Connection, held: DeviceState | None = None) -> DeviceState:
    """Return what is stored; what the caller holds, if that is the same."""
    columns = select(device_state.c.reached, device_state.c.revision)
    row = connection.execute(columns).one_or_none()
    if row is None:
        return DeviceState()
    if held is not None and row.revision == held.revision:
        return held
    content = connection.execute(select(device_state.c.content)).scalar_one()
    return DeviceState(row.reached, row.revision, content)


def store_state(
    database: Database, before: DeviceState, reached: int, content: str
) -> DeviceState | None:
    """Store what follows from more trips; return it, or nothing if it has changed meanwhile."""
    after = DeviceState(reached, before.revision + 1, content)
    values = {"reached": after.reached, "revision": after.revision, "content": after.content}
    dialect: Any = sqlite if database.is_sqlite else postgresql
    first = dialect.insert(device_state).values(id=_ONLY, **values).on_conflict_do_nothing()
    same = device_state.c.revision == before.revision
    change = first if before.revision == 0 else update(device_state).where(same).values(values)
    with database.engine.begin() as connection:
        done = connection.execute(change.returning(device_state.c.id)).first()
    return None if done is None else after


def forget_device(connection: Connection, key_id: str) -> None:
    """Drop what is known of one device; whether trips of all contradict the model is seen anew."""
    row = connection.execute(select(device_state).with_for_update()).one_or_none()
    if row is None:
        return
    devices: dict[str, Any] = json.loads(row.content).get("devices", {})
    devices.pop(key_id, None)
    values = {"content": json.dumps({"devices": devices}), "revision": row.revision + 1}
    connection.execute(update(device_state).values(values))
