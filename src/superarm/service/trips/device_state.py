"""What is known of devices, as the database keeps it: one row that all workers share.

It is what follows from all trips up to a sequence number. Whoever has folded more writes what
follows from those, unless somebody else was faster.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from superarm.service.database import Database, lock_epoch
from superarm.service.tables import device_state

ENERGIES, DURATIONS = "devices", "durations"
DEVICES = (ENERGIES, DURATIONS)
"""The parts of a state that have a part per device."""

_ONLY = 1


@dataclass(frozen=True)
class DeviceState:
    """What is known of devices after some trips.

    Attributes:
        reached: it follows from the trips with this or a lower sequence number.
        revision: how often it was changed; zero if nothing is stored yet.
        content: JSON; under every one of `DEVICES` there is a part per device.
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


def store_state(database: Database, epoch: int, reached: int, content: str) -> DeviceState | None:
    """Store what follows from more trips than what is stored; return it, or nothing.

    Whoever has folded the same trips has come to the same, so that it is only asked how many. But
    nothing is stored by whoever does not know yet that the history was changed.

    Args:
        database: where to.
        epoch: of the history that was folded.
        reached: its last sequence number.
        content: JSON.
    """
    with database.engine.begin() as connection:
        if lock_epoch(connection) != epoch:
            return None
        row = connection.execute(select(device_state.c.reached, device_state.c.revision)).first()
        if row is None:
            after = DeviceState(reached, 1, content)
            connection.execute(insert(device_state), {"id": _ONLY, **asdict(after)})
            return after
        if row.reached >= reached:
            return None
        after = DeviceState(reached, row.revision + 1, content)
        connection.execute(update(device_state).values(asdict(after)))
    return after


def forget_device(connection: Connection, key_id: str, parts: Collection[str] = DEVICES) -> None:
    """Drop what is known of one device.

    With its energies goes whether trips of all devices contradict the model: that is seen anew.

    Args:
        connection: within whose transaction.
        key_id: of the device.
        parts: of what is known: of its energies and durations, or of one of them.
    """
    row = connection.execute(select(device_state).with_for_update()).one_or_none()
    if row is None:
        return
    content: dict[str, Any] = json.loads(row.content)
    for part in parts:
        content.get(part, {}).pop(key_id, None)
    if ENERGIES in parts:
        content.pop("health", None)
    values = {"content": json.dumps(content), "revision": row.revision + 1}
    connection.execute(update(device_state).values(values))
