"""API keys: 256 random bits, stored as their SHA-256, compared in constant time.

All keys are held in memory and read again every second, so that a request costs no query, a flood
of wrong keys costs real ones nothing, and known keys go on to work while the database is away.
"""

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, select, update

from superarm.errors import DataError
from superarm.service.database import Database, now_us
from superarm.service.http.roles import Role
from superarm.service.tables import keys

_IDENTITY = re.compile("[0-9a-f]{12}")
_PARTS = 3
_NOTHING = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Key:
    """Who asks; times are microseconds since 1970."""

    id: str
    name: str
    role: Role
    created_at: int = 0
    expires_at: int | None = None
    revoked_at: int | None = None

    @property
    def is_good(self) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now_us())


class KeyRing:
    """The keys of a database; `refresh` makes changes by others known."""

    def __init__(self, database: Database) -> None:
        """Remember where they are."""
        self.database = database
        self._known: Mapping[str, tuple[Key, str]] = {}
        self._lock = threading.Lock()

    def add(self, name: str, role: Role, expires_at: int | None = None) -> tuple[Key, str]:
        """Make a key and return it with its text, which cannot be read again."""
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = Key(identity, name, role, now_us(), expires_at)
        row = {
            "id": key.id,
            "name": name,
            "role": role,
            "secret_sha256": _hashed(secret),
            "created_at": key.created_at,
            "expires_at": expires_at,
        }
        with self.database.engine.begin() as connection:
            connection.execute(insert(keys), row)
        self.refresh()
        return key, f"superarm.{identity}.{secret}"

    def all(self) -> list[Key]:
        """Return all keys, oldest first."""
        return sorted((key for key, _ in self._read().values()), key=lambda key: key.created_at)

    def revoke(self, identity: str) -> None:
        """Let a key stop working."""
        mine = keys.c.id == identity
        with self.database.engine.begin() as connection:
            found = connection.execute(update(keys).where(mine).values(revoked_at=now_us()))
            if found.rowcount == 0:
                msg = f"there is no key {identity!r}; list them with: superarm serve keys list"
                raise DataError(msg)
        self.refresh()

    def refresh(self) -> None:
        """Read all keys again."""
        with self._lock:
            self._known = self._read()

    def check(self, given: str) -> Key | None:
        """Return whose key this is, or nothing; from memory."""
        parts = given.split(".")
        if len(parts) != _PARTS or parts[0] != "superarm":
            return None
        _, identity, secret = parts
        key, stored = self._known.get(identity, (None, _NOTHING))
        # a comparison takes place whether or not the key exists
        equal = hmac.compare_digest(_hashed(secret), stored)
        return key if equal and key is not None and key.is_good else None

    def is_new(self, given: str) -> bool:
        """Say whether a text has the form of a key that is not known here, but may be elsewhere."""
        parts = given.split(".")
        return (
            len(parts) == _PARTS
            and parts[0] == "superarm"
            and bool(_IDENTITY.fullmatch(parts[1]))
            and parts[1] not in self._known
        )

    def _read(self) -> dict[str, tuple[Key, str]]:
        with self.database.reading() as connection:
            rows: Any = connection.execute(select(keys)).all()
        return {
            row.id: (
                Key(row.id, row.name, row.role, row.created_at, row.expires_at, row.revoked_at),
                row.secret_sha256,
            )
            for row in rows
        }


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
