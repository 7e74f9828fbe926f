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
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError
from threadpoolctl import threadpool_limits

from superarm.arrays import Vector
from superarm.beliefs import DenseGP, EnsembleGP, MatrixMemory
from superarm.errors import SuperarmError
from superarm.navigation import RoadNetwork
from superarm.navigation.times import TravelTimes
from superarm.service.database import Database, now_us
from superarm.service.learning.comparing import compared
from superarm.service.learning.shared import SLOTS, SharedPosteriors
from superarm.service.learning.snapshots import Learned, Snapshots
from superarm.service.learning.trust import Trust, informed
from superarm.service.model.fleet import GAIN_VARIANCE, KNOWN, Fleet
from superarm.service.model.posterior import RoadPosterior
from superarm.service.model.trip import Reader
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.history import (
    Cursor,
    History,
    NewTrips,
    ReadTrip,
    bisected,
    sound_evidence,
    sound_times,
)
from superarm.service.trips.quarantine import forget_quarantined, move_aside
from superarm.service.trips.standings import Standing, set_aside

_DAY_US = 86_400_000_000
_HOUSEKEEPING_S = 86_400.0
_AFTER_ERROR_S = 2.0
_BETWEEN_RESTARTS_S = 5.0
_BETWEEN_SAVES_S = 300.0
"""How much of a long history is read again at the most when the learner is killed within it."""
_GRACE_S = 20.0
"""How long a stop waits for a batch, whose trips are read again at the next start otherwise."""
_MOST_JUMP_S = 3_600.0
_NICE = 10
_PIECE = 50_000
"""Trips that an ensemble reads and learns at one time: no long history lies in memory twice."""
_UNLEARNABLE = (ArithmeticError, ValueError, np.linalg.LinAlgError, SuperarmError)


