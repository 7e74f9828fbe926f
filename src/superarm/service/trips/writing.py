"""Writing many small things durably: whatever waits is committed together, then acknowledged."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from superarm.service.database import is_away
from superarm.service.trips.intake import Checked
from superarm.service.trips.schemas import TripOutcome
from superarm.service.trips.store import TripStore

MOST_WAITING = 2_000
_MOST_TOGETHER = 256
_STOP = None


logger = logging.getLogger("superarm.service")


class BusyError(Exception):
    """Too much is waiting; try again in a moment."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    item: Checked
    done: Callable[[TripOutcome | None, BaseException | None], None]


class Writer:
    """One thread that commits what handlers hand over; they wait until it is durable."""

    def __init__(
        self,
        store: TripStore,
        stored: Callable[[Sequence[tuple[Checked, TripOutcome]]], None],
        failed: Callable[[BaseException], None],
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Start the thread.

        Args:
            store: where to.
            stored: called after trips were committed, with what became of each.
            failed: called when the database does not take them.
            most_waiting: beyond, handlers are turned away.
        """
        self._store = store
        self._stored = stored
        self._failed = failed
        self._queue: queue.Queue[_Waiting | None] = queue.Queue()
        self._most = most_waiting
        self._pending = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="writing")
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many items wait, or are being committed."""
        return self._pending

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    async def keep(self, items: Sequence[Checked]) -> list[TripOutcome]:
        """Return when all items are durable, with what became of each."""
        with self._lock:
            if self._pending + len(items) > self._most:
                raise BusyError
            self._pending += len(items)
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in items]
        for item, future in zip(items, futures, strict=True):
            self._queue.put(_Waiting(item, _answering(loop, future)))
        return list(await asyncio.gather(*futures))

    def close(self) -> None:
        """Commit what waits, then end."""
        self._queue.put(_STOP)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is _STOP:
                return
            batch, ending = [first], False
            while len(batch) < _MOST_TOGETHER and not ending:
                try:
                    more = self._queue.get_nowait()
                except queue.Empty:
                    break
                if more is _STOP:
                    ending = True
                else:
                    batch.append(more)
            self._keep(batch)
            if ending:
                return

    def _keep(self, batch: list[_Waiting]) -> None:
        try:
            outcomes = self._store.keep([waiting.item for waiting in batch])
        except Exception as error:  # noqa: BLE001 - handed to those who wait
            away = is_away(error)
            if away:
                self._failed(error)
            if len(batch) == 1 or away:
                for waiting in batch:  # the database is away: no use in asking for each
                    self._settle(waiting, None, error)
            else:  # one of them may be to blame: the others shall not suffer
                for waiting in batch:
                    self._keep([waiting])
            return
        done = [(waiting.item, o) for waiting, o in zip(batch, outcomes, strict=True)]
        for waiting, outcome in zip(batch, outcomes, strict=True):
            self._settle(waiting, outcome, None)
        try:
            self._stored(done)
        except Exception as error:
            logger.exception("what follows from stored trips was not done")
            if is_away(error):
                self._failed(error)

    def _settle(
        self, waiting: _Waiting, outcome: TripOutcome | None, error: BaseException | None
    ) -> None:
        with self._lock:
            self._pending -= 1
        waiting.done(outcome, error)


def _answering(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]
) -> Callable[[TripOutcome | None, BaseException | None], None]:
    def settle(outcome: TripOutcome | None, error: BaseException | None) -> None:
        if future.done():  # the client has gone away
            return
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)

    def done(outcome: TripOutcome | None, error: BaseException | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, outcome, error)

    return done
