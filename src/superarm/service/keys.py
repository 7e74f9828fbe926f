"""API keys: 256 random bits, stored as their SHA-256, compared in constant time."""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import insert, select, update

from superarm.errors import DataError
from superarm.service.database import Database, now_us
from superarm.service.tables import keys

Role = Literal["read", "report", "admin"]
RANKS: dict[str, int] = {"read": 0, "report": 1, "admin": 2}
"""A role may do what those before it may."""

_REMEMBERED_S = 2.0
_MOST_REMEMBERED = 10_000
_IDENTITY = re.compile("[0-9a-f]{12}")
_PARTS = 3


@dataclass(frozen=True)
class Key:
    """Who asks."""

    id: str
    name: str
    role: Role
    created_at: int = 0
    revoked_at: int | None = None


class KeyRing:
    """The keys of a database; a revoked one stops working within two seconds."""

    def __init__(self, database: Database) -> None:
        """Remember where they are."""
        self.database = database
        self._seen: dict[str, tuple[float, Key | None, str]] = {}

    def add(self, name: str, role: Role) -> str:
        """Make a key and return it; it cannot be read again."""
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        row = {
            "id": identity,
            "name": name,
            "role": role,
            "secret_sha256": _hashed(secret),
            "created_at": now_us(),
        }
        with self.database.engine.begin() as connection:
            connection.execute(insert(keys), row)
        return f"superarm.{identity}.{secret}"

    def all(self) -> list[Key]:
        """Return all keys, oldest first."""
        columns = (keys.c.id, keys.c.name, keys.c.role, keys.c.created_at, keys.c.revoked_at)
        with self.database.reading() as connection:
            rows = connection.execute(select(*columns).order_by(keys.c.created_at)).all()
        return [Key(*row) for row in rows]

    def revoke(self, identity: str) -> None:
        """Let a key stop working."""
        mine = keys.c.id == identity
        with self.database.engine.begin() as connection:
            found = connection.execute(update(keys).where(mine).values(revoked_at=now_us()))
            if found.rowcount == 0:
                msg = f"there is no key {identity!r}; list them with: superarm serve keys list"
                raise DataError(msg)
        self._seen.clear()

    def remembered(self, given: str) -> bool:
        """Say whether `check` will answer without asking the database."""
        known = self._seen.get(given.split(".")[1] if given.count(".") == _PARTS - 1 else "")
        return known is not None and time.monotonic() - known[0] < _REMEMBERED_S

    def check(self, given: str) -> Key | None:
        """Return whose key this is, or nothing."""
        parts = given.split(".")
        if len(parts) != _PARTS or parts[0] != "superarm":
            return None
        _, identity, secret = parts
        if not _IDENTITY.fullmatch(identity):
            return None
        key, stored = self._found(identity)
        # a comparison takes place whether or not the key exists
        equal = hmac.compare_digest(_hashed(secret), stored)
        return key if equal else None

    def _found(self, identity: str) -> tuple[Key | None, str]:
        known = self._seen.get(identity)
        if known is not None and time.monotonic() - known[0] < _REMEMBERED_S:
            return known[1], known[2]
        mine = (keys.c.id == identity) & keys.c.revoked_at.is_(None)
        with self.database.reading() as connection:
            row = connection.execute(select(keys).where(mine)).one_or_none()
        key = None if row is None else Key(row.id, row.name, row.role)
        stored = _hashed("") if row is None else row.secret_sha256
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen.clear()
        self._seen[identity] = (time.monotonic(), key, stored)
        return key, stored


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