@dataclass(frozen=True)
class Clock:
    """The time of day beside one that only goes forward."""

    day_s: float = field(default_factory=time.time)
    steady_s: float = field(default_factory=time.monotonic)

    def jump_s(self) -> float:
        """Return how far the time of day has jumped since."""
        return (time.time() - self.day_s) - (time.monotonic() - self.steady_s)


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

    def __init__(self, settings: LearnerSettings) -> None:
        """Open everything."""
        self._settings = settings
        network = Path(settings.network)
        self._fleet = Fleet(RoadNetwork.load(network), network.with_name(KNOWN))
        self._reader: Reader[Any] = Reader.of(self._fleet)
        self._shared = SharedPosteriors(
            self._fleet.n_arms, self._fleet.n_draws, self._fleet.time_model, settings.handle
        )
        self._database = Database(settings.database)
        self._history: History[Any] = History(self._database, self._reader)
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[Any] | None = None
        self._saved_at = -1  # trips learned at the last snapshot
        self._saved_s = time.monotonic()  # and when that was
        self._saving = threading.Lock()
        self._known: Learned | None = None  # what a stop within a batch saves
        self._last = threading.Lock()  # of whoever saves last; it is never given back
        self._hurry = threading.Timer(_GRACE_S, self._leave)
        self._hurry.daemon = True
        self._version = 0
        self._memory = MatrixMemory()
        self._free = [slot != settings.busy_slot for slot in range(SLOTS)]
        self._changed = threading.Condition()
        self._woken = self._stopping = False
        self._tidied = -np.inf
        self._clock = Clock()
        self._rng = np.random.default_rng()
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
        learned = self._known = self._begin()
        first, more = True, False
        while not self._stopping:
            began = time.monotonic()
            try:
                self._tidy()
                learned, news = self._further(learned, began)
                self._known, more = learned, news.more
            except SQLAlchemyError as error:
                _tell({"away": f"the database cannot be read, trying again: {_short(error)}"})
                self._wait(_AFTER_ERROR_S)
                continue
            took = time.monotonic() - began
            through = self._is_through(news, began)
            if first or ((news.trips or news.restart or news.goes_on) and self._is_shown(news)):
                self._publish(learned, news)
                self._save_if_due(learned, news, at_once=through and learned.trips > 0)
            first = False
            if news.more:
                continue
            self._judge(learned, news)
            # as long a rest as the work took: larger batches cost less per trip
            pause = min(took, 1.0) if news.trips else self._settings.poll_s
            self._wait(pause, until_woken=not news.trips)
        self._writer.shutdown(wait=True)  # a snapshot that is being written
        if not more:
            with contextlib.suppress(SQLAlchemyError):  # what was committed last
                learned, _ = self._further(learned, time.monotonic())
        self._last.acquire()
        self._hurry.cancel()
        if learned.cursor.epoch >= 0:
            self._save(learned)

    def _leave(self) -> None:
        """Save what is known but for the batch that is being learned, and end."""
        if not self._last.acquire(blocking=False):
            return
        known = self._known
        if known is not None and known.cursor.epoch >= 0:
            _tell({"note": "stopped within a batch; its trips are learned at the next start"})
            if self._writing is not None:
                wait([self._writing])
            if known.trips != self._saved_at:
                self._save(known)
        os._exit(0)

    def _further(self, learned: Learned, began: float) -> tuple[Learned, NewTrips[Any]]:
        """Return what is believed after the next piece of the history, and that piece."""
        # a second restart waits until the first is through
        again = began >= self._may_restart and self._restarted is None
        piece = _PIECE if self._fleet.n_draws else None
        news = self._history.since(learned.cursor, again=again, at_most=piece)
        return self._after(learned, news), news

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

        In the middle of a history that is read again less is known than before; at the start a
        part of it is better than nothing.
        """
        return not (news.more and news.cursor.anew and self._complete)

    def _begin(self) -> Learned:
        """Return what the newest snapshot knows, once the database says whose it is."""
        while True:
            try:
                identity = self._database.identity()
                break
            except SQLAlchemyError as error:
                _tell({"away": f"the database cannot be read, trying again: {_short(error)}"})
                self._wait(_AFTER_ERROR_S)
                if self._stopping:
                    return self._nothing()
        folder = Path(self._settings.snapshots)
        times = self._fleet.time_model
        self._snapshots = Snapshots(
            folder, self._fleet.fingerprint(), identity, times, self._fleet.resumed
        )
        learned, problems = self._snapshots.newest()
        for problem in problems:
            _tell({"note": problem})
        if learned is None:
            learned = self._nothing()
        else:
            self._saved_at = learned.trips
        return learned

    def _nothing(self) -> Learned:
        times = TravelTimes.before(self._fleet.time_model)
        return Learned(self._fleet.prior(), np.zeros(self._n), 0, Cursor(), times)

    def _before(self, belief: DenseGP | EnsembleGP) -> DenseGP | EnsembleGP:
        """Return what was believed before the first trip."""
        return belief.unlearned() if isinstance(belief, EnsembleGP) else self._fleet.prior()

    @property
    def _n(self) -> int:
        return self._fleet.network.n_edges

    def _after(self, learned: Learned, news: NewTrips[Any]) -> Learned:
        """Return what is believed after the news; what cannot be learned is put aside."""
        belief, visits, trips = learned.belief, learned.visits, learned.trips
        trust, times = learned.trust, learned.times
        if news.unreadable:
            _tell({"note": f"{news.unreadable} trips made no sense and were put aside"})
        if news.restart and learned.cursor.epoch >= 0:
            _tell({"note": "the history was changed; reading all trips again"})
            belief, visits, trips = self._before(belief), np.zeros(self._n), 0
            times = TravelTimes.before(self._fleet.time_model)
            known = {name for name, how in news.standings.items() if not how.is_aside}
            trust = trust.without([name for name in trust.tracks if name not in known])
        alone = news.restart or self._fleet.n_draws > 0
        threads = os.cpu_count() if alone else 1
        with threadpool_limits(threads):
            if not news.restart or learned.cursor.epoch < 0:
                trust = self._compared(belief, visits, trips, trust, news)
            try:
                after = self._conditioned(belief, news.evidence)
                visits, trips = visits + news.visits, trips + news.trips
                return Learned(after, visits, trips, news.cursor, times.after(news.times), trust)
            except _UNLEARNABLE as error:
                _tell({"note": f"a batch of {news.trips} trips cannot be learned: {error}"})
                before = Learned(belief, visits, trips, news.cursor, times, trust)
                return self._one_by_one(before, news)

    def _conditioned(self, belief: DenseGP | EnsembleGP, evidence: Any) -> DenseGP | EnsembleGP:  # noqa: ANN401 - as the reader sums up
        if isinstance(belief, DenseGP):
            after: DenseGP | EnsembleGP = belief.condition_evidence(evidence, self._memory)
        else:
            after = belief.condition_evidence(evidence)
        if not np.isfinite(after.mean).all():
            msg = "the posterior means are not finite"
            raise ArithmeticError(msg)
        return after

    def _one_by_one(self, learned: Learned, news: NewTrips[Any]) -> Learned:
        """Return what is believed after the trips that can be learned, found by halving."""
        belief, visits, trips = learned.belief, learned.visits, learned.trips
        times = learned.times

        def use(some: Sequence[ReadTrip]) -> None:
            nonlocal belief, visits, trips, times
            belief = self._conditioned(belief, sound_evidence(self._reader, some))
            times = times.after(sound_times(self._reader, some))
            visits = visits + self._reader.visits(one.trip for one in some)
            trips += len(some)

        bad: list[ReadTrip] = []
        for some in self._history.again(news):
            if isinstance(some, FoldedTrips):
                try:
                    belief = self._conditioned(belief, some.evidence)
                except _UNLEARNABLE as error:
                    _tell({"note": f"{some.trips} folded trips cannot be learned: {error}"})
                else:
                    visits, trips = visits + some.visits, trips + some.trips
                    times = times.after(some.times)
            else:
                bad += bisected(some, use)
        if bad:
            reason = "the learner cannot condition on this trip"
            count = move_aside(self._database, [one.sequence for one in bad], reason)
            _tell({"note": f"{count} trips could not be learned and were put aside"})
        return replace(learned, belief=belief, visits=visits, trips=trips, times=times)

    def _compared(
        self,
        belief: DenseGP | EnsembleGP,
        visits: Vector,
        trips: int,
        trust: Trust,
        news: NewTrips[Any],
    ) -> Trust:
        """Return whom to believe after comparing new trips with what was predicted."""
        posterior = RoadPosterior.of(self._fleet, belief, visits, trips=trips)
        some = [(one.key_id, one.trip, one.source) for one in news.singly if not one.source.vouched]
        try:
            return trust.after(compared(some, posterior, self._reader, self._rng))
        except _UNLEARNABLE as error:
            _tell({"note": f"trips could not be compared with predictions: {error}"})
            return trust

    def _judge(self, learned: Learned, news: NewTrips[Any]) -> None:
        """Set keys aside that surprise beyond chance; all beliefs begin again without them."""
        if not (news.trips or news.goes_on):
            return
        suspects = learned.trust.suspects(gains_of(self._fleet, learned.belief, news.standings))
        known = news.standings
        found = {
            name: reason
            for name, reason in suspects.items()
            if name in known and not known[name].is_aside
        }
        try:
            done = set_aside(self._database, found) if found else []
        except SQLAlchemyError as error:  # they surprise again with the next batch
            _tell({"away": f"keys could not be set aside: {_short(error)}"})
            return
        for name in done:
            _tell({"alarm": {"key": name, "reason": found[name]}})
            self._may_restart = -np.inf

    def _publish(self, learned: Learned, news: NewTrips[Any]) -> None:
        self._version += 1
        with self._changed:
            self._changed.wait_for(lambda: any(self._free) or self._stopping)
            if not any(self._free):
                return
            slot = self._free.index(True)
            self._free[slot] = False
        std = np.sqrt(learned.belief.variance)
        self._shared.write(slot, learned.belief, std, learned.visits, learned.times.posterior)
        lag = (now_us() - news.oldest_us) / 1e6 if news.oldest_us else 0.0
        trust = learned.trust
        facts = {
            "slot": slot,
            "version": self._version,
            "trips": learned.trips,
            "distinct": int((learned.visits > 0).sum()),
            "lag_s": lag,
            "mark": learned.cursor.mark,
            "spread": trust.spread,
            "spreads": trust.spreads(),
            "surprises": {name: track.mean for name, track in trust.tracks.items()},
            "drift": trust.drift(),
            "contradiction": trust.contradiction(),
        }
        _tell({"posterior": facts})

    def _save_if_due(self, learned: Learned, news: NewTrips[Any], *, at_once: bool) -> None:
        due = abs(learned.trips - self._saved_at) >= self._settings.snapshot_every
        now = time.monotonic()
        if news.more:  # within a history that is a matter of time
            due = now - self._saved_s >= _BETWEEN_SAVES_S
        if (due or at_once) and (self._writing is None or self._writing.done()):
            self._saved_at, self._saved_s = learned.trips, now
            self._writing = self._writer.submit(self._save, learned)

    def _save(self, learned: Learned) -> None:
        with self._saving:
            try:
                self._snapshots.write(learned)
            except OSError as error:
                _tell({"note": f"a snapshot could not be written: {error}"})

    def _tidy(self) -> None:
        """Fold old trips if they are not to be kept; once a day, by a clock that does not jump."""
        days = self._settings.retain_days
        if days <= 0 or time.monotonic() - self._tidied < _HOUSEKEEPING_S:
            return
        jump = self._clock.jump_s()
        if abs(jump) > _MOST_JUMP_S:
            self._clock = Clock()
            self._tidied = time.monotonic()
            _tell(
                {
                    "note": f"the clock has jumped by {jump:.0f} s; nothing is folded before it "
                    "has been steady for a day"
                }
            )
            return
        self._tidied = time.monotonic()
        before = now_us() - int(days * _DAY_US)
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


def gains_of(
    fleet: Fleet, belief: DenseGP | EnsembleGP, standings: Mapping[str, Standing]
) -> dict[str, float]:
    """Return the gains of keys over their own deviations, of those that are not vouched for."""
    n_edges = fleet.network.n_edges
    found = {}
    for name, how in standings.items():
        if how.slot is None or how.is_aside or how.vouched_at is not None:
            continue
        place = n_edges + how.slot
        z = informed(float(belief.mean[place]), float(belief.variance[place]), GAIN_VARIANCE)
        if z is not None:
            found[name] = z
    return found


def _short(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def main() -> None:
    """Run the learner of the settings given as the first line of the input."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent says when to stop
    with contextlib.suppress(OSError):
        os.nice(_NICE)  # those who wait for routes come first
    learner = Learner(LearnerSettings(**json.loads(sys.stdin.readline())))
    threading.Thread(target=learner.listen, daemon=True).start()
    learner.run()


if __name__ == "__main__":
    main()
