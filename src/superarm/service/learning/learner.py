"""The process that learns: reads new trips, conditions the belief, hands posteriors over.

It is started by `superarm.service.learning.process` and speaks JSON lines: on its standard input
its settings, then ``wake``, ``free`` (with the slot that is no longer read) and ``stop``; on its
output ``posterior``, ``alarm``, ``away`` (the database) and ``note``. When its input ends, its
parent is gone, and it goes too; all that matters is in the database.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from superarm.roads.models.fleet import KNOWN, Fleet
from superarm.roads.network.network import RoadNetwork
from superarm.service.database import Database, now_us
from superarm.service.learning.fold import Fold, Progress
from superarm.service.learning.housekeeping import Housekeeping
from superarm.service.learning.shared import SLOTS, SharedPosteriors
from superarm.service.learning.snapshots import Learned, Snapshots
from superarm.service.trips.history import NewTrips
from superarm.service.trips.quarantine import forget_quarantined

_AFTER_ERROR_S = 2.0
_BETWEEN_RESTARTS_S = 5.0
_BETWEEN_SAVES_S = 300.0
"""How much of a long history is read again at the most when the learner is killed within it."""
_BETWEEN_SHOWN_S = 1.0
"""Copying a posterior and swapping it takes time that a backlog can use."""
_GRACE_S = 20.0
"""How long a stop waits for a batch, whose trips are read again at the next start otherwise."""
_NICE = 10


@dataclass(frozen=True)
class LearnerSettings:
    """What the learner is told when it starts, on its standard input.

    Attributes:
        network: file of the network.
        database: URL; it may hold a password, and so is on no command line.
        snapshots: folder.
        handle: of the shared memory.
        busy_slot: which slot of it is being read; -1 for none.
        snapshot_every: trips between snapshots.
        poll_s: how often to look for trips that others have stored.
        retain_days: after how many days trips are folded; zero for never.
    """

    network: str
    database: str
    snapshots: str
    handle: int
    busy_slot: int
    snapshot_every: int
    poll_s: float
    retain_days: float


class Learner:
    """Keeps a belief up to date and publishes it."""

    def __init__(
        self,
        settings: LearnerSettings,
        tell: Callable[[dict[str, object]], None],
    ) -> None:
        """Open everything.

        Args:
            settings: as the server gives them.
            tell: called with what the server shall know.
        """
        self._settings, self._tell = settings, tell
        network = Path(settings.network)
        self._fleet = Fleet(RoadNetwork.load(network), network.with_name(KNOWN))
        self._shared = SharedPosteriors(
            self._fleet.n_arms, self._fleet.n_draws, self._fleet.time_model, settings.handle
        )
        self._database = Database(settings.database)
        self._fold = Fold(self._fleet, self._database, tell)
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[Any] | None = None
        self._saved_at = 0  # trips learned at the last snapshot
        self._saved_s = time.monotonic()  # and when that was
        self._saving = threading.Lock()
        self._base: Learned | None = None  # what a stop within a batch saves
        self._last = threading.Lock()  # of whoever saves last; it is never given back
        self._hurry = threading.Timer(_GRACE_S, self._leave)
        self._hurry.daemon = True
        self._version = 0
        self._shown_s = -np.inf  # when something was published last
        self._free = [slot != settings.busy_slot for slot in range(SLOTS)]
        self._changed = threading.Condition()
        self._woken = self._stopping = False
        self._housekeeping = Housekeeping(settings.retain_days, tell)
        self._may_restart = -np.inf  # when the history may be read again
        self._restarted: float | None = None  # since when it is being read again, in pieces
        self._complete = False  # whether it has been read to its end since the start

    def listen(self) -> None:
        """Take orders until the input ends."""
        for line in sys.stdin:
            self.obey(json.loads(line))
        os._exit(1)  # the parent is gone; nothing here is worth keeping

    def obey(self, order: Mapping[str, Any]) -> None:
        """Note what is to be done."""
        with self._changed:
            match order:
                case {"wake": True}:
                    self._woken = True
                case {"free": int(slot)}:
                    self._free[slot] = True
                case {"stop": True} if not self._stopping:
                    self._stopping = True
                    self._hurry.start()
            self._changed.notify_all()

    def run(self) -> None:
        """Learn until told to stop."""
        progress = self._begin()
        fresh = True  # whether something was learned that is not published yet
        while not self._stopping:
            began = time.monotonic()
            try:
                # a second reading from the beginning waits until the first is through
                again = began >= self._may_restart and self._restarted is None
                progress, news = self._fold.further(progress, again=again)
                if progress.is_stored:
                    self._base = progress.base
                ends = not news.more and self._tidy(progress)
            except SQLAlchemyError as error:
                self._tell({"away": f"the database cannot be read, trying again: {_short(error)}"})
                self._wait(_AFTER_ERROR_S)
                continue
            took = time.monotonic() - began
            through = self._is_through(news, began)
            fresh = fresh or bool(news.trips) or news.restart
            if ends and not news.cursor.certain_at:  # the next reading may end the block
                continue
            if fresh and not news.more and self._judge(progress):
                continue  # nobody shall follow what such keys have taught
            if fresh and self._is_shown(news):
                fresh = False
                self._publish(progress, news)
                self._save_if_due(progress, news, at_once=through)
            if news.more:
                continue
            # as long a rest as the work took: larger batches cost less per trip
            pause = min(took, 1.0) if news.trips else self._settings.poll_s
            self._wait(pause, until_woken=not news.trips)
        self._writer.shutdown(wait=True)  # a snapshot that is being written
        self._last.acquire()
        self._hurry.cancel()
        self._save_last()

    def _leave(self) -> None:
        """Save what is known but for the batch that is being learned, and end."""
        if not self._last.acquire(blocking=False):
            return
        self._tell({"note": "stopped within a batch; its trips are learned at the next start"})
        if self._writing is not None:
            wait([self._writing])
        self._save_last()
        os._exit(0)

    def _save_last(self) -> None:
        """Save unless that was done, or there is nothing yet."""
        base = self._base
        if base is not None and base.cursor.epoch >= 0 and base.trips != self._saved_at:
            self._save(base)

    def _is_through(self, news: NewTrips[Any], began: float) -> bool:
        """Note how far the reading has come; say whether one from the beginning ends here."""
        if news.restart:
            self._restarted = began
        if news.more:
            return False
        self._complete = True
        if self._restarted is None:
            return False
        # not again at once, whoever changes the past again and again
        now = time.monotonic()
        self._may_restart = now + max(_BETWEEN_RESTARTS_S, 4 * (now - self._restarted))
        self._restarted = None
        return True

    def _is_shown(self, news: NewTrips[Any]) -> bool:
        """Say whether routes should follow what is believed now.

        In the middle of a history that is read again less is known than before. At the start a part
        of it is better than nothing, where all of it takes long. Of a backlog now and then.
        """
        if not news.more:
            return True
        if time.monotonic() - self._shown_s < _BETWEEN_SHOWN_S:
            return False
        if not news.cursor.anew:
            return True
        return self._fleet.n_draws > 0 and not self._complete and news.trips > 0

    def _begin(self) -> Progress:
        """Return what the newest snapshot knows, once the database says whose it is."""
        beginning = self._fold.beginning()
        while True:
            try:
                identity = self._database.identity()
                break
            except SQLAlchemyError as error:
                self._tell({"away": f"the database cannot be read, trying again: {_short(error)}"})
                self._wait(_AFTER_ERROR_S)
                if self._stopping:
                    return beginning
        folder = Path(self._settings.snapshots)
        times = self._fleet.time_model
        self._snapshots = Snapshots(
            folder, self._fleet.fingerprint(), identity, times, self._fleet.resumed
        )
        learned, problems = self._snapshots.newest()
        for problem in problems:
            self._tell({"note": problem})
        if learned is None:
            return beginning
        self._saved_at = learned.trips
        return Progress(learned, learned)

    def _judge(self, progress: Progress) -> list[str]:
        """Set keys aside that surprise beyond chance; all beliefs begin again without them."""
        try:
            names = self._fold.judge(progress)
        except SQLAlchemyError as error:  # they surprise again with the next batch
            self._tell({"away": f"keys could not be set aside: {_short(error)}"})
            return []
        if names:
            self._may_restart = -np.inf
        return names

    def _publish(self, progress: Progress, news: NewTrips[Any]) -> None:
        self._version += 1
        self._shown_s = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: any(self._free) or self._stopping)
            if not any(self._free):
                return
            slot = self._free.index(True)
            self._free[slot] = False
        now, trust = progress.now, progress.trust
        std = np.sqrt(now.belief.variance)
        self._shared.write(slot, now.belief, std, now.visits, now.times.posterior)
        lag = (now_us() - news.oldest_us) / 1e6 if news.oldest_us else 0.0
        facts = {
            "slot": slot,
            "version": self._version,
            "trips": now.trips,
            "distinct": int((now.visits > 0).sum()),
            "lag_s": lag,
            "mark": now.cursor.mark,
            "spread": trust.spread,
            "spreads": trust.spreads(),
            "surprises": {name: track.mean for name, track in trust.tracks.items()},
            "drift": trust.drift(),
            "contradiction": trust.contradiction(),
            "time_factors": trust.durations.factors(),
        }
        self._tell({"posterior": facts})

    def _save_if_due(self, progress: Progress, news: NewTrips[Any], *, at_once: bool) -> None:
        base = progress.base
        due = abs(base.trips - self._saved_at) >= self._settings.snapshot_every
        now = time.monotonic()
        if news.more:  # within a history that is a matter of time
            due = now - self._saved_s >= _BETWEEN_SAVES_S
        due = (due or at_once) and base.trips > 0 and progress.is_stored
        if due and (self._writing is None or self._writing.done()):
            self._saved_at, self._saved_s = base.trips, now
            self._writing = self._writer.submit(self._save, base)

    def _save(self, base: Learned) -> None:
        with self._saving:
            try:
                self._snapshots.write(base)
            except OSError as error:
                self._tell({"note": f"a snapshot could not be written: {error}"})

    def _tidy(self, progress: Progress) -> bool:
        """Fold old trips if they are not to be kept; return whether a block must end before that.

        What is to be folded must have been compared with others. If it belongs to the block that is
        open, the next reading ends that one.
        """
        before = self._housekeeping.due_us()
        if before is None:
            return False
        retention = self._fold.history.retention
        if progress.tail and retention.oldest_not_compared(before):
            self._fold.end_block(progress)
            return True
        self._housekeeping.done()
        forget_quarantined(self._database, before)
        if count := retention.fold(before):
            self._tell({"note": f"{count} trips older than the retention were folded"})
        return False

    def _wait(self, seconds: float, *, until_woken: bool = False) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or (until_woken and self._woken), timeout=seconds
            )
            self._woken = False


def _tell(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _short(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def main() -> None:
    """Run the learner of the settings given as the first line of the input."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent says when to stop
    with contextlib.suppress(OSError):
        os.nice(_NICE)  # those who wait for routes come first
    learner = Learner(LearnerSettings(**json.loads(sys.stdin.readline())), _tell)
    threading.Thread(target=learner.listen, daemon=True).start()
    learner.run()


if __name__ == "__main__":
    main()
