"""How each key stands: the slot of its gain, whether it was set aside, or is vouched for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from superarm.roads.models.fleet import KEY_DEVIATION, VOUCHED_DEVIATION
from superarm.roads.models.likelihood import Source
from superarm.service.database import Database, bump_epoch, lock_epoch, now_us
from superarm.service.tables import folded, standings
from superarm.service.trips.device_state import DEVICES, DURATIONS, forget_device
from superarm.service.trips.folding import without_times


@dataclass(frozen=True)
class Standing:
    """How a key stands.

    Attributes:
        key_id: which.
        slot: of its gain, if it has one.
        set_aside_at: since when its trips are not learned, in microseconds since 1970, if so.
        reason: why.
        vouched_at: when an administrator last let it in again.
        durations_aside_at: since when its durations are not learned, if so.
        durations_reason: why.
        durations_since: only durations received from then on are learned.
    """

    key_id: str
    slot: int | None = None
    set_aside_at: int | None = None
    reason: str | None = None
    vouched_at: int | None = None
    durations_aside_at: int | None = None
    durations_reason: str | None = None
    durations_since: int | None = None

    @property
    def is_aside(self) -> bool:
        """Whether its trips are not learned."""
        return self.set_aside_at is not None

    def learns_times(self, received_us: int) -> bool:
        """Say whether durations are learned that were received at some time."""
        return self.durations_aside_at is None and received_us >= (self.durations_since or 0)

    def source(self, spread: float) -> Source:
        """Return who measures, as the model sees it."""
        deviation = KEY_DEVIATION if self.vouched_at is None else VOUCHED_DEVIATION
        return Source(-1 if self.slot is None else self.slot, deviation, spread)


def all_standings(connection: Connection) -> dict[str, Standing]:
    """Return how all keys stand that have reported."""
    rows = connection.execute(select(standings)).all()
    return {row.key_id: Standing(*row) for row in rows}


def standings_of(
    connection: Connection, key_ids: Collection[str], n_slots: int
) -> Mapping[str, Standing]:
    """Return how some keys stand; those that are new get a slot while there are some."""
    rows = connection.execute(select(standings).where(standings.c.key_id.in_(key_ids))).all()
    known = {row.key_id: Standing(*row) for row in rows}
    for key_id in sorted(set(key_ids) - set(known)):
        known[key_id] = _added(connection, key_id, n_slots)
    return known


def _added(connection: Connection, key_id: str, n_slots: int) -> Standing:
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    mine = select(standings).where(standings.c.key_id == key_id)
    while True:
        taken = set(connection.execute(select(standings.c.slot)).scalars())
        free = next((slot for slot in range(n_slots) if slot not in taken), None)
        new = dialect.insert(standings).on_conflict_do_nothing()
        connection.execute(new, {"key_id": key_id, "slot": free})
        # another worker may have taken the slot, or met the key, in this very moment
        if (row := connection.execute(mine).one_or_none()) is not None:
            return Standing(*row)


def set_aside(database: Database, reasons: Mapping[str, str]) -> list[str]:
    """Stop learning from some keys, all of their trips; return those that were not aside before."""
    return _set_aside(database, reasons, "set_aside_at", "reason", DEVICES)


def set_durations_aside(database: Database, reasons: Mapping[str, str]) -> list[str]:
    """Stop learning times from some keys; return those whose durations were not aside before."""
    return _set_aside(database, reasons, "durations_aside_at", "durations_reason", (DURATIONS,))


def _set_aside(
    database: Database, reasons: Mapping[str, str], when: str, why: str, parts: Collection[str]
) -> list[str]:
    done = []
    with database.engine.begin() as connection:
        lock_epoch(connection)
        for key_id, reason in reasons.items():
            mine = (standings.c.key_id == key_id) & standings.c[when].is_(None)
            values = {when: now_us(), why: reason}
            if connection.execute(update(standings).where(mine).values(values)).rowcount:
                done.append(key_id)
            elif not connection.execute(
                select(standings.c.key_id).where(standings.c.key_id == key_id)
            ).scalar():
                connection.execute(insert(standings), {"key_id": key_id, **values})
                done.append(key_id)
        for key_id in done:
            forget_device(connection, key_id, parts)
        if done:
            bump_epoch(connection)
    return done


def let_in(database: Database, key_id: str) -> bool:
    """Learn from a key again, with a wider prior of its gain; return whether it was set aside.

    Of durations that were set aside only later ones are learned: nothing corrects the ones before.
    """
    energies = {"set_aside_at": None, "reason": None, "vouched_at": now_us()}
    times = {
        "durations_aside_at": None,
        "durations_reason": None,
        "durations_since": now_us(),
    }
    mine = standings.c.key_id == key_id
    with database.engine.begin() as connection:
        lock_epoch(connection)
        aside = mine & standings.c.set_aside_at.is_not(None)
        energy = connection.execute(update(standings).where(aside).values(energies)).rowcount > 0
        aside = mine & standings.c.durations_aside_at.is_not(None)
        time = connection.execute(update(standings).where(aside).values(times)).rowcount > 0
        if time:
            _forget_folded_times(connection, key_id)
        if energy or time:
            forget_device(connection, key_id, DEVICES if energy else (DURATIONS,))
            bump_epoch(connection)
    return energy or time


def _forget_folded_times(connection: Connection, key_id: str) -> None:
    mine = folded.c.key_id == key_id
    sums = connection.execute(select(folded.c.sums).where(mine)).scalar()
    if sums is not None:
        connection.execute(update(folded).where(mine).values(sums=without_times(sums)))


def forget_standing(connection: Connection, key_id: str) -> None:
    """Free the slot of a key whose trips are gone."""
    connection.execute(delete(standings).where(standings.c.key_id == key_id))
