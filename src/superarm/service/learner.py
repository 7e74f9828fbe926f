"""The process that learns: reads new trips, conditions the belief, hands posteriors over.

It is started by `superarm.service.learning` and speaks JSON lines: on its standard input ``wake``,
``free`` (with the slot that is no longer read) and ``stop``; on its output ``posterior`` and
``note``. When its input ends, its parent is gone, and it goes too; all that matters is in the
database.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError
from threadpoolctl import threadpool_limits

from superarm.beliefs import DenseGP, MatrixMemory
from superarm.navigation import RoadNetwork
from superarm.service.database import Database, now_us
from superarm.service.fleet import Fleet
from superarm.service.history import Cursor, History, NewTrips
from superarm.service.measurements import Reader
from superarm.service.posterior import RoadPosterior
from superarm.service.shared import SLOTS, SharedPosteriors
from superarm.service.snapshots import Learned, Snapshots
from superarm.service.store import forget_quarantined, forget_routes

_DAY_US = 86_400_000_000
_HOUSEKEEPING_S = 86_400.0
_AFTER_ERROR_S = 2.0


@dataclass(frozen=True)
class LearnerSettings:
    """What the learner is told when it starts.

    Attributes:
        network: file of the network.
        database: URL.
        snapshots: folder.
        handle: of the shared memory.
        busy_slot: which slot of it is being read; -1 for none.
        snapshot_every: trips between snapshots.
        poll_s: how often to look for trips that others have stored.
        retain_days: after how many days trips are folded; zero for never.
        route_days: after how many days issued routes are forgotten.
    """

    network: str
    database: str
    snapshots: str
    handle: int
    busy_slot: int
    snapshot_every: int
    poll_s: float
    retain_days: float
    route_days: float


class Learner:
    """Keeps a belief up to date and publishes it."""

    def __init__(self, settings: LearnerSettings) -> None:
        """Open everything."""
        self._settings = settings
        self._fleet = Fleet(RoadNetwork.load(settings.network))
        self._shared = SharedPosteriors(self._n, self._fleet.n_features, settings.handle)
        self._database = Database(settings.database)
        self._history = History(self._database, Reader(self._fleet))
        self._snapshots = Snapshots(
            Path(settings.snapshots), self._fleet.fingerprint(), self._database.identity()
        )
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[Any] | None = None
        self._saved_at = -1  # trips learned at the last snapshot
        self._version = 0
        self._memory = MatrixMemory()
        self._free = [slot != settings.busy_slot for slot in range(SLOTS)]
        self._changed = threading.Condition()
        self._woken = self._stopping = False
        self._tidied = -np.inf

    def listen(self) -> None:
        """Take settings until the input ends."""
        for line in sys.stdin:
            order = json.loads(line)
            with self._changed:
                match order:
                    case {"wake": True}:
                        self._woken = True
                    case {"free": int(slot)}:
                        self._free[slot] = True
                    case {"stop": True}:
                        self._stopping = True
                self._changed.notify_all()
        os._exit(1)  # the parent is gone; nothing here is worth keeping

    def run(self) -> None:
        """Learn until told to stop."""
        learned, problems = self._snapshots.newest()
        for problem in problems:
            _tell({"note": problem})
        if learned is None:
            learned = Learned(self._fleet.prior(), np.zeros(self._n), 0, Cursor())
        else:
            self._saved_at = learned.trips
        first = True
        while not self._stopping:
            began = time.monotonic()
            try:
                self._tidy()
                news = self._history.since(learned.cursor)
            except SQLAlchemyError as error:
                _tell({"note": f"the database cannot be read, trying again: {error}"})
                self._wait(_AFTER_ERROR_S)
                continue
            if news.restart and learned.cursor.epoch >= 0:
                _tell({"note": "the history was changed; reading all trips again"})
            learned = self._after(learned, news)
            if first or news.trips or news.restart:
                self._publish(learned, news)
                self._save_if_due(learned, at_once=news.restart and news.trips > 0)
            first = False
            # as long a rest as the work took: larger batches cost less per trip
            pause = min(time.monotonic() - began, 1.0) if news.trips else self._settings.poll_s
            self._wait(pause, until_woken=not news.trips)
        self._writer.shutdown(wait=True)  # a snapshot that is being written
        with contextlib.suppress(SQLAlchemyError):  # what was committed last
            learned = self._after(learned, self._history.since(learned.cursor))
        self._save(learned)

    @property
    def _n(self) -> int:
        return self._fleet.network.n_edges

    def _after(self, learned: Learned, news: NewTrips) -> Learned:
        """Return what is believed after the news."""
        belief, visits, trips = learned.belief, learned.visits, learned.trips
        if news.restart and learned.cursor.epoch >= 0:
            belief, visits, trips = self._fleet.prior(), np.zeros(self._n), 0
        with threadpool_limits(os.cpu_count() if news.restart else 1):
            if isinstance(belief, DenseGP):
                belief = belief.condition_evidence(news.evidence, self._memory)
            else:
                belief = belief.condition_evidence(news.evidence)
        return Learned(belief, visits + news.visits, trips + news.trips, news.cursor)

    def _publish(self, learned: Learned, news: NewTrips) -> None:
        self._version += 1
        with self._changed:
            self._changed.wait_for(lambda: any(self._free) or self._stopping)
            if not any(self._free):
                return
            slot = self._free.index(True)
            self._free[slot] = False
        posterior = RoadPosterior.of(learned.belief, learned.visits, trips=learned.trips)
        self._shared.write(slot, posterior)
        lag = (now_us() - news.oldest_us) / 1e6 if news.oldest_us else 0.0
        facts = {
            "slot": slot,
            "version": self._version,
            "trips": learned.trips,
            "distinct": int((learned.visits > 0).sum()),
            "lag_s": lag,
            "mark": learned.cursor.mark,
        }
        _tell({"posterior": facts})

    def _save_if_due(self, learned: Learned, *, at_once: bool) -> None:
        due = abs(learned.trips - self._saved_at) >= self._settings.snapshot_every
        if (due or at_once) and (self._writing is None or self._writing.done()):
            self._saved_at = learned.trips
            self._writing = self._writer.submit(self._save, learned)

    def _save(self, learned: Learned) -> None:
        try:
            self._snapshots.write(learned)
        except OSError as error:
            _tell({"note": f"a snapshot could not be written: {error}"})

    def _tidy(self) -> None:
        """Forget old routes, and fold old trips if they are not to be kept; once a day."""
        if time.monotonic() - self._tidied < _HOUSEKEEPING_S:
            return
        self._tidied = time.monotonic()
        days, retained = self._settings.route_days, self._settings.retain_days
        forget_routes(self._database, now_us() - int((min(days, retained) or days) * _DAY_US))
        if retained <= 0:
            return
        before = now_us() - int(retained * _DAY_US)
        forget_quarantined(self._database, before)
        if count := self._history.fold(before):
            _tell({"note": f"{count} trips older than the retention were folded"})

    def _wait(self, seconds: float, *, until_woken: bool = False) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or (until_woken and self._woken), timeout=seconds
            )
            self._woken = False


def _tell(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def encoded(settings: LearnerSettings) -> str:
    """Return settings as an argument of the command line."""
    return json.dumps(asdict(settings))


def main() -> None:
    """Run the learner of the settings given as the first argument."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent says when to stop
    learner = Learner(LearnerSettings(**json.loads(sys.argv[1])))
    threading.Thread(target=learner.listen, daemon=True).start()
    learner.run()


if __name__ == "__main__":
    main()
