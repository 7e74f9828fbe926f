"""Opening a database: SQLite by default, PostgreSQL by URL; migrations; whose data it holds."""

import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    exc,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool

from superarm.errors import DataError
from superarm.service.tables import device_state, facts, folded, trips

_BUSY_MS = 30_000
_PATIENCE_S = 5
_MIGRATION_LOCK = 7_205_759_403  # any number; the same for all workers


def is_away(error: BaseException) -> bool:
    """Say whether it is the database that fails, not what was asked of it: try again later."""
    kinds = (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.TimeoutError)
    if isinstance(error, kinds) or type(error) is exc.DatabaseError:
        return True
    return isinstance(error, exc.DBAPIError) and error.connection_invalidated


def now_us() -> int:
    """Return the time in microseconds since 1970, UTC."""
    return time.time_ns() // 1000


class Database:
    """A connection pool to the trips of one network.

    Args:
        url: of SQLAlchemy (``postgresql://...``), or the path of an SQLite file.
    """

    def __init__(self, url: str) -> None:
        """Connect lazily; nothing is created yet."""
        self.url = _full_url(url)
        options: dict[str, Any] = {
            "poolclass": QueuePool,
            "pool_size": 4,
            "max_overflow": 8,
            "pool_timeout": _PATIENCE_S,
        }
        if self.url.startswith("postgresql"):  # a server that vanishes is noticed within seconds
            options["connect_args"] = {
                "connect_timeout": _PATIENCE_S,
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 15_000,
            }
        try:
            self.engine: Engine = create_engine(self.url, pool_pre_ping=True, **options)
        except (ArgumentError, ImportError) as error:
            msg = f"cannot use the database {_without_password(url)!r}: {error}"
            raise DataError(msg) from error
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_immediately)
        elif self.engine.dialect.name != "postgresql":
            msg = f"the database must be SQLite or PostgreSQL, got {self.engine.dialect.name}"
            raise DataError(msg)

    @property
    def name(self) -> str:
        """The URL without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    def migrate(self) -> None:
        """Bring the tables up to date; workers that start together take turns."""
        try:
            with self.engine.begin() as connection:
                self._take_turns(connection)
                config = Config()
                config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except DBAPIError as error:
            msg = f"cannot open the database {self.name}: {error.orig}"
            raise DataError(msg) from error

    def _take_turns(self, connection: Connection) -> None:
        if not self.is_sqlite:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))

    def claim(self, fingerprint: str, *, demo: bool) -> None:
        """Say that this database belongs to a network, or refuse if it belongs to another."""
        with self.engine.begin() as connection:
            self._take_turns(connection)
            rows = connection.execute(select(facts.c.name, facts.c.value)).all()
            known: dict[str, str] = {row.name: row.value for row in rows}
            if not known:
                values = {"fingerprint": fingerprint, "demo": str(demo), "epoch": "0"}
                values["identity"] = secrets.token_hex(16)
                values["route_secret"] = secrets.token_hex(32)
                new = [{"name": name, "value": value} for name, value in values.items()]
                connection.execute(insert(facts), new)
                return
            if (known["demo"] == "True") != demo:
                kind, way = ("a demo", "with") if not demo else ("no demo", "without")
                msg = (
                    f"the database {self.name} is {kind}: start {way} --demo, or name another "
                    "database"
                )
                raise DataError(msg)
            if _network_of(known["fingerprint"]) == _network_of(fingerprint):
                self._learn_by(connection, known["fingerprint"], fingerprint)
                known["fingerprint"] = fingerprint
        if known["fingerprint"] != fingerprint:
            msg = (
                f"the database {self.name} was made for another network or model: its fingerprint "
                f"is {known['fingerprint']}, that of the network given is {fingerprint}; name the "
                "network it was made for, or another database"
            )
            raise DataError(msg)

    def _learn_by(self, connection: Connection, before: str, now: str) -> None:
        """Let what was measured be learned by another model; sums cannot be taken apart again."""
        if before == now:
            return
        count = connection.execute(select(func.count()).select_from(folded)).scalar_one()
        if count:
            msg = (
                f"the database {self.name} holds trips that an earlier model has folded "
                f"({before}, now {now}); go on with the version that folded them, or name another "
                "database"
            )
            raise DataError(msg)
        mine = facts.c.name == "fingerprint"
        connection.execute(update(facts).where(mine).values(value=now))
        connection.execute(delete(device_state))  # another model predicts otherwise

    def identity(self) -> str:
        """Return what distinguishes this database from any other."""
        return self._fact("identity")

    def route_secret(self) -> bytes:
        """Return what route ids are signed with."""
        return bytes.fromhex(self._fact("route_secret"))

    def _fact(self, name: str) -> str:
        with self.reading() as connection:
            row = select(facts.c.value).where(facts.c.name == name)
            return str(connection.execute(row).scalar_one())

    def require_writable(self) -> None:
        """Write something that changes nothing, or raise."""
        with self.engine.begin() as connection:
            same = update(facts).where(facts.c.name == "epoch").values(value=facts.c.value)
            connection.execute(same)

    def require_sound(self) -> None:
        """Look through an SQLite file for damage, with a connection of its own, or raise."""
        if not self.is_sqlite:
            return
        path = Path(str(self.engine.url.database)).resolve()
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found is None or found[0] != "ok":
            msg = f"the database file is damaged: {found and found[0]}; restore a backup"
            raise sqlite3.DatabaseError(msg)

    def adopt_restored_trips(self) -> None:
        """Make trips readable that were restored from another PostgreSQL cluster.

        Their transaction numbers may lie in this cluster's future; zero has long been committed.
        """
        if self.is_sqlite:
            return
        with self.engine.begin() as connection:
            future = text("xact >= (pg_snapshot_xmax(pg_current_snapshot()))::text::bigint")
            if connection.execute(update(trips).where(future).values(xact=0)).rowcount:
                bump_epoch(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one moment of the database throughout."""
        with self.engine.connect() as connection:
            if not self.is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ")
            else:
                connection.execution_options(reading=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def lock_epoch(connection: Connection) -> int | None:
    """Let nobody else change the past until this transaction ends; return the epoch, if any."""
    row = select(facts.c.value).where(facts.c.name == "epoch").with_for_update()
    epoch = connection.execute(row).scalar()
    return None if epoch is None else int(epoch)


def bump_epoch(connection: Connection) -> None:
    """Say that the history has changed otherwise than by new trips: beliefs start again."""
    epoch = lock_epoch(connection)
    if epoch is None:  # no server has used this database yet
        return
    connection.execute(update(facts).where(facts.c.name == "epoch").values(value=str(epoch + 1)))


def epoch_of(connection: Connection) -> int:
    """Return the epoch of the history."""
    return int(
        connection.execute(select(facts.c.value).where(facts.c.name == "epoch")).scalar_one()
    )


def transaction_number(connection: Connection) -> int:
    """Return the number of the current transaction, which its trips are marked with."""
    if connection.dialect.name == "sqlite":
        return 0  # the sequence does
    number = connection.execute(text("SELECT pg_current_xact_id()::text::bigint")).scalar_one()
    return int(number)


def mark_of_trips(dialect: str) -> ColumnElement[int]:
    """Return the column that says how far a reader has come: see `horizon`."""
    return trips.c.sequence if dialect == "sqlite" else trips.c.xact


def horizon(connection: Connection) -> int:
    """Return the transaction below which everything that will ever be committed has been.

    Sequence numbers do not tell: a transaction may take a lower one and commit later. In SQLite
    there is one writer at a time, and the number of a trip stands for its transaction.
    """
    if connection.dialect.name == "sqlite":
        return int(connection.execute(select(func.max(trips.c.sequence))).scalar() or 0) + 1
    return int(
        connection.execute(
            text("SELECT (pg_snapshot_xmin(pg_current_snapshot()))::text::bigint")
        ).scalar_one()
    )


def certain_at(connection: Connection) -> int:
    """Return the horizon at which all is certain that has a sequence number by now.

    A transaction has a number of its own before its trips take theirs, so that whoever still holds
    a sequence number below one that can be seen has a lower number than this transaction gets now.
    The upper end of a snapshot would not do: transactions under way may have numbers beyond it.
    """
    if connection.dialect.name == "sqlite":
        return horizon(connection)
    number = connection.execute(text("SELECT pg_current_xact_id()::text::bigint")).scalar_one()
    return int(number)


def _full_url(url: str) -> str:
    if "://" not in url:
        return f"sqlite:///{Path(url).resolve()}"
    for short in ("postgresql://", "postgres://"):
        if url.startswith(short):
            return "postgresql+psycopg://" + url.removeprefix(short)
    return url


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://…@{tail}" if at else url


def _prepare_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - of the driver
    connection.isolation_level = None  # transactions are ours to begin
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"busy_timeout={_BUSY_MS}",
        "foreign_keys=ON",
        "secure_delete=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_immediately(connection: Connection) -> None:
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _network_of(fingerprint: str) -> str:
    return fingerprint.rpartition("-")[0]
