"""Looks after the database once a second: keys, standings, and whether it is there at all."""

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping

from sqlalchemy.exc import SQLAlchemyError

from superarm.service.database import Database
from superarm.service.http.keys import KeyRing
from superarm.service.trips.standings import Standing, all_standings

EVERY_S = 1.0
_LOOK_THROUGH_S = 30.0
_SHARE_OF_TIME = 100.0

logger = logging.getLogger("superarm.service")


class Watch:
    """A thread that keeps what a server must know without asking.

    Attributes:
        standings: of all keys that have reported.
        problem: what is wrong with the database, if anything.
    """

    def __init__(self, database: Database, keys: KeyRing) -> None:
        """Look once, then start the thread."""
        self._database = database
        self._keys = keys
        self.standings: Mapping[str, Standing] = {}
        self.problem: str | None = None
        self._failed = self._mended = 0  # times that writing failed; those that are over
        self._looked_through = time.monotonic()
        self._next = _LOOK_THROUGH_S
        self._wake = threading.Event()
        self._ending = False
        self._look()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    def failed(self, error: BaseException) -> None:
        """Take note that something could not be stored; looked at until it can."""
        self._failed += 1
        self._says(error)
        self._wake.set()

    def doubt(self) -> None:
        """Look through the whole file soon: somebody could not read it."""
        self._next = 0.0
        self._wake.set()

    def look_now(self) -> None:
        """Read keys and standings again."""
        self._look()

    def close(self) -> None:
        """End the thread."""
        self._ending = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending:
            self._wake.wait(EVERY_S)
            self._wake.clear()
            if not self._ending:
                self._look()
                if self.problem is not None:
                    time.sleep(EVERY_S / 4)  # who fails often wakes often

    def _look(self) -> None:
        failed = self._failed  # it may fail once more meanwhile
        try:
            self._keys.refresh()
            with self._database.reading() as connection:
                self.standings = all_standings(connection)
            if failed != self._mended:
                self._database.require_writable()
            self._look_through()
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            self._says(error)
        else:
            self._mended = failed
            if self.problem is not None and self._failed == failed:
                logger.warning("the database answers again")
                self.problem = None

    def _look_through(self) -> None:
        began = time.monotonic()
        if self.problem is None and began - self._looked_through < self._next:
            return
        self._database.require_sound()
        took = time.monotonic() - began
        self._looked_through = time.monotonic()
        self._next = max(_LOOK_THROUGH_S, _SHARE_OF_TIME * took)

    def _says(self, error: BaseException) -> None:
        text = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        if self.problem is None:
            logger.error("the database does not answer", extra={"reason": text})
        self.problem = text or type(error).__name__
